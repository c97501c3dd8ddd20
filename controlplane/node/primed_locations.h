#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/base/key.h"
#include "dataplane/wire/location.h"

namespace peercache {

/// Locations that lookups have found lately, so that a get after an exists needs no directory
/// round. Only a hint: each read
/// is validated, so an entry may be old, and one that two threads wrote at once fails its checksum
/// and counts as absent.
///
/// THREAD:     any; records are copied with racy_copy and checked by their checksum, so no lock is
///             needed.
/// OWNS:       a fixed direct-mapped table with two ways; a new entry replaces the older way.
/// COST:       two cache lines per call; no allocation.
class PrimedLocations {
 public:
  /// REQUIRES: entry_count is a power of two and at least 2.
  explicit PrimedLocations(uint32_t entry_count);

  /// Remembers a sealed location.
  void put(const Location& location) noexcept;

  /// Copies the location of the key, if one is held.
  bool find(const Key128& key, Location& out) const noexcept;

  /// Forgets the key, after its location proved wrong.
  void forget(const Key128& key) noexcept;

 private:
  uint64_t set_of(const Key128& key) const noexcept;

  uint32_t set_count_;
  std::unique_ptr<Location[]> entries_;
};

}  // namespace peercache
