#pragma once

#include <cstdint>

#include "dataplane/base/error.h"
#include "dataplane/engine/op.h"
#include "dataplane/engine/peer_directory.h"

namespace peercache {

/// Why an operation cannot be submitted.
enum class OpFault : uint8_t {
  kNone = 0,
  kKind,         ///< kind or validation is no enumerator
  kEmpty,        ///< 0 bytes, 0 keys, or a piece of 0 bytes (which a NIC would take for 2 GiB)
  kPieceCount,   ///< more than limits::kPiecesPerOpMax
  kPieceSum,     ///< pieces do not add up to the length
  kPeer,         ///< no such index
  kRegion,       ///< the peer has no such region, or its kind does not allow the operation
  kBounds,       ///< the range is not inside the region, or the slot is not the one at that offset
};

/// Checks one operation against the region table of its peer. Without a table (the peer was never connected) everything
/// but the target is checked. COST: one pass over the pieces and one over the table; no allocation.
[[nodiscard]] OpFault check_op(const Op& op, const PeerInfo* info) noexcept;

/// The error of a fault, with the operation's index and sizes.
[[nodiscard]] Error make_op_error(OpFault fault, const Op& op, uint32_t op_index, const PeerInfo* info) noexcept;

/// Header table that validates READs of a region. REQUIRES: check_op found nothing.
[[nodiscard]] RegionIndex headers_region_of(RegionIndex region, const PeerInfo& info) noexcept;

/// Bytes that the operation moves, for weighing rails: of a LOOKUP the two buckets per key.
[[nodiscard]] inline uint64_t moved_bytes(OpKind kind, uint32_t length_bytes, uint32_t key_count) noexcept {
  return kind == OpKind::kLookup ? uint64_t{key_count} * 2 * sizeof(Bucket) : length_bytes;
}

}  // namespace peercache
