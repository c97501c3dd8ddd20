#pragma once

#include <cstddef>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace peercache {

/// Owns one C handle. Traits say what it is: `using Handle`, `static Handle none()`, `static void
/// close(Handle)`.
///
/// THREAD:     one owner at a time.
/// OWNS:       the handle; closed on destruction, reset and overwriting.
template <class Traits>
class [[nodiscard]] UniqueHandle {
 public:
  using Handle = typename Traits::Handle;

  UniqueHandle() noexcept = default;
  explicit UniqueHandle(Handle handle) noexcept : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(other.release()) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset(other.release());
    }
    return *this;
  }
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  ~UniqueHandle() { reset(); }

  [[nodiscard]] const Handle& get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != Traits::none(); }

  /// Gives the handle up without closing it.
  Handle release() noexcept { return std::exchange(handle_, Traits::none()); }

  void reset(Handle handle = Traits::none()) noexcept {
    const Handle old = std::exchange(handle_, handle);
    if (old != Traits::none()) {
      Traits::close(old);
    }
  }

 private:
  Handle handle_ = Traits::none();
};

struct FdTraits {
  using Handle = int;
  static Handle none() noexcept { return -1; }
  static void close(Handle fd) noexcept {
    ::close(fd);  // NOLINT(clang-analyzer-unix.StdCLibraryFunctions): never called with none()
  }
};
/// A file descriptor.
using UniqueFd = UniqueHandle<FdTraits>;

/// An address range from mmap.
///
/// THREAD:     any; a value.
struct MappedRange {
  std::byte* data = nullptr;
  size_t bytes = 0;
  friend bool operator==(const MappedRange&, const MappedRange&) = default;
};
struct MappingTraits {
  using Handle = MappedRange;
  static Handle none() noexcept { return {}; }
  static void close(Handle range) noexcept { ::munmap(range.data, range.bytes); }
};
/// A mapping; unmapped as a whole.
using UniqueMapping = UniqueHandle<MappingTraits>;

}  // namespace peercache
