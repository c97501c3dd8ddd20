#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/base/units.h"

/// Every process-wide maximum. Fixed arrays of the hot path have these sizes and are taken at
/// start; a limit that is met is an error that names it.
namespace peercache::limits {

/// 64 hosts × 8 ranks = 512 nodes is the largest plan; twice that leaves room for nodes that left
/// and came back.
inline constexpr size_t kPeersMax = 1024;

/// 8 NICs of the largest servers, twice for hosts with two ports each.
inline constexpr size_t kRailsMax = 16;

/// Published, destination, staging and directory regions, one of each per NUMA node, and registered
/// user buffers.
inline constexpr size_t kRegionsPerNodeMax = 64;

/// Handles for application threads; the bindings lease kClientsLeased of them, the others belong to
/// the tier and tests.
inline constexpr size_t kClientsMax = 16;
inline constexpr size_t kClientsLeased = 8;

/// Operations that a client has under way; two of the largest batches, so that one can be submitted
/// while one runs.
inline constexpr size_t kOpsPerClient = 8192;

/// Operations of one batch: a prefix of 262,144 tokens in pages of 64.
inline constexpr size_t kBatchOpsMax = 4096;

/// Local pieces of one object: K and V of 128 layers.
inline constexpr size_t kPiecesPerOpMax = 256;

/// Batches that a client has under way.
inline constexpr size_t kTicketsPerClient = 64;

/// Entries of a lane's ring. A rail pulls up to 32 per turn; this is the work of 32 turns, and 64
/// KiB of 64-byte requests.
inline constexpr size_t kLaneEntries = 1024;

/// Messages of a client that the pool agent has not taken yet (publish, touch, remove), 128 bytes
/// each. A quarter of the largest batch: the agent takes them while the client still copies.
inline constexpr size_t kPoolMessages = 1024;

/// Slot sizes of a pool: one per pool of a model (K and V pages, side buffers, draft model) and
/// rank layout.
inline constexpr size_t kSizeClassesMax = 32;

/// Places that the directory remembers for one key (design: records, 7).
inline constexpr size_t kLocationsPerKey = 3;

/// Shards that hold the same record. Two is the default; more than four costs a lookup more READs
/// than it saves.
inline constexpr size_t kDirectoryReplicasMax = 4;

/// Operations posted on a rail and not yet completed: 512 QPs would allow more, the byte budget
/// allows fewer.
inline constexpr size_t kInflightPerRail = 1024;

/// Bytes of one object. A page of 64 tokens of the largest models is below 16 MiB; the length field
/// holds 4 GiB.
inline constexpr Bytes kObjectBytesMax = 1_GiB;

constexpr bool is_power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

static_assert(kPeersMax <= UINT16_MAX, "PeerIndex is 16 bits, and its last value means none");
static_assert(kRailsMax <= 32, "sets of rails are 32-bit masks");
static_assert(kRegionsPerNodeMax <= 64, "sets of regions are 64-bit masks");
static_assert(kClientsLeased < kClientsMax, "the tier and tests need a client of their own");
static_assert(kBatchOpsMax * 2 <= kOpsPerClient, "a batch can be submitted while another runs");
static_assert(kOpsPerClient <= UINT16_MAX, "an operation's index travels in 16 bits of its cookie");
static_assert(kTicketsPerClient <= UINT8_MAX, "a ticket's index travels in 8 bits of its cookie");
static_assert(is_power_of_two(kPoolMessages), "ring mask");
static_assert(is_power_of_two(kLaneEntries) && is_power_of_two(kInflightPerRail),
              "ring and table masks");
static_assert(is_power_of_two(kOpsPerClient) && is_power_of_two(kTicketsPerClient), "table masks");
static_assert(kSizeClassesMax <= UINT8_MAX, "SizeClassIndex is 8 bits");
static_assert(kDirectoryReplicasMax <= kPeersMax);
static_assert(kObjectBytesMax.value() <= UINT32_MAX, "lengths on the wire are 32 bits");

}  // namespace peercache::limits
