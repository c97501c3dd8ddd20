#pragma once

#include <bit>
#include <cstdint>

#include "dataplane/base/strong_id.h"
#include "dataplane/base/units.h"

namespace peercache {

// Wire structs are copied as they lie in memory: every supported host is little-endian.
static_assert(std::endian::native == std::endian::little);

/// Identifies a node for its configured life: XXH3-64 of its node id text. Zero means "no node".
using NodeId = StrongId<struct NodeIdTag, uint64_t>;

/// Random number drawn at each start of a node: a restarted node is another one.
using Incarnation = StrongId<struct IncarnationTag, uint32_t>;

/// Producer-ordered stamp of a directory change: max(previous + 1, microseconds since the epoch),
/// so that stamps of one node only grow, also over a restart, and stamps of different nodes compare
/// roughly by age.
using Sequence = StrongId<struct SequenceTag, uint64_t>;

/// XXH3-64 over an object's bytes; zero means "not computed".
using PayloadHash = StrongId<struct PayloadHashTag, uint64_t>;

/// Names a write reservation (storage modes); zero means "none".
using ReservationId = StrongId<struct ReservationIdTag, uint64_t>;

}  // namespace peercache
