#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <sys/mman.h>

namespace peercache {

/// Tells a forked child from its parent without a system call per question: the kernel zeroes the page in a child
/// (MADV_WIPEONFORK, Linux 4.14).
///
/// THREAD:     any.
/// OWNS:       one page.
class ForkGuard {
 public:
  ForkGuard()
      : page_(
            mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (page_ == MAP_FAILED) return;
    static_cast<void>(madvise(page_, kPageBytes, MADV_WIPEONFORK));
    new (page_) std::atomic<uint32_t>(kAlive);
  }
  ~ForkGuard() {
    if (page_ != MAP_FAILED) munmap(page_, kPageBytes);
  }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  /// True in a child process: threads, sockets and rings of the parent are not ours.
  bool in_child() const noexcept {
    if (page_ == MAP_FAILED) return false;
    // Relaxed: written once before any reader exists.
    return static_cast<const std::atomic<uint32_t>*>(page_)->load(std::memory_order_relaxed) !=
           kAlive;
  }

 private:
  static constexpr size_t kPageBytes = 4096;
  static constexpr uint32_t kAlive = 1;
  void* page_;
};

}  // namespace peercache
