#include "dataplane/engine/op_check.h"

namespace peercache {

namespace {

const RegionDescriptor* find_region(const PeerInfo& info, RegionIndex index) noexcept {
  for (const RegionDescriptor& region : info.region_table()) {
    if (region.region == index) {
      return &region;
    }
  }
  return nullptr;
}

uint64_t piece_sum(const Op& op) noexcept {
  uint64_t sum = 0;
  for (const LocalPiece& piece : op.pieces) {
    sum += piece.length_bytes;
  }
  return sum;
}

bool allows(RegionKind kind, const Op& op) noexcept {
  switch (op.kind) {
    case OpKind::kRead:
      return op.validation == Validation::kHeader ? kind == RegionKind::kPublished
                                                  : kind != RegionKind::kDestination;
    case OpKind::kWrite:
      return kind == RegionKind::kWritable;
    case OpKind::kLookup:
      return kind == RegionKind::kDirectory;
  }
  return false;
}

OpFault check_local(const Op& op) noexcept {
  if (op.kind > OpKind::kLookup || op.validation > Validation::kHeader) {
    return OpFault::kKind;
  }
  if (op.kind == OpKind::kLookup) {
    const bool empty = op.lookup == nullptr || op.lookup->key_count == 0;
    return empty ? OpFault::kEmpty : OpFault::kNone;
  }
  if (op.target.length_bytes == 0) {
    return OpFault::kEmpty;
  }
  if (op.pieces.size() > limits::kPiecesPerOpMax) {
    return OpFault::kPieceCount;
  }
  uint64_t sum = 0;
  bool empty_piece = false;
  for (const LocalPiece& piece : op.pieces) {
    sum += piece.length_bytes;
    empty_piece |= piece.length_bytes == 0;
  }
  if (empty_piece) {
    return OpFault::kEmpty;
  }
  return sum == op.target.length_bytes ? OpFault::kNone : OpFault::kPieceSum;
}

OpFault check_target(const Op& op, const PeerInfo& info) noexcept {
  const Location& target = op.target;
  const RegionDescriptor* region = find_region(info, target.region);
  if (region == nullptr || !allows(region->kind, op)) {
    return OpFault::kRegion;
  }
  if (op.kind == OpKind::kLookup) {
    return OpFault::kNone;  // searches the whole table
  }
  if (target.offset_bytes > region->length_bytes ||
      target.length_bytes > region->length_bytes - target.offset_bytes) {
    return OpFault::kBounds;
  }
  if (op.kind == OpKind::kRead && op.validation == Validation::kHeader &&
      !check_location(target, info.region_table())) {
    return OpFault::kBounds;
  }
  return OpFault::kNone;
}

}  // namespace

OpFault check_op(const Op& op, const PeerInfo* info) noexcept {
  const OpFault local = check_local(op);
  if (local != OpFault::kNone) [[unlikely]] {
    return local;
  }
  if (op.peer.value() >= limits::kPeersMax) [[unlikely]] {
    return OpFault::kPeer;
  }
  return info == nullptr ? OpFault::kNone : check_target(op, *info);
}

RegionIndex headers_region_of(RegionIndex region, const PeerInfo& info) noexcept {
  const RegionDescriptor* found = find_region(info, region);
  PC_ASSERT(found != nullptr, region);
  return found->headers_region;
}

Error make_op_error(OpFault fault, const Op& op, uint32_t op_index, const PeerInfo* info) noexcept {
  const Location& target = op.target;
  switch (fault) {
    case OpFault::kKind:
      return make_error(Errc::kInvalidArgument, "operation {} is of kind {} with validation {}",
                        op_index, op.kind, op.validation);
    case OpFault::kEmpty:
      return make_error(Errc::kEmptyOperation,
                        "operation {} of {} bytes in {} pieces has nothing to move, or a piece of 0",
                        op_index, target.length_bytes, op.pieces.size());
    case OpFault::kPieceCount:
      return make_error(Errc::kTooManyPieces, "operation {} has {} pieces; the limit is {}", op_index,
                        op.pieces.size(), limits::kPiecesPerOpMax);
    case OpFault::kPieceSum:
      return make_error(Errc::kPieceSumMismatch,
                        "pieces of operation {} add up to {} bytes, its target has {}", op_index,
                        piece_sum(op), target.length_bytes);
    case OpFault::kPeer:
      return make_error(Errc::kOutOfRange, "operation {} is for peer {}; there are at most {}",
                        op_index, op.peer, limits::kPeersMax);
    case OpFault::kRegion:
      return make_error(Errc::kOutOfBounds,
                        "operation {} of kind {} is not possible in region {} of peer {}", op_index,
                        op.kind, target.region, op.peer);
    case OpFault::kBounds: {
      const RegionDescriptor* region = info == nullptr ? nullptr : find_region(*info, target.region);
      return make_error(Errc::kOutOfBounds,
                        "operation {} of {} bytes at offset {} does not fit its region of {} bytes",
                        op_index, target.length_bytes, target.offset_bytes,
                        region == nullptr ? 0 : region->length_bytes);
    }
    case OpFault::kNone:
      break;
  }
  PC_UNREACHABLE();
}

}  // namespace peercache
