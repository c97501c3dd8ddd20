#include "controlplane/node/primed_locations.h"

#include "dataplane/base/assert.h"
#include "dataplane/base/ordering.h"

namespace peercache {
namespace {

constexpr uint64_t kWays = 2;

Location copy_of(const Location& entry) noexcept {
  Location copy;
  racy_copy(&copy, &entry, sizeof(copy));
  return copy;
}

}  // namespace

PrimedLocations::PrimedLocations(uint32_t entry_count)
    : set_count_(entry_count / kWays), entries_(std::make_unique<Location[]>(entry_count)) {
  PC_ASSERT(entry_count >= kWays, entry_count);
  PC_ASSERT((entry_count & (entry_count - 1)) == 0, entry_count);
}

uint64_t PrimedLocations::set_of(const Key128& key) const noexcept {
  return (key.low & (set_count_ - 1)) * kWays;
}

void PrimedLocations::put(const Location& location) noexcept {
  Location* set = &entries_[set_of(location.key)];
  const Location first = copy_of(set[0]);
  const Location second = copy_of(set[1]);
  uint64_t way = 0;
  if (first.key == location.key || is_empty(first)) {
    way = 0;
  } else if (second.key == location.key || is_empty(second)) {
    way = 1;
  } else {
    way = first.sequence < second.sequence ? 0 : 1;
  }
  racy_copy(&set[way], &location, sizeof(location));
}

bool PrimedLocations::find(const Key128& key, Location& out) const noexcept {
  const Location* set = &entries_[set_of(key)];
  for (uint64_t way = 0; way < kWays; ++way) {
    const Location copy = copy_of(set[way]);
    if (copy.key == key && is_sound(copy)) {
      out = copy;
      return true;
    }
  }
  return false;
}

void PrimedLocations::forget(const Key128& key) noexcept {
  Location* set = &entries_[set_of(key)];
  const Location empty{};
  for (uint64_t way = 0; way < kWays; ++way) {
    if (copy_of(set[way]).key == key) racy_copy(&set[way], &empty, sizeof(empty));
  }
}

}  // namespace peercache
