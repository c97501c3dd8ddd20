#pragma once

#include <array>
#include <cstdint>

#include "dataplane/base/units.h"
#include "dataplane/wire/location.h"

namespace peercache {

/// Records that this client found to be wrong a moment ago: a directory that has not heard of it
/// yet would send the next
/// call to the same dead slot. Short, since the key may be published again there at any time (a new
/// life has a new
/// generation, so only the exact record is skipped).
///
/// THREAD:     its client's.
/// COST:       a fixed table; no allocation.
class MissingCache {
 public:
  void add(const Location& location, Nanos now) noexcept {
    entries_[index_of(location.key)] = {location, now + kRemembered};
  }

  bool contains(const Location& location, Nanos now) const noexcept {
    const Entry& entry = entries_[index_of(location.key)];
    return entry.until > now && entry.location.key == location.key &&
           entry.location.node == location.node && entry.location.slot == location.slot &&
           entry.location.generation == location.generation;
  }

 private:
  // Longer than a directory update takes, shorter than anybody would wait for a page to come back.
  static constexpr Nanos kRemembered = std::chrono::milliseconds(250);
  static constexpr uint64_t kEntries = 1024;

  struct Entry {
    Location location{};
    Nanos until{0};
  };
  static uint64_t index_of(const Key128& key) noexcept { return key.high & (kEntries - 1); }

  std::array<Entry, kEntries> entries_{};
};

}  // namespace peercache
