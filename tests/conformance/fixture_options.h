#pragma once

#include <algorithm>
#include <list>
#include <cstdint>
#include <vector>

#include "dataplane/engine/client.h"
#include "tests/conformance/owner_view.h"

namespace peercache::test {

/// What a conformance case needs. A fixture for transport X offers, beside a constructor from these options:
///
///   kName, kBlocks (kind of operation that hangs while a peer is frozen), kRailsMax
///   Client& client(i), PeerIndex peer(i), const OwnerView& owner(i), const PagePattern& pattern()
///   Nanos now()                       the clients' clock
///   bool run_until(done)              drives everything until done() or ten seconds; false if not done
///   void turn()                       as little progress as possible
///   void freeze(peer), thaw(peer)     its transport stops answering, its memory stays
///   void kill(peer)                   it is gone, for good
///   PeerDirectory& peers()
///   void check_invariants()
///
/// THREAD:     any; a value.
struct FixtureOptions {
  uint32_t peers_count = 1;
  uint32_t rails_count = 1;
  uint32_t clients_count = 1;
  uint32_t slots_count = 1024;         ///< per peer, of kGranuleBytes
  uint32_t operation_timeout_ms = 500;
  uint32_t slow_rail_percent = 100;    ///< of rail 0, where the transport can: 400 takes four times as long
  bool own_processes = false;          ///< peers are processes of their own, where the transport has such
  /// Objects that exist from the start at every peer: slot i * stride holds an object of `bytes` under key_of(slot).
  uint32_t initial_count = 0;
  uint32_t initial_stride = 1;
  uint32_t initial_bytes = 4096;
  EngineOptions engine{};
};

/// Local memory of a case and operations that use it; what they point to lives as long as this.
///
/// THREAD:     the test's.
class OpBuilder {
 public:
  explicit OpBuilder(size_t bytes) : memory_(bytes) {}

  /// Splits the next `bytes` of local memory into `piece_count` pieces of unequal length with gaps between them.
  std::span<const LocalPiece> pieces(uint32_t bytes, uint32_t piece_count) {
    PC_ASSERT(piece_count != 0 && piece_count <= bytes, piece_count, bytes);
    std::vector<LocalPiece>& out = piece_lists_.emplace_back();
    uint32_t left = bytes;
    for (uint32_t i = 0; i < piece_count; ++i) {
      const uint32_t pieces_left = piece_count - i;
      uint32_t length = left / pieces_left;
      if (pieces_left > 1 && length > 2 && i % 2 == 0) {
        length -= length / 3;
      }
      length = pieces_left == 1 ? left : length;
      PC_ASSERT(used_ + length + 1 <= memory_.size(), used_, length, memory_.size());
      out.push_back(LocalPiece{memory_.data() + used_, length, LocalKey(0)});
      used_ += length + (piece_count > 1 ? 1 : 0);
      left -= length;
    }
    return out;
  }

  Op read(PeerIndex peer, const Location& target, uint32_t piece_count = 1) {
    Op op;
    op.kind = OpKind::kRead;
    op.peer = peer;
    op.target = target;
    op.pieces = pieces(target.length_bytes, piece_count);
    return op;
  }

  /// A READ or WRITE of plain memory.
  Op plain(OpKind kind, PeerIndex peer, RegionIndex region, uint64_t offset, uint32_t bytes, uint32_t piece_count = 1) {
    Op op;
    op.kind = kind;
    op.validation = Validation::kNone;
    op.peer = peer;
    op.target.region = region;
    op.target.offset_bytes = offset;
    op.target.length_bytes = bytes;
    op.pieces = pieces(bytes, piece_count);
    return op;
  }

  /// The pieces of an operation, one after the other.
  static std::vector<std::byte> gathered(const Op& op) {
    std::vector<std::byte> out;
    for (const LocalPiece& piece : op.pieces) {
      out.insert(out.end(), piece.address, piece.address + piece.length_bytes);
    }
    return out;
  }
  static void scatter(const Op& op, const std::vector<std::byte>& from) {
    size_t at = 0;
    for (const LocalPiece& piece : op.pieces) {
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), piece.length_bytes, piece.address);
      at += piece.length_bytes;
    }
  }

  void clear() {
    used_ = 0;
    piece_lists_.clear();
    std::fill(memory_.begin(), memory_.end(), std::byte{0xee});
  }
  /// Everything, also between the pieces.
  const std::vector<std::byte>& memory() const { return memory_; }

 private:
  std::vector<std::byte> memory_;
  size_t used_ = 0;
  std::list<std::vector<LocalPiece>> piece_lists_;
};

}  // namespace peercache::test
