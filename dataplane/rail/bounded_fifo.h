#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "dataplane/base/assert.h"

namespace peercache {

/// A queue of fixed capacity within one thread. Whoever uses it knows why it cannot overflow: doing
/// so is a bug.
///
/// THREAD:     its owner's.
/// OWNS:       `capacity` entries, taken at construction.
/// INVARIANTS: (B1) tail - head <= capacity; both wrap at 2^32, which the capacity divides.
/// COST:       a masked index per call; remove_if is O(size).
template <class T>
class BoundedFifo {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// REQUIRES: capacity is a power of two.
  explicit BoundedFifo(uint32_t capacity)
      : mask_(capacity - 1), entries_(std::make_unique<T[]>(capacity)) {
    PC_ASSERT(capacity != 0 && (capacity & (capacity - 1)) == 0, capacity);
  }

  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] uint32_t size() const noexcept { return tail_ - head_; }

  void push_back(const T& entry) noexcept {
    PC_ASSERT(size() <= mask_, size());  // (B1)
    entries_[tail_++ & mask_] = entry;
  }
  void push_front(const T& entry) noexcept {
    PC_ASSERT(size() <= mask_, size());  // (B1)
    entries_[--head_ & mask_] = entry;
  }
  /// REQUIRES: not empty.
  T pop_front() noexcept {
    PC_DASSERT(!empty());
    return entries_[head_++ & mask_];
  }
  [[nodiscard]] const T& front() const noexcept {
    PC_DASSERT(!empty());
    return entries_[head_ & mask_];
  }

  /// Removes the entries for which `fn(const T&)` is true, keeping the order of the others.
  template <class Fn>
  void remove_if(Fn&& fn) noexcept {
    uint32_t kept = head_;
    for (uint32_t at = head_; at != tail_; ++at) {
      const T entry = entries_[at & mask_];
      if (!fn(entry)) {
        entries_[kept++ & mask_] = entry;
      }
    }
    tail_ = kept;
  }

 private:
  const uint32_t mask_;
  const std::unique_ptr<T[]> entries_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
};

}  // namespace peercache
