#include <algorithm>

#include "dataplane/base/assert.h"
#include "dataplane/pool/published_pool_state.h"

namespace peercache {

namespace {

// Of a class's share, this part may wait in the rings of its clients by eviction: 3 %. A pool of 16
// slots keeps nothing ready, so that all 16 can hold objects.
constexpr uint64_t kReadyPart = 32;

// A client that took and announced nothing for so long wants nothing; what it has ready may go to
// others.
constexpr Nanos kIdleAfter = std::chrono::seconds(5);

uint32_t kept_count(const ClassSupply::Seen& seen, uint64_t fair_count) {
  return std::max(seen.remaining_count,
                  static_cast<uint32_t>(std::min<uint64_t>(seen.demand_count, fair_count)));
}

}  // namespace

int PublishedPool::State::refill(Nanos now) {
  int work = 0;
  const uint32_t class_count = classes.count();
  std::array<Shared*, limits::kClientsMax> attached{};
  uint32_t attached_count = 0;
  for_each_client([&](Shared& shared) { attached[attached_count++] = &shared; });
  for (uint8_t i = 0; i < narrow<uint8_t>(class_count); ++i) {
    const SizeClassIndex size_class(i);
    uint32_t active_count = 0;
    for (uint32_t c = 0; c < attached_count; ++c) {
      active_count +=
          attached[c]->ring(size_class) != nullptr && see_demand(attached[c]->supplies[i], now) ? 1
                                                                                                : 0;
    }
    if (active_count == 0) {
      continue;
    }
    const uint64_t fair_count = fair_count_of(size_class, active_count);
    for (uint32_t c = 0; c < attached_count; ++c) {
      // Another one first at each turn, so that scarce slots go round.
      Shared& shared = *attached[(c + turn_count) % attached_count];
      if (shared.supplies[i].seen.demand_count == 0) {
        continue;
      }
      const uint32_t granted_count = supply_client(shared, size_class, fair_count);
      if (granted_count > 0) {
        counters.refills_count.add();
        shared.event->wake_if_sleeping();
        work += static_cast<int>(granted_count);
      }
    }
  }
  return work;
}

// Looks at what the client wants now; true if it is active.
bool PublishedPool::State::see_demand(ClassSupply& supply, Nanos now) {
  const GrantRing& ring =
      *supply.ring.load(std::memory_order_relaxed);  // seen before, with acquire
  ClassSupply::Seen& seen = supply.seen;
  // Relaxed to look, so that a turn without requests takes no locked instruction.
  if (supply.starving.load(std::memory_order_relaxed) != 0) {
    // D2 acquire: meets D1 in PoolClient::take(); ready_count is exact. Taken before anything is
    // granted: a client that uses a grant up at once sets it again.
    static_cast<void>(supply.starving.exchange(0, std::memory_order_acquire));
    seen.asked = true;
  }
  seen.asked = seen.asked && ring.ready_count() == 0;
  const auto announcement =
      supply.announcement.load(std::memory_order_relaxed);  // a number to plan with
  const uint32_t taken_count = ring.taken_count();
  const bool changed = announcement.wanted_count != seen.announcement.wanted_count ||
                       announcement.taken_before_count != seen.announcement.taken_before_count ||
                       taken_count != seen.taken_count;
  seen.announcement = announcement;
  seen.taken_count = taken_count;
  if (seen.asked || changed) {
    seen.active_at = now;
  }
  if (announcement.wanted_count != 0 && changed) {
    seen.demand_count = announcement.wanted_count;
  }
  if (now - seen.active_at > kIdleAfter) {
    seen.demand_count = seen.remaining_count = 0;
    return false;
  }
  const uint32_t done_count = taken_count - announcement.taken_before_count;
  seen.remaining_count =
      announcement.wanted_count > done_count ? announcement.wanted_count - done_count : 0;
  if (seen.asked) {
    seen.remaining_count = std::max(seen.remaining_count, 1U);
    seen.demand_count = std::max(seen.demand_count, 1U);
  }
  return seen.demand_count != 0;
}

uint64_t PublishedPool::State::fair_count_of(SizeClassIndex size_class, uint32_t active_count) {
  const uint64_t share_bytes = shares_with(size_class)[size_class.value()];
  return share_bytes / classes.slot_bytes(size_class) / kReadyPart / std::max(active_count, 1U);
}

// Fills the client's ring: as far as it wants from what is free, as far as is fair by eviction.
uint32_t PublishedPool::State::supply_client(Shared& shared,
                                             SizeClassIndex size_class,
                                             uint64_t fair_count) {
  ClassSupply& supply = shared.supplies[size_class.value()];
  GrantRing& ring = *supply.ring.load(std::memory_order_relaxed);  // seen before, with acquire
  const uint32_t refill_max_count = std::min(options.refill_max_count, ring.capacity());
  const uint32_t wanted_count = std::min(supply.seen.demand_count, refill_max_count);
  const auto fair = static_cast<uint32_t>(std::min<uint64_t>(fair_count, wanted_count));
  uint32_t granted_count = grant_free(ring, size_class, wanted_count);
  // Whoever waits gets what its call still wants, but not so much at once that a small pool is
  // emptied for it.
  const uint32_t by_eviction_count =
      supply.seen.asked
          ? std::min({std::max(fair, 1U), supply.seen.remaining_count, refill_max_count})
          : fair;
  const uint32_t ready_count = ring.ready_count();
  if (ready_count < by_eviction_count) {
    make_room(shared, size_class, fair_count, by_eviction_count - ready_count);
    granted_count += grant_free(ring, size_class, by_eviction_count);
  }
  if (granted_count > 0) {
    supply.seen.asked = false;
  }
  return granted_count;
}

uint32_t PublishedPool::State::grant_free(GrantRing& ring,
                                          SizeClassIndex size_class,
                                          uint32_t target_count) {
  uint32_t granted_count = 0;
  while (ring.ready_count() < target_count) {
    const std::optional<SlotIndex> slot = space.grant(size_class);
    if (!slot) {
      if (space.grow(size_class)) {
        continue;
      }
      break;
    }
    if (!ring.push(*slot)) {
      space.ungrant(*slot);
      break;
    }
    ++granted_count;
  }
  return granted_count;
}

// Frees slots of the class, the cheapest way first; each step either makes a slot free or changes
// nothing.
void PublishedPool::State::make_room(const Shared& shared,
                                     SizeClassIndex size_class,
                                     uint64_t fair_count,
                                     uint32_t needed_count) {
  const bool asked = shared.supplies[size_class.value()].seen.asked;
  reclaim_excess(&shared, size_class, asked ? 0 : fair_count, needed_count);
  take_windows(size_class, needed_count);
  if (space.free_count(size_class) < needed_count && classes.count() > 1) {
    // Slots of other classes that wait for idle clients keep their extents from being taken.
    for (uint8_t i = 0; i < narrow<uint8_t>(classes.count()); ++i) {
      const SizeClassIndex other(i);
      if (other != size_class) {
        reclaim_excess(nullptr, other, asked ? 0 : fair_count_of(other, 1), UINT32_MAX);
      }
    }
    take_windows(size_class, needed_count);
  }
  evict_own(size_class, needed_count);
}

void PublishedPool::State::take_windows(SizeClassIndex size_class, uint32_t needed_count) {
  while (space.free_count(size_class) < needed_count && space.idle_extent_count() > 0 &&
         take_window(size_class, Donors::kIdleOnly)) {
  }
  while (space.free_count(size_class) < needed_count && classes.count() > 1 &&
         take_window(size_class, Donors::kAboveShare)) {
  }
}

// Takes back what clients have ready beyond their call under way (and, where fairness leaves them
// any, their next one).
void PublishedPool::State::reclaim_excess(const Shared* except,
                                          SizeClassIndex size_class,
                                          uint64_t fair_count,
                                          uint32_t needed_count) {
  for_each_client([&](Shared& shared) PC_NO_THREAD_ANALYSIS {
    GrantRing* ring = shared.ring(size_class);
    if (&shared == except || ring == nullptr) {
      return;
    }
    const uint32_t kept = kept_count(shared.supplies[size_class.value()].seen, fair_count);
    SlotIndex slot;
    while (space.free_count(size_class) < needed_count && ring->ready_count() > kept &&
           ring->reclaim(slot)) {
      space.ungrant(slot);
    }
  });
}

}  // namespace peercache
