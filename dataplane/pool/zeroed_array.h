#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "dataplane/base/assert.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace peercache {

/// A fixed array whose elements start as zero bytes and whose pages are taken when they are first
/// touched: tables of the pool have an entry for each granule, but most pools use one in many.
///
/// THREAD:     as its elements.
/// OWNS:       the memory.
/// COST:       one allocation in open; indices are checked where asserts are dear to nobody
/// (PC_DASSERT).
template <class T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  ZeroedArray() = default;
  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;
  ~ZeroedArray() { std::free(allocation_); }

  /// Errors: kNoMemory. REQUIRES: not open yet.
  Result<void> open(uint64_t count) {
    PC_ASSERT(allocation_ == nullptr && count > 0, count);
    // calloc leaves large blocks untouched; room to align the start.
    allocation_ = std::calloc(1, count * sizeof(T) + alignof(T));
    if (allocation_ == nullptr) {
      return make_error(Errc::kNoMemory, "no memory for {} entries of {} bytes", count, sizeof(T));
    }
    const auto address = reinterpret_cast<uintptr_t>(allocation_);
    entries_ = reinterpret_cast<T*>((address + alignof(T) - 1) / alignof(T) * alignof(T));
    count_ = count;
    return {};
  }

  T& operator[](uint64_t i) {
    PC_DASSERT(i < count_, i, count_);
    return entries_[i];
  }
  const T& operator[](uint64_t i) const {
    PC_DASSERT(i < count_, i, count_);
    return entries_[i];
  }
  [[nodiscard]] uint64_t size() const { return count_; }
  [[nodiscard]] T* data() { return entries_; }

 private:
  void* allocation_ = nullptr;
  T* entries_ = nullptr;
  uint64_t count_ = 0;
};

}  // namespace peercache
