#include "dataplane/pool/slot_space.h"

#include <algorithm>

#include "dataplane/base/assert.h"
#include "dataplane/base/ordering.h"
#include "dataplane/pool/slot_life.h"

namespace peercache {

namespace {

// Extents that can exist at the same time. Pools have some 64 (the default extent is a 64th of the
// region); the limit only bounds what a tiny extent_bytes can ask for.
constexpr uint64_t kExtentsMax = 1U << 16U;

bool is_idle(const Extent& extent) {
  return extent.granted_count == 0 && extent.published_count == 0;
}

}  // namespace

SlotSpace::SlotSpace(const SizeClasses& classes,
                     SlotHeader* headers,
                     uint64_t granule_count,
                     uint64_t extent_bytes)
    : classes_(classes),
      headers_(headers),
      extent_bytes_(extent_bytes),
      extents_max_(std::min(granule_count, kExtentsMax)),
      granules_(granule_count, extents_max_ + 1) {}

Result<void> SlotSpace::open() {
  PC_TRY(free_.open(granule_count()));
  PC_TRY(slots_.open(granule_count()));
  PC_TRY(extents_.open(extents_max_));
  unused_extents_.reserve(extents_max_);
  for (uint64_t i = extents_max_; i > 0; --i) {
    unused_extents_.push_back(static_cast<uint32_t>(i - 1));
  }
  by_address_.reserve(extents_max_);
  return {};
}

bool SlotSpace::grow(SizeClassIndex size_class) {
  if (unused_extents_.empty()) {
    return false;
  }
  const uint32_t slot_granules = classes_.slot_granules(size_class);
  uint64_t slot_count = std::max<uint64_t>(1, extent_bytes_ / classes_.slot_bytes(size_class));
  // The rest of a region is rarely a whole extent: halves, down to one slot.
  std::optional<GranuleRun> run = granules_.allocate(slot_count * slot_granules);
  while (!run && slot_count > 1) {
    slot_count = (slot_count + 1) / 2;
    run = granules_.allocate(slot_count * slot_granules);
  }
  if (!run) {
    return false;
  }
  const uint32_t index = unused_extents_.back();
  unused_extents_.pop_back();
  Extent& extent = extents_[index];
  extent = Extent{.run = *run,
                  .newest_publish = 0,
                  .slot_granules = slot_granules,
                  .slot_count = static_cast<uint32_t>(slot_count),
                  .granted_count = 0,
                  .published_count = 0,
                  .size_class = size_class};
  const auto place = std::ranges::upper_bound(
      by_address_, run->first_index, {},
      [&](ExtentIndex other) { return extents_[other.value()].run.first_index; });
  by_address_.insert(place, ExtentIndex(index));
  class_bytes_[size_class.value()] += run->count * classes_.granule_bytes();
  ++idle_extent_count_;
  ++extents_version_;
  for_each_slot(ExtentIndex(index), [&](SlotIndex slot) {
    SlotHeader& header = headers_[slot.value()];
    PC_ASSERT(slots_[slot.value()].holder == SlotHolder::kNobody, slot);
    PC_ASSERT(header.state == SlotState::kFree, slot, header.state);
    racy_store(&header.offset_bytes, uint64_t{slot.value()} * classes_.granule_bytes());
    slots_[slot.value()] = Slot{.extent = index, .holder = SlotHolder::kFree};
    free_.push_back(size_class, slot);
  });
  return true;
}

void SlotSpace::release(ExtentIndex index) {
  Extent& extent = extents_[index.value()];
  PC_ASSERT(extent.slot_count > 0 && is_idle(extent), index, extent.granted_count,
            extent.published_count);
  for_each_slot(index, [&](SlotIndex slot) {
    PC_ASSERT(holder(slot) == SlotHolder::kFree, slot, holder(slot));
    free_.remove(extent.size_class, slot);
    slots_[slot.value()] = Slot{};
    end_geometry(headers_[slot.value()]);
  });
  const auto place = std::ranges::find(by_address_, index);
  by_address_.erase(place);
  class_bytes_[extent.size_class.value()] -= extent.run.count * classes_.granule_bytes();
  --idle_extent_count_;
  ++extents_version_;
  granules_.free(extent.run);
  extent = Extent{};
  unused_extents_.push_back(index.value());
}

std::optional<SlotIndex> SlotSpace::grant(SizeClassIndex size_class) {
  const std::optional<SlotIndex> slot = free_.pop_front(size_class);
  if (slot) {
    set_holder(*slot, SlotHolder::kGranted);
  }
  return slot;
}

void SlotSpace::ungrant(SlotIndex slot) {
  PC_ASSERT(holder(slot) == SlotHolder::kGranted, slot, holder(slot));
  set_holder(slot, SlotHolder::kFree);
  free_.push_front(class_of(slot), slot);
}

void SlotSpace::discard(SlotIndex slot) {
  SlotHeader& header = headers_[slot.value()];
  PC_ASSERT(holder(slot) == SlotHolder::kGranted, slot, holder(slot));
  if (header.state == SlotState::kPublished) {
    retire_life(header);
  } else if (header.state == SlotState::kFilling) {
    free_life(header);
  }
  set_holder(slot, SlotHolder::kFree);
  free_.push_back(class_of(slot), slot);
}

void SlotSpace::publish(SlotIndex slot) {
  PC_ASSERT(holder(slot) == SlotHolder::kGranted, slot, holder(slot));
  PC_ASSERT(headers_[slot.value()].state == SlotState::kPublished, slot,
            headers_[slot.value()].state);
  set_holder(slot, SlotHolder::kPublished);
  extent_at(slot).newest_publish = ++publish_stamp_;
}

void SlotSpace::retire(SlotIndex slot) {
  PC_ASSERT(holder(slot) == SlotHolder::kPublished, slot, holder(slot));
  retire_life(headers_[slot.value()]);
  set_holder(slot, SlotHolder::kFree);
  free_.push_back(class_of(slot), slot);
}

void SlotSpace::set_holder(SlotIndex slot, SlotHolder holder) {
  Slot& entry = slots_[slot.value()];
  Extent& extent = extents_[entry.extent];
  const bool was_idle = is_idle(extent);
  extent.granted_count -= entry.holder == SlotHolder::kGranted ? 1 : 0;
  extent.published_count -= entry.holder == SlotHolder::kPublished ? 1 : 0;
  extent.granted_count += holder == SlotHolder::kGranted ? 1 : 0;
  extent.published_count += holder == SlotHolder::kPublished ? 1 : 0;
  entry.holder = holder;
  note_idle(extent, was_idle);
}

void SlotSpace::note_idle(const Extent& extent, bool was_idle) {
  const bool idle = is_idle(extent);
  idle_extent_count_ += idle && !was_idle ? 1 : 0;
  idle_extent_count_ -= was_idle && !idle ? 1 : 0;
}

void SlotSpace::check_invariants() const {
  granules_.check_invariants();
  std::array<uint64_t, limits::kSizeClassesMax> class_bytes{};
  std::array<uint32_t, limits::kSizeClassesMax> free_count{};
  uint64_t used_count = 0;
  uint64_t last_end = 0;
  uint32_t idle_count = 0;
  uint64_t slot_count = 0;
  for (const ExtentIndex index : by_address_) {
    const Extent& extent = extents_[index.value()];
    PC_ASSERT(extent.slot_count > 0 && extent.run.first_index >= last_end, index);  // (S3) (S4)
    last_end = extent.run.end_index();
    PC_ASSERT(extent.run.count == uint64_t{extent.slot_count} * extent.slot_granules, index);
    used_count += extent.run.count;
    class_bytes[extent.size_class.value()] += extent.run.count * classes_.granule_bytes();
    idle_count += is_idle(extent) ? 1 : 0;
    uint32_t granted_count = 0;
    uint32_t published_count = 0;
    for_each_slot(index, [&](SlotIndex slot) {
      const Slot& entry = slots_[slot.value()];
      const SlotHeader& header = headers_[slot.value()];
      ++slot_count;
      PC_ASSERT(entry.extent == index.value() && entry.holder != SlotHolder::kNobody,
                slot);  // (S1) (S2)
      PC_ASSERT(header.offset_bytes == uint64_t{slot.value()} * classes_.granule_bytes(), slot);
      granted_count += entry.holder == SlotHolder::kGranted ? 1 : 0;
      published_count += entry.holder == SlotHolder::kPublished ? 1 : 0;
      free_count[extent.size_class.value()] += entry.holder == SlotHolder::kFree ? 1 : 0;
      if (entry.holder == SlotHolder::kPublished) {
        PC_ASSERT(header.state == SlotState::kPublished, slot, header.state);
      } else if (entry.holder == SlotHolder::kFree) {
        PC_ASSERT(header.state == SlotState::kFree || header.state == SlotState::kRetired, slot,
                  header.state);
      }
    });
    PC_ASSERT(granted_count == extent.granted_count, granted_count, extent.granted_count);  // (S1)
    PC_ASSERT(published_count == extent.published_count, published_count,
              extent.published_count);  // (S1)
  }
  PC_ASSERT(used_count + granules_.free_count() == granule_count(), used_count,
            granules_.free_count());  // (S3)
  for (const GranuleRun& run : granules_.free_runs()) {
    for (uint64_t i = run.first_index; i < run.end_index(); ++i) {
      PC_ASSERT(slots_[i].holder == SlotHolder::kNobody, i);  // (S3)
      PC_ASSERT(headers_[i].state == SlotState::kFree, i);
    }
  }
  PC_ASSERT(idle_count == idle_extent_count_, idle_count, idle_extent_count_);
  for (uint8_t i = 0; i < limits::kSizeClassesMax; ++i) {
    uint32_t listed_count = 0;
    free_.for_each(SizeClassIndex(i), [&](SlotIndex slot) {
      ++listed_count;
      PC_ASSERT(holder(slot) == SlotHolder::kFree && class_of(slot).value() == i, slot,
                i);  // (S1) (S2)
    });
    PC_ASSERT(listed_count == free_.count(SizeClassIndex(i)) && listed_count == free_count[i], i,
              listed_count);
    PC_ASSERT(class_bytes[i] == class_bytes_[i], i, class_bytes[i], class_bytes_[i]);
  }
}

}  // namespace peercache
