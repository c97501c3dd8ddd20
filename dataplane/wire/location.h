#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dataplane/base/key.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/slot_header.h"
#include "dataplane/wire/wire_types.h"

namespace peercache {

/// Directory record: where an object is, and which generation of its slot it was. Holds no address
/// and no rkey: those come from the region table exchanged at connect, against which every record
/// is bound-checked. A record whose `key` is zero is empty.
struct alignas(64) Location {
  Key128 key;
  NodeId node;
  uint64_t offset_bytes;
  Sequence sequence;
  SlotIndex slot;
  Generation generation;
  uint32_t length_bytes;
  Incarnation incarnation;
  RegionIndex region;
  uint16_t flags_id;     ///< zero until the disk tier marks non-resident records
  uint32_t checksum_id;  ///< low half of XXH3-64 over the 60 bytes before it
};

static_assert(sizeof(Location) == 64);
static_assert(offsetof(Location, checksum_id) == 60);
static_assert(std::is_trivially_copyable_v<Location>);

/// Computes the checksum over everything but the checksum itself.
uint32_t location_checksum(const Location& location) noexcept;

/// Sets the checksum; call last, after all other fields.
void seal(Location& location) noexcept;

/// True for a record that holds an object and whose checksum is right (a torn or planted record is
/// not).
bool is_sound(const Location& location) noexcept;

inline bool is_empty(const Location& location) noexcept { return location.key == Key128{}; }

/// True if a header that was read after the bytes proves that they are the object that `location`
/// names: same key, generation, length and offset, and a state of PUBLISHED or RETIRED.
bool header_proves(const SlotHeader& header, const Location& location) noexcept;

/// Four records of a directory shard or of the local index: the unit that a remote lookup READs.
struct alignas(256) Bucket {
  std::array<Location, 4> records;
};

static_assert(sizeof(Bucket) == 256);

/// What a lookup found for one key: up to three sound locations, newest sequence first.
struct LookupResult {
  std::array<Location, limits::kLocationsPerKey> locations;
  uint32_t count = 0;
};

/// The two independent candidate buckets of a key in a table of `bucket_count` buckets (may
/// coincide). REQUIRES: bucket_count > 0.
struct BucketPair {
  uint64_t first_index;
  uint64_t second_index;
};
BucketPair candidate_buckets(const Key128& key, uint64_t bucket_count) noexcept;

/// Searches the table in memory (own or mapped from a peer; may be written meanwhile by its owner):
/// copies both buckets of each key, reads a record with a bad checksum once more, and collects the
/// sound ones of the key. Prefetches ahead. Never trusts the bytes. COST: two buckets per key, no
/// allocation. REQUIRES: keys.size() == results.size(); bucket_count > 0.
void lookup_buckets(const Bucket* table,
                    uint64_t bucket_count,
                    const Key128* keys,
                    LookupResult* results,
                    uint32_t key_count) noexcept;

}  // namespace peercache
