#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/location.h"

namespace peercache {

/// What a region is for; decides who may do what with it.
enum class RegionKind : uint16_t {
  kPublished = 1,  ///< objects; remote READ only
  kHeaders = 2,    ///< header table of a published region; remote READ only
  kDirectory = 3,  ///< directory shard: an array of `Bucket`; remote READ and LOOKUP
  kWritable = 4,  ///< plain remote WRITE allowed (storage and slotmap regions); remote READ as well
  kDestination = 5,  ///< local only; never leaves the node
};

/// One region of a node as its peers see it (part of the connect handshake).
struct RegionDescriptor {
  uint64_t length_bytes;
  uint64_t remote_key_id;      ///< rkey or the like; zero where the transport needs none
  uint64_t remote_address_id;  ///< base address for transports that need one; zero otherwise
  RegionIndex region;
  RegionKind kind;
  RegionIndex headers_region;  ///< for kPublished: its header table
  uint16_t padding_id;
  uint32_t granule_bytes;  ///< for kPublished: slot index = offset / granule; a power of two
  uint32_t padding2_id;
};

static_assert(sizeof(RegionDescriptor) == 40);
static_assert(std::is_trivially_copyable_v<RegionDescriptor>);

/// Checks a table received from a peer: known kinds, unique indices, lengths that are multiples of
/// what they hold, header regions that exist and are large enough. Errors: kBadEnum, kBadLength,
/// kRegionOverlap, kNoSuchRegion.
Result<void> check_region_table(std::span<const RegionDescriptor> regions);

/// Bound-checks a record before anything is posted: the region exists and is published, offset +
/// length lie inside, the slot is the one at that offset. Errors: kNoSuchRegion, kOutOfBounds,
/// kBadSlot.
Result<void> check_location(const Location& location,
                            std::span<const RegionDescriptor> regions) noexcept;

}  // namespace peercache
