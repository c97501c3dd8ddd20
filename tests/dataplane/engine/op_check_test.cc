#include "dataplane/engine/op_check.h"

#include <catch2/catch.hpp>

#include "tests/dataplane/engine/fake_rail.h"

namespace peercache {
namespace {

using test::ClientBench;
using test::FakeRail;

Error fault_of(const Op& op, const PeerInfo* info) {
  const OpFault fault = check_op(op, info);
  REQUIRE(fault != OpFault::kNone);
  return make_op_error(fault, op, 17, info);
}

}  // namespace

TEST_CASE("op check: sizes and pieces that do not add up are told apart", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  const PeerInfo info = ClientBench::peer_info(1);
  Op op = bench.read(4096);
  CHECK(check_op(op, &info) == OpFault::kNone);
  CHECK(check_op(op, nullptr) == OpFault::kNone);

  op.target.length_bytes = 4095;
  Error error = fault_of(op, &info);
  CHECK(error.code == Errc::kPieceSumMismatch);
  CHECK(error.values[0] == 17);
  CHECK(error.values[1] == 4096);
  CHECK(error.values[2] == 4095);

  op.target.length_bytes = 0;
  CHECK(fault_of(op, &info).code == Errc::kEmptyOperation);

  op = bench.read(4096);
  std::vector<LocalPiece> pieces(limits::kPiecesPerOpMax, LocalPiece{bench.buffer.data(), 16, {}});
  op.pieces = pieces;
  CHECK(check_op(op, &info) == OpFault::kNone);
  pieces[3].length_bytes = 0;
  pieces[4].length_bytes = 32;
  CHECK(fault_of(op, &info).code == Errc::kEmptyOperation);  // a piece of 0 bytes
  pieces.push_back({});
  op.pieces = pieces;
  error = fault_of(op, &info);
  CHECK(error.code == Errc::kTooManyPieces);
  CHECK(error.values[1] == limits::kPiecesPerOpMax + 1);
  op.pieces = {};
  CHECK(fault_of(op, &info).code == Errc::kPieceSumMismatch);
}

TEST_CASE("op check: pieces whose sum wraps around 32 bits do not pass", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Op op = bench.read(4096);
  const std::array<LocalPiece, 2> pieces{LocalPiece{bench.buffer.data(), UINT32_MAX, {}},
                                         LocalPiece{bench.buffer.data(), 4097, {}}};
  op.pieces = pieces;
  CHECK(fault_of(op, nullptr).code == Errc::kPieceSumMismatch);
}

TEST_CASE("op check: a range is in bounds up to its last byte", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  const PeerInfo info = ClientBench::peer_info(1);
  Op op = bench.read(4096, 255);
  CHECK(check_op(op, &info) == OpFault::kNone);
  op = bench.read(4097, 255);
  const Error error = fault_of(op, &info);
  CHECK(error.code == Errc::kOutOfBounds);
  CHECK(error.values[2] == 255 * 4096);
  CHECK(error.values[3] == ClientBench::kRegionBytes);
  op = bench.read(4096, 0);
  op.validation = Validation::kNone;
  op.target.offset_bytes = ClientBench::kRegionBytes - 4096;
  CHECK(check_op(op, &info) == OpFault::kNone);
  op.target.offset_bytes += 1;
  CHECK(check_op(op, &info) == OpFault::kBounds);
  op.target.offset_bytes = UINT64_MAX - 100;  // offset + length wraps
  CHECK(check_op(op, &info) == OpFault::kBounds);
}

TEST_CASE("op check: a validated READ names the slot at its offset", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  const PeerInfo info = ClientBench::peer_info(1);
  Op op = bench.read(4096, 3);
  op.target.slot = SlotIndex(4);
  CHECK(fault_of(op, &info).code == Errc::kOutOfBounds);
  op = bench.read(4096, 3);
  op.target.offset_bytes += 64;
  CHECK(check_op(op, &info) == OpFault::kBounds);
}

TEST_CASE("op check: the kind of a region decides what may be done there", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  const PeerInfo info = ClientBench::peer_info(1);
  const Key128 key{.low = 1, .high = 2};
  LookupResult found;
  const LookupBatch lookup{.keys = &key, .results = &found, .key_count = 1};
  const auto fault = [&](OpKind kind, Validation validation, RegionIndex region) {
    Op op = bench.read(64);
    op.kind = kind;
    op.validation = validation;
    op.target.region = region;
    op.lookup = &lookup;
    return check_op(op, &info);
  };
  const auto header = Validation::kHeader;
  const auto none = Validation::kNone;
  CHECK(fault(OpKind::kRead, header, ClientBench::kPublished) == OpFault::kNone);
  CHECK(fault(OpKind::kRead, header, ClientBench::kHeaders) == OpFault::kRegion);
  CHECK(fault(OpKind::kRead, header, ClientBench::kWritable) == OpFault::kRegion);
  CHECK(fault(OpKind::kRead, none, ClientBench::kHeaders) == OpFault::kNone);
  CHECK(fault(OpKind::kRead, none, ClientBench::kDirectory) == OpFault::kNone);
  CHECK(fault(OpKind::kWrite, header, ClientBench::kWritable) == OpFault::kNone);
  CHECK(fault(OpKind::kWrite, header, ClientBench::kPublished) == OpFault::kRegion);
  CHECK(fault(OpKind::kWrite, header, ClientBench::kHeaders) == OpFault::kRegion);
  CHECK(fault(OpKind::kLookup, header, ClientBench::kDirectory) == OpFault::kNone);
  CHECK(fault(OpKind::kLookup, header, ClientBench::kPublished) == OpFault::kRegion);
  CHECK(fault(OpKind::kRead, none, RegionIndex(9)) == OpFault::kRegion);
  CHECK(fault(static_cast<OpKind>(3), none, ClientBench::kPublished) == OpFault::kKind);
}

TEST_CASE("op check: a lookup needs keys, and a peer index has a limit", "[unit]") {
  const PeerInfo info = ClientBench::peer_info(1);
  Op op;
  op.kind = OpKind::kLookup;
  op.target.region = ClientBench::kDirectory;
  CHECK(fault_of(op, &info).code == Errc::kEmptyOperation);
  const Key128 key{.low = 1, .high = 2};
  LookupResult found;
  LookupBatch lookup{.keys = &key, .results = &found, .key_count = 0};
  op.lookup = &lookup;
  CHECK(fault_of(op, &info).code == Errc::kEmptyOperation);
  lookup.key_count = 1;
  CHECK(check_op(op, &info) == OpFault::kNone);
  op.peer = PeerDirectory::kNone;
  const Error error = fault_of(op, nullptr);
  CHECK(error.code == Errc::kOutOfRange);
  CHECK(error.values[1] == limits::kPeersMax);
}

}  // namespace peercache
