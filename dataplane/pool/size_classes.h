#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace peercache {

/// The slot sizes of a pool, made on demand: an object length rounded up to the granule. A class is
/// never removed.
///
/// THREAD:     `ensure` under the caller's lock; the others any.
/// INVARIANTS: (C1) classes differ in size; each is a positive multiple of the granule. (C2) one
/// slot of each class fits the
///             region at the same time, so that every class can hold something.
/// COST:       O(classes).
class SizeClasses {
 public:
  SizeClasses(uint32_t granule_bytes, uint64_t region_bytes)
      : granule_bytes_(granule_bytes), region_bytes_(region_bytes) {}

  /// The class for objects of this length. When all limits::kSizeClassesMax are in use, the
  /// smallest existing one that wastes at most a quarter of its slot. Errors: kInvalidArgument
  /// (length 0), kNoSizeClass, kPoolTooSmall.
  Result<SizeClassIndex> ensure(uint32_t length_bytes);

  [[nodiscard]] uint32_t count() const {
    // C1 acquire: meets C2 in ensure(); sizes below the count are readable.
    return count_.load(std::memory_order_acquire);
  }
  /// REQUIRES: size_class < count().
  [[nodiscard]] uint32_t slot_bytes(SizeClassIndex size_class) const;
  [[nodiscard]] uint32_t slot_granules(SizeClassIndex size_class) const {
    return slot_bytes(size_class) / granule_bytes_;
  }
  [[nodiscard]] uint32_t granule_bytes() const { return granule_bytes_; }
  [[nodiscard]] uint64_t region_bytes() const { return region_bytes_; }

 private:
  [[nodiscard]] uint32_t largest_bytes() const;

  uint32_t granule_bytes_;
  uint64_t region_bytes_;
  std::array<uint32_t, limits::kSizeClassesMax> slot_bytes_{};
  std::atomic<uint32_t> count_{0};
};

/// How many bytes of a region each class in use may keep whatever the others want. The region is
/// divided evenly; a class whose slot is larger than an even part gets one slot, and the others
/// divide the rest. `slot_bytes[i]` is 0 for classes that are not in use; their share is 0.
/// REQUIRES: (C2).
std::array<uint64_t, limits::kSizeClassesMax> class_shares(
    uint64_t region_bytes,
    const std::array<uint32_t, limits::kSizeClassesMax>& slot_bytes);

}  // namespace peercache
