#include <algorithm>
#include <bit>

#include "dataplane/base/assert.h"
#include "dataplane/pool/published_pool_state.h"

namespace peercache {

namespace {

// Objects that a search for a window may count: a few milliseconds. The search is rare (a class
// grows at the expense of others), and settles for the best window so far.
constexpr uint32_t kWindowBudget = 1U << 16U;

}  // namespace

// The agent keeps no copy of locations: the header says the rest.
Location PublishedPool::State::location_of(SlotIndex slot) const {
  const SlotHeader& header = memory.headers[slot.value()];
  Location location{};
  location.key = header.key;
  location.node = options.node;
  location.offset_bytes = header.offset_bytes;
  location.sequence = header.sequence;
  location.slot = slot;
  location.generation = header.generation;
  location.length_bytes = header.length_bytes;
  location.incarnation = options.incarnation;
  location.region = memory.region;
  seal(location);
  return location;
}

// An object whose record is gone, or about to go, from the index.
void PublishedPool::State::note_gone(SlotIndex slot, const Location& location) {
  policy.remove(slot);
  space.retire(slot);
  counters.objects_count.set(counters.objects_count.value() - 1);
  counters.bytes_used.set(counters.bytes_used.value() - location.length_bytes);
  listener->on_retired(location);
}

void PublishedPool::State::retire_object(SlotIndex slot) {
  const Location location = location_of(slot);
  index->erase(location);  // false for an object whose record was dropped from full buckets
  note_gone(slot, location);
}

// (P4) all objects together; REQUIRES: no resident children.
void PublishedPool::State::evict_group(GroupIndex group) {
  for (uint32_t left = policy.member_count(group); left > 0; --left) {
    retire_object(policy.first_member(group));
    counters.evicted_count.add();
  }
}

// (P4) tails before heads.
void PublishedPool::State::evict_with_descendants(GroupIndex group) {
  GroupIndex at = policy.tail_under(group);
  while (at != group) {
    const GroupIndex parent = policy.parent_of(at);
    evict_group(at);
    at = policy.tail_under(parent);
  }
  evict_group(group);
}

// Each step frees a slot of the class, or removes a tail from before one: nothing is evicted in
// vain.
void PublishedPool::State::evict_own(SizeClassIndex size_class, uint32_t needed_count) {
  while (space.free_count(size_class) < needed_count) {
    if (const GroupIndex group = policy.victim(size_class); group != kNoGroup) {
      evict_group(group);
      continue;
    }
    // Every object of the class has tails of other classes behind it.
    const std::optional<SlotIndex> slot = any_published(size_class);
    if (!slot) {
      return;
    }
    evict_with_descendants(policy.group_of(*slot));
  }
}

std::optional<SlotIndex> PublishedPool::State::any_published(SizeClassIndex size_class) const {
  std::optional<SlotIndex> found;
  uint64_t oldest_publish = UINT64_MAX;
  for (const ExtentIndex index_of : space.by_address()) {
    const Extent& extent = space.extent(index_of);
    if (extent.size_class != size_class || extent.published_count == 0 ||
        extent.newest_publish >= oldest_publish) {
      continue;
    }
    oldest_publish = extent.newest_publish;
    found.reset();
    space.for_each_slot(index_of, [&](SlotIndex slot) PC_NO_THREAD_ANALYSIS {
      if (!found && space.holder(slot) == SlotHolder::kPublished) {
        found = slot;
      }
    });
  }
  return found;
}

// The classes that have extents, and the one that asks, divide the region.
const PublishedPool::State::Shares& PublishedPool::State::shares_with(SizeClassIndex size_class) {
  const bool in_use = space.class_bytes(size_class) > 0;
  const uint32_t extra_class = in_use ? kNoClass : size_class.value();
  if (shares_version != space.extents_version() || shares_extra_class != extra_class) {
    std::array<uint32_t, limits::kSizeClassesMax> slot_bytes{};
    for (uint8_t i = 0; i < narrow<uint8_t>(classes.count()); ++i) {
      const SizeClassIndex other(i);
      const bool counts = other == size_class || space.class_bytes(other) > 0;
      slot_bytes[i] = counts ? classes.slot_bytes(other) : 0;
    }
    shares = class_shares(classes.region_bytes(), slot_bytes);
    shares_version = space.extents_version();
    shares_extra_class = extra_class;
  }
  return shares;
}

uint32_t PublishedPool::State::objects_with(ExtentIndex extent, uint32_t limit_count) {
  uint32_t count = 0;
  if (space.extent(extent).published_count == 0) {
    return 0;
  }
  space.for_each_slot(extent, [&](SlotIndex slot) PC_NO_THREAD_ANALYSIS {
    if (count <= limit_count && space.holder(slot) == SlotHolder::kPublished) {
      count += policy.count_with(slot, limit_count - count);
    }
  });
  return count;
}

// The shortest window that begins with the extent at `position`, if the donors can spare it.
std::optional<PublishedPool::State::Window> PublishedPool::State::window_from(
    size_t position,
    SizeClassIndex size_class,
    Donors donors,
    const Shares& class_share,
    uint32_t& budget_count) {
  const std::vector<ExtentIndex>& order = space.by_address();
  const uint64_t start = position == 0 ? 0 : space.extent(order[position - 1]).run.end_index();
  std::array<uint64_t, limits::kSizeClassesMax> taken_bytes{};
  Window window{.first_position = position};
  policy.begin_count();
  for (size_t at = position; at < order.size(); ++at) {
    const Extent& extent = space.extent(order[at]);
    const uint8_t donor = extent.size_class.value();
    if (extent.size_class == size_class || extent.granted_count != 0) {
      return std::nullopt;
    }
    if (extent.published_count != 0) {
      // Idle extents are free space that happens to be cut already; the others are a loss to their
      // class.
      taken_bytes[donor] += extent.run.count * options.granule_bytes;
      if (donors == Donors::kIdleOnly ||
          space.class_bytes(extent.size_class) < class_share[donor] + taken_bytes[donor]) {
        return std::nullopt;
      }
    }
    const uint32_t object_count = objects_with(order[at], budget_count);
    if (object_count > budget_count) {
      budget_count = 0;
      return std::nullopt;
    }
    budget_count -= object_count;
    window.object_count += object_count;
    window.newest_publish = std::max(window.newest_publish, extent.newest_publish);
    ++window.extent_count;
    const uint64_t end =
        at + 1 < order.size() ? space.extent(order[at + 1]).run.first_index : space.granule_count();
    if (end - start >= classes.slot_granules(size_class)) {
      return window;
    }
  }
  return std::nullopt;
}

// The window that costs least: in orders of magnitude of objects lost, then by age.
std::optional<PublishedPool::State::Window> PublishedPool::State::find_window(
    SizeClassIndex size_class,
    Donors donors) {
  const Shares& now_shares = shares_with(size_class);
  if (donors == Donors::kAboveShare &&
      space.class_bytes(size_class) + classes.slot_bytes(size_class) >
          now_shares[size_class.value()]) {
    return std::nullopt;
  }
  std::optional<Window> best;
  uint32_t budget_count = kWindowBudget;
  const auto cost = [](const Window& window) {
    return std::pair(std::bit_width(window.object_count), window.newest_publish);
  };
  for (size_t position = 0; position < space.by_address().size(); ++position) {
    const std::optional<Window> window =
        window_from(position, size_class, donors, now_shares, budget_count);
    if (window && (!best || cost(*window) < cost(*best))) {
      best = window;
    }
    if (budget_count == 0) {
      break;
    }
  }
  return best;
}

// Makes room for at least one more slot, at the expense of other classes; chosen whole before
// anything is evicted.
bool PublishedPool::State::take_window(SizeClassIndex size_class, Donors donors) {
  const std::optional<Window> window = find_window(size_class, donors);
  if (!window) {
    return false;
  }
  for (size_t i = 0; i < window->extent_count; ++i) {
    space.for_each_slot(space.by_address()[window->first_position + i],
                        [&](SlotIndex slot) PC_NO_THREAD_ANALYSIS {
                          if (space.holder(slot) == SlotHolder::kPublished) {
                            evict_with_descendants(policy.group_of(slot));
                          }
                        });
  }
  for (size_t i = 0; i < window->extent_count; ++i) {
    space.release(
        space.by_address()[window->first_position]);  // the next one moves into its position
  }
  const bool grown = space.grow(size_class);
  PC_ASSERT(grown, size_class, window->extent_count);
  return true;
}

}  // namespace peercache
