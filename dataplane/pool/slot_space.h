#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/pool/extent_allocator.h"
#include "dataplane/pool/free_slots.h"
#include "dataplane/pool/size_classes.h"
#include "dataplane/pool/zeroed_array.h"
#include "dataplane/wire/slot_header.h"

namespace peercache {

/// Who has a slot.
enum class SlotHolder : uint8_t {
  kNobody = 0,   ///< no slot begins at this granule
  kFree = 1,     ///< in the class's list; its header says FREE, or RETIRED until a client takes it
  kGranted = 2,  ///< a client's, from grant to its message
  kPublished = 3,
};

/// Names an extent; indices are reused.
using ExtentIndex = StrongId<struct ExtentIndexTag, uint32_t>;

/// A run of granules cut into slots of one class.
struct Extent {
  GranuleRun run;
  uint64_t newest_publish;  ///< stamp of the youngest object that came into it
  uint32_t slot_granules;
  uint32_t slot_count;
  uint32_t granted_count;
  uint32_t published_count;
  SizeClassIndex size_class;
};

/// The region as granules, extents and slots: who has which. Moves the slot headers along where a
/// step of a slot's life belongs to the agent.
///
/// THREAD:     its owner (the pool agent).
/// BORROWS:    the header table and the size classes.
/// INVARIANTS: (S1) a slot is free, granted or published, and counted so in its extent and class.
/// (S2) a class's slots come
///             only from its own extents. (S3) granules are either free or in exactly one extent.
///             (S4) `by_address` lists the extents in order.
/// COST:       O(1) per slot step; O(extents) to make or release an extent. No allocation after
/// open.
class SlotSpace {
 public:
  SlotSpace(const SizeClasses& classes,
            SlotHeader* headers,
            uint64_t granule_count,
            uint64_t extent_bytes);

  /// Errors: kNoMemory.
  Result<void> open();

  /// Cuts a new extent for the class out of free granules: as many slots as wanted per extent, or
  /// as fit. False if not even one fits.
  bool grow(SizeClassIndex size_class);

  /// Gives an extent's granules back; its slots' generations move on. REQUIRES: nothing in it is
  /// granted or published.
  void release(ExtentIndex extent);

  /// Takes the oldest free slot for a client. Its header stays: a retired object is readable until
  /// the client takes the slot out of its ring.
  std::optional<SlotIndex> grant(SizeClassIndex size_class);
  /// The grant was taken back before its client saw it.
  void ungrant(SlotIndex slot);
  /// The client gave it back: FREE, FILLING, or PUBLISHED but unwanted.
  void discard(SlotIndex slot);
  void publish(SlotIndex slot);
  /// PUBLISHED -> RETIRED; the bytes stay until the slot is granted again.
  void retire(SlotIndex slot);

  [[nodiscard]] SlotHolder holder(SlotIndex slot) const { return slots_[slot.value()].holder; }
  [[nodiscard]] SizeClassIndex class_of(SlotIndex slot) const { return extent_of(slot).size_class; }
  [[nodiscard]] const Extent& extent_of(SlotIndex slot) const {
    return extents_[slots_[slot.value()].extent];
  }
  [[nodiscard]] const Extent& extent(ExtentIndex index) const { return extents_[index.value()]; }
  [[nodiscard]] const std::vector<ExtentIndex>& by_address() const { return by_address_; }
  [[nodiscard]] const ExtentAllocator& granules() const { return granules_; }
  [[nodiscard]] uint64_t granule_count() const { return granules_.granule_count(); }
  [[nodiscard]] uint32_t free_count(SizeClassIndex size_class) const {
    return free_.count(size_class);
  }
  [[nodiscard]] uint64_t class_bytes(SizeClassIndex size_class) const {
    return class_bytes_[size_class.value()];
  }
  /// Extents in which every slot is free.
  [[nodiscard]] uint32_t idle_extent_count() const { return idle_extent_count_; }
  /// Changes whenever an extent is made or released.
  [[nodiscard]] uint64_t extents_version() const { return extents_version_; }

  template <class Fn>
  void for_each_slot(ExtentIndex index, Fn&& fn) const {
    const Extent& extent = extents_[index.value()];
    for (uint32_t i = 0; i < extent.slot_count; ++i) {
      fn(SlotIndex(
          static_cast<uint32_t>(extent.run.first_index + uint64_t{i} * extent.slot_granules)));
    }
  }

  void check_invariants() const;

 private:
  struct Slot {
    uint32_t extent;
    SlotHolder holder;
  };

  Extent& extent_at(SlotIndex slot) { return extents_[slots_[slot.value()].extent]; }
  void set_holder(SlotIndex slot, SlotHolder holder);
  void note_idle(const Extent& extent, bool was_idle);

  const SizeClasses& classes_;
  SlotHeader* headers_;
  uint64_t extent_bytes_;
  uint64_t extents_max_;
  ExtentAllocator granules_;
  FreeSlots free_;
  ZeroedArray<Slot> slots_;
  ZeroedArray<Extent> extents_;
  std::vector<uint32_t> unused_extents_;  // indices
  std::vector<ExtentIndex> by_address_;
  std::array<uint64_t, limits::kSizeClassesMax> class_bytes_{};
  uint64_t publish_stamp_ = 0;
  uint32_t idle_extent_count_ = 0;
  uint64_t extents_version_ = 0;
};

}  // namespace peercache
