// READs that succeed: sizes, pieces, batches, several peers and clients.
#include <catch2/catch.hpp>

#include "tests/conformance/transport_list.h"

namespace peercache::test {
namespace {

// Submits, drives until done, and checks that every operation ended as `expected`.
template <class Fixture>
void expect_all(Fixture& fixture, const std::vector<Op>& ops, OpStatus expected, uint32_t client_index = 0) {
  Client& client = fixture.client(client_index);
  const Ticket ticket = client.submit(ops, fixture.now() + Nanos(10'000'000'000)).value();
  REQUIRE(fixture.run_until([&] { return client.result(ticket)->done; }));
  uint32_t different = 0;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    different += client.status(ticket, i) != expected ? 1 : 0;
  }
  CHECK(different == 0);
  client.release(ticket);
  fixture.check_invariants();
}

bool holds(const PagePattern& pattern, const Op& op) {
  const std::vector<std::byte> bytes = OpBuilder::gathered(op);
  return pattern.matches(bytes.data(), op.target.key, bytes.size());
}

}  // namespace

TEMPLATE_TEST_CASE("conformance: a READ of any size arrives whole", "[conformance]", PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.slots_count = 2 * (16 << 20) / kGranuleBytes;
  TestType fixture(options);
  for (const uint32_t bytes : {1U, 7U, 63U, 64U, 777U, 4095U, 4096U, 4097U, 65'536U, 131'072U, 1'000'003U,
                               2U << 20, (16U << 20) - 1, 16U << 20}) {
    CAPTURE(bytes);
    const Location at = fixture.owner().publish(3, bytes);
    OpBuilder build(size_t{bytes} + 256);
    build.clear();
    const Op op = build.read(fixture.peer(), at);
    expect_all(fixture, {op}, OpStatus::kOk);
    CHECK(holds(fixture.pattern(), op));
    for (size_t i = bytes; i < build.memory().size(); ++i) {
      REQUIRE(build.memory()[i] == std::byte{0xee});  // nothing behind the pieces
    }
  }
}

TEMPLATE_TEST_CASE("conformance: a READ scatters into 1 to 160 pieces", "[conformance]", PC_TRANSPORT_FIXTURES) {
  TestType fixture(FixtureOptions{});
  for (const uint32_t pieces : {1U, 2U, 3U, 29U, 30U, 31U, 61U, 64U, 128U, 160U}) {
    for (const uint32_t bytes : {160U, 4096U, 131'072U, 1'048'575U}) {
      CAPTURE(pieces, bytes);
      const Location at = fixture.owner().publish(7, bytes);
      OpBuilder build(size_t{bytes} + 512);
      build.clear();
      const Op op = build.read(fixture.peer(), at, pieces);
      expect_all(fixture, {op}, OpStatus::kOk);
      CHECK(holds(fixture.pattern(), op));
      for (const LocalPiece& piece : op.pieces) {
        if (pieces > 1) {
          REQUIRE(piece.address[piece.length_bytes] == std::byte{0xee});  // the gap behind each piece
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("conformance: batches of 1 to 4096 READs end each with its own bytes", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.slots_count = 4096;
  TestType fixture(options);
  std::vector<Location> at;
  for (uint32_t i = 0; i < 4096; ++i) {
    at.push_back(fixture.owner().publish(i, 64 + i % 1000));
  }
  for (const uint32_t count : {1U, 2U, 16U, 129U, 1024U, 1025U, 4095U, 4096U}) {
    CAPTURE(count);
    OpBuilder build(size_t{count} * 1100);
    build.clear();
    std::vector<Op> ops;
    for (uint32_t i = 0; i < count; ++i) {
      ops.push_back(build.read(fixture.peer(), at[i], 1 + i % 3));
    }
    expect_all(fixture, ops, OpStatus::kOk);
    uint32_t wrong = 0;
    for (const Op& op : ops) {
      wrong += holds(fixture.pattern(), op) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEMPLATE_TEST_CASE("conformance: two full batches are under way at once", "[conformance]", PC_TRANSPORT_FIXTURES) {
  TestType fixture(FixtureOptions{});
  Client& client = fixture.client();
  const Location at = fixture.owner().publish(0, 512);
  OpBuilder build(size_t{2} * 4096 * 600);
  std::array<std::vector<Op>, 2> ops;
  std::array<Ticket, 2> tickets;
  for (size_t b = 0; b < 2; ++b) {
    for (uint32_t i = 0; i < limits::kBatchOpsMax; ++i) {
      ops[b].push_back(build.read(fixture.peer(), at));
    }
    tickets[b] = client.submit(ops[b], fixture.now() + Nanos(10'000'000'000)).value();
  }
  CHECK(client.submit({ops[0].data(), 1}, fixture.now() + Nanos(1'000'000'000)).error().code == Errc::kRingFull);
  REQUIRE(fixture.run_until([&] { return !client.busy(); }));
  for (size_t b = 0; b < 2; ++b) {
    CHECK(client.result(tickets[b])->ok_count == limits::kBatchOpsMax);
    client.release(tickets[b]);
    uint32_t wrong = 0;
    for (const Op& op : ops[b]) {
      wrong += holds(fixture.pattern(), op) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
  fixture.check_invariants();
}

TEMPLATE_TEST_CASE("conformance: plain READs reach every kind of region", "[conformance]", PC_TRANSPORT_FIXTURES) {
  TestType fixture(FixtureOptions{});
  const OwnerView& owner = fixture.owner();
  const Location at = owner.publish(5, 4096);
  REQUIRE(owner.insert(at));
  const BucketPair pair = candidate_buckets(at.key, kBucketCount);
  OpBuilder build(1 << 20);
  const std::vector<Op> ops{
      build.plain(OpKind::kRead, fixture.peer(), kPublishedRegion, 5 * kGranuleBytes + 8, 1000, 3),
      build.plain(OpKind::kRead, fixture.peer(), kHeadersRegion, 5 * sizeof(SlotHeader), sizeof(SlotHeader)),
      build.plain(OpKind::kRead, fixture.peer(), kDirectoryRegion, pair.first_index * sizeof(Bucket), sizeof(Bucket)),
      build.plain(OpKind::kRead, fixture.peer(), kWritableRegion, kWritableBytes - 100, 100)};
  expect_all(fixture, ops, OpStatus::kOk);
  const auto same = [](const Op& op, const void* memory) {
    const std::vector<std::byte> bytes = OpBuilder::gathered(op);
    return std::memcmp(bytes.data(), memory, bytes.size()) == 0;
  };
  CHECK(same(ops[0], owner.bytes + 5 * kGranuleBytes + 8));
  CHECK(same(ops[1], &owner.headers[5]));
  CHECK(same(ops[2], &owner.buckets[pair.first_index]));
  CHECK(same(ops[3], owner.writable + kWritableBytes - 100));
}

TEMPLATE_TEST_CASE("conformance: several clients read from several peers", "[conformance]", PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.peers_count = 4;
  options.clients_count = 3;
  TestType fixture(options);
  OpBuilder build(3 * 400 * 3000);
  std::array<std::vector<Op>, 3> ops;
  std::array<Ticket, 3> tickets;
  for (uint32_t p = 0; p < 4; ++p) {
    for (uint32_t slot = 0; slot < 100; ++slot) {
      const Location at = fixture.owner(p).publish(slot, 2048 + slot);
      for (uint32_t c = 0; c < 3; ++c) {
        ops[c].push_back(build.read(fixture.peer(p), at, 2));
      }
    }
  }
  for (uint32_t c = 0; c < 3; ++c) {
    tickets[c] = fixture.client(c).submit(ops[c], fixture.now() + Nanos(10'000'000'000)).value();
  }
  REQUIRE(fixture.run_until([&] {
    return !fixture.client(0).busy() && !fixture.client(1).busy() && !fixture.client(2).busy();
  }));
  for (uint32_t c = 0; c < 3; ++c) {
    CHECK(fixture.client(c).result(tickets[c])->ok_count == 400);
    uint32_t wrong = 0;
    for (const Op& op : ops[c]) {
      wrong += holds(fixture.pattern(), op) ? 0 : 1;
    }
    CHECK(wrong == 0);
    fixture.client(c).release(tickets[c]);
  }
  fixture.check_invariants();
}

TEMPLATE_TEST_CASE("conformance: unequal rails share a batch and the slow one gets less", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  if (TestType::kRailsMax < 2) {
    return;  // a client has one rail of this transport
  }
  FixtureOptions options;
  options.rails_count = 3;
  options.slow_rail_percent = 800;
  options.engine.lane_window_bytes = 1 << 20;
  TestType fixture(options);
  OpBuilder build(1024 * 65'600);
  std::vector<Op> ops;
  for (uint32_t i = 0; i < 1024; ++i) {
    ops.push_back(build.read(fixture.peer(), fixture.owner().publish(i % 32 * 16, 65'536)));
  }
  // The same slot is published again and again: only its last life is read.
  for (Op& op : ops) {
    op.target.generation = fixture.owner().headers[op.target.slot.value()].generation;
  }
  expect_all(fixture, ops, OpStatus::kOk);
  std::array<uint64_t, 3> carried{};
  if constexpr (requires { fixture.cluster(); }) {
    for (uint32_t r = 0; r < 3; ++r) {
      carried[r] = fixture.cluster().rail(r).stats().bytes_count;
    }
    CHECK(carried[0] + carried[1] + carried[2] >= uint64_t{1024} * 65'536);
    CHECK(carried[0] * 3 < carried[1]);
    CHECK(carried[0] > 0);
  }
}

TEMPLATE_TEST_CASE("conformance: verify full accepts what the owner hashed and nothing else", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.engine.verify = VerifyReads::kFull;
  TestType fixture(options);
  const Location good = fixture.owner().publish(1, 100'000);
  const Location bad = fixture.owner().publish(100, 100'000);
  fixture.owner().bytes[100 * kGranuleBytes + 99'999] ^= std::byte{1};
  OpBuilder build(300'000);
  expect_all(fixture, {build.read(fixture.peer(), good, 7)}, OpStatus::kOk);
  expect_all(fixture, {build.read(fixture.peer(), bad, 7)}, OpStatus::kBadPayload);
  CHECK(fixture.client().counters().bad_payload.value() == 1);
}

}  // namespace peercache::test
