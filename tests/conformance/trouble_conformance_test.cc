// Deadlines, cancels, and peers that freeze or die: no wrong byte, no late write, no hang.
#include <catch2/catch.hpp>

#include "tests/conformance/transport_list.h"

namespace peercache::test {
namespace {

constexpr Nanos kSecond{1'000'000'000};

// An operation that does not end while its peer is frozen.
template <class Fixture>
Op blocking_op(Fixture& fixture, OpBuilder& build, uint32_t p, uint32_t i) {
  if (Fixture::kBlocks == OpKind::kRead) {
    return build.plain(OpKind::kRead, fixture.peer(p), kPublishedRegion, uint64_t{i} * 4096, 4096);
  }
  return build.plain(OpKind::kWrite, fixture.peer(p), kWritableRegion, uint64_t{i} * 4096, 4096);
}

template <class Fixture>
std::vector<Op> blocking_ops(Fixture& fixture, OpBuilder& build, uint32_t p, uint32_t count) {
  std::vector<Op> ops;
  for (uint32_t i = 0; i < count; ++i) {
    ops.push_back(blocking_op(fixture, build, p, i % 200));
  }
  return ops;
}

bool is_miss(OpStatus status) {
  return status == OpStatus::kPeerLost || status == OpStatus::kPeerSuspect || status == OpStatus::kDeadline ||
         status == OpStatus::kNoRail || status == OpStatus::kTransportError || status == OpStatus::kStale;
}

// Every operation is a hit with the right bytes, or a miss. Returns the hits.
template <class Fixture>
uint32_t check_hits_or_misses(Fixture& fixture, Ticket ticket, const std::vector<Op>& ops) {
  Client& client = fixture.client();
  uint32_t hits = 0;
  uint32_t bad = 0;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    const OpStatus status = client.status(ticket, i);
    if (status == OpStatus::kOk) {
      const std::vector<std::byte> bytes = OpBuilder::gathered(ops[i]);
      bad += fixture.pattern().matches(bytes.data(), ops[i].target.key, bytes.size()) ? 0 : 1;
      ++hits;
    } else {
      bad += is_miss(status) ? 0 : 1;
    }
  }
  CHECK(bad == 0);
  return hits;
}

FixtureOptions mortal_options(uint32_t bytes) {
  FixtureOptions options;
  options.own_processes = true;
  options.initial_count = 64;
  options.initial_stride = bytes / kGranuleBytes + 1;
  options.slots_count = 64 * options.initial_stride;
  options.initial_bytes = bytes;
  options.operation_timeout_ms = 200;
  return options;
}

// Where the peer's objects are, without its memory at hand.
template <class Fixture>
Location initial_location(Fixture& fixture, const FixtureOptions& options, uint32_t i) {
  const OwnerView& owner = fixture.owner();
  Location at{};
  at.key = owner.key_of(i * options.initial_stride);
  at.node = owner.node();
  at.slot = SlotIndex(i * options.initial_stride);
  at.offset_bytes = uint64_t{at.slot.value()} * kGranuleBytes;
  at.generation = Generation(1);
  at.length_bytes = options.initial_bytes;
  at.incarnation = Incarnation(1);
  at.region = kPublishedRegion;
  return at;
}

template <class Fixture>
std::vector<Op> initial_reads(Fixture& fixture, const FixtureOptions& options, OpBuilder& build, uint32_t count) {
  std::vector<Op> ops;
  for (uint32_t i = 0; i < count; ++i) {
    ops.push_back(build.read(fixture.peer(), initial_location(fixture, options, i % options.initial_count), 2));
  }
  return ops;
}

}  // namespace

TEMPLATE_TEST_CASE("conformance: a frozen peer costs the deadline, and nothing arrives after it", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.operation_timeout_ms = 60'000;
  TestType fixture(options);
  Client& client = fixture.client();
  OpBuilder build(1 << 20);
  build.clear();
  fixture.freeze(0);
  const auto ops = blocking_ops(fixture, build, 0, 20);
  const Nanos deadline = fixture.now() + Nanos(100'000'000);
  const Ticket ticket = client.submit(ops, deadline).value();
  REQUIRE(fixture.run_until([&] { return client.result(ticket)->done; }));
  CHECK(fixture.now() >= deadline);
  CHECK(fixture.now() < deadline + Nanos(250'000'000));
  for (uint32_t i = 0; i < ops.size(); ++i) {
    CHECK(client.status(ticket, i) == OpStatus::kDeadline);
  }
  client.release(ticket);
  build.clear();
  const Nanos later = fixture.now() + Nanos(50'000'000);
  static_cast<void>(fixture.run_until([&] { return fixture.now() >= later; }));
  for (const std::byte byte : build.memory()) {
    REQUIRE(byte == std::byte{0xee});  // quiet means quiet
  }
  fixture.check_invariants();
}

TEMPLATE_TEST_CASE("conformance: one operation times out by itself, long before its batch", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.operation_timeout_ms = 100;
  TestType fixture(options);
  Client& client = fixture.client();
  OpBuilder build(1 << 20);
  fixture.freeze(0);
  const auto ops = blocking_ops(fixture, build, 0, 4);
  const Nanos start = fixture.now();
  const Ticket ticket = client.submit(ops, start + 8 * kSecond).value();
  REQUIRE(fixture.run_until([&] { return client.result(ticket)->done; }));
  CHECK(fixture.now() - start < Nanos(500'000'000));
  CHECK(client.status(ticket, 0) == OpStatus::kDeadline);
  client.release(ticket);
  // A dead owner costs one time-out: the next batch misses at once.
  const Nanos again = fixture.now();
  const Ticket next = client.submit(ops, again + 8 * kSecond).value();
  REQUIRE(fixture.run_until([&] { return client.result(next)->done; }));
  CHECK(fixture.now() - again < Nanos(300'000'000));
  CHECK(is_miss(client.status(next, 0)));
  client.release(next);
}

TEMPLATE_TEST_CASE("conformance: a cancelled batch becomes quiet and its client goes on", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.peers_count = 2;
  TestType fixture(options);
  Client& client = fixture.client();
  OpBuilder build(16 << 20);
  fixture.freeze(0);
  const auto ops = blocking_ops(fixture, build, 0, 3000);  // some in flight, some in the lane, some behind it
  const Ticket ticket = client.submit(ops, fixture.now() + 8 * kSecond).value();
  fixture.turn();
  const Nanos cancelled_at = fixture.now();
  client.cancel(ticket);
  REQUIRE(fixture.run_until([&] { return client.result(ticket)->done; }));
  CHECK(fixture.now() - cancelled_at < Nanos(250'000'000));
  uint32_t cancelled = 0;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    cancelled += client.status(ticket, i) == OpStatus::kCancelled ? 1 : 0;
  }
  CHECK(cancelled == ops.size());
  client.release(ticket);
  const Location at = fixture.owner(1).publish(3, 5000);
  const Op op = build.read(fixture.peer(1), at);
  const Ticket after = client.submit({&op, 1}, fixture.now() + kSecond).value();
  REQUIRE(fixture.run_until([&] { return client.result(after)->done; }));
  CHECK(client.status(after, 0) == OpStatus::kOk);
  client.release(after);
  fixture.check_invariants();
}

TEMPLATE_TEST_CASE("conformance: other batches survive the fencing of a cancelled one", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.clients_count = 2;
  TestType fixture(options);
  OpBuilder build(16 << 20);
  const Location at = fixture.owner().publish(1, 65'536);
  std::vector<Op> mine;
  std::vector<Op> others;
  for (int i = 0; i < 60; ++i) {
    mine.push_back(build.read(fixture.peer(), at));
    others.push_back(build.read(fixture.peer(), at));
  }
  const Ticket cancelled = fixture.client(0).submit(mine, fixture.now() + 8 * kSecond).value();
  const Ticket kept = fixture.client(1).submit(others, fixture.now() + 8 * kSecond).value();
  fixture.turn();
  fixture.client(0).cancel(cancelled);
  REQUIRE(fixture.run_until([&] { return !fixture.client(0).busy() && !fixture.client(1).busy(); }));
  CHECK(fixture.client(1).result(kept)->ok_count == others.size());
  fixture.client(0).release(cancelled);
  fixture.client(1).release(kept);
  for (const Op& op : others) {
    const std::vector<std::byte> bytes = OpBuilder::gathered(op);
    REQUIRE(fixture.pattern().matches(bytes.data(), at.key, bytes.size()));
  }
  fixture.check_invariants();
}

TEMPLATE_TEST_CASE("conformance: a peer that died before the submit is a miss", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  const FixtureOptions options = mortal_options(4096);
  TestType fixture(options);
  OpBuilder build(1 << 20);
  fixture.kill(0);
  const auto ops = initial_reads(fixture, options, build, 16);
  const Nanos start = fixture.now();
  const Ticket ticket = fixture.client().submit(ops, start + 4 * kSecond).value();
  REQUIRE(fixture.run_until([&] { return fixture.client().result(ticket)->done; }));
  CHECK(fixture.now() - start < 2 * kSecond);
  check_hits_or_misses(fixture, ticket, ops);
  fixture.client().release(ticket);
  // Once its death is known nothing of it is a hit any more.
  REQUIRE(fixture.run_until([&] {
    build.clear();
    const auto more = initial_reads(fixture, options, build, 1);
    const Ticket probe = fixture.client().submit(more, fixture.now() + kSecond).value();
    while (!fixture.client().result(probe)->done) {
      fixture.turn();
    }
    const bool missed = fixture.client().status(probe, 0) != OpStatus::kOk;
    fixture.client().release(probe);
    return missed;
  }));
}

TEMPLATE_TEST_CASE("conformance: a peer that dies while reads are queued and posted is hit or miss", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  const FixtureOptions options = mortal_options(65'536);
  for (const uint32_t turns : {0U, 1U, 3U, 10U, 40U, 100U}) {
    CAPTURE(turns);
    TestType fixture(options);
    OpBuilder build(size_t{1500} * 65'600);
    const auto ops = initial_reads(fixture, options, build, 1500);  // more than a lane holds
    const Nanos start = fixture.now();
    const Ticket ticket = fixture.client().submit(ops, start + 4 * kSecond).value();
    for (uint32_t i = 0; i < turns; ++i) {
      fixture.turn();
    }
    fixture.kill(0);
    REQUIRE(fixture.run_until([&] { return fixture.client().result(ticket)->done; }));
    CHECK(fixture.now() - start < 3 * kSecond);
    check_hits_or_misses(fixture, ticket, ops);
    fixture.client().release(ticket);
    fixture.check_invariants();
  }
}

TEMPLATE_TEST_CASE("conformance: a peer that dies between data and header is no wrong hit", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  const FixtureOptions options = mortal_options(1 << 20);
  TestType fixture(options);
  Client& client = fixture.client();
  OpBuilder build(2 << 20);
  build.clear();
  const auto ops = initial_reads(fixture, options, build, 1);
  const Ticket ticket = client.submit(ops, fixture.now() + 4 * kSecond).value();
  const LocalPiece& last = ops[0].pieces.back();
  const auto arrived = [&] {
    const std::vector<std::byte> bytes = OpBuilder::gathered(ops[0]);
    return fixture.pattern().matches(bytes.data(), ops[0].target.key, bytes.size());
  };
  static_cast<void>(last);
  for (int i = 0; i < 10'000 && !arrived() && !client.result(ticket)->done; ++i) {
    fixture.turn();
  }
  CHECK(arrived());
  fixture.kill(0);
  REQUIRE(fixture.run_until([&] { return client.result(ticket)->done; }));
  check_hits_or_misses(fixture, ticket, ops);
  client.release(ticket);
}

TEMPLATE_TEST_CASE("conformance: what was read before a peer's death stays read", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  const FixtureOptions options = mortal_options(8192);
  TestType fixture(options);
  Client& client = fixture.client();
  OpBuilder build(2 << 20);
  const auto ops = initial_reads(fixture, options, build, 64);
  const Ticket ticket = client.submit(ops, fixture.now() + 4 * kSecond).value();
  REQUIRE(fixture.run_until([&] { return client.result(ticket)->done; }));
  fixture.kill(0);
  const Nanos later = fixture.now() + Nanos(20'000'000);
  static_cast<void>(fixture.run_until([&] { return fixture.now() >= later; }));
  CHECK(check_hits_or_misses(fixture, ticket, ops) == 64);
  client.release(ticket);
}

TEMPLATE_TEST_CASE("conformance: a dead peer does not hold up the others", "[conformance]", PC_TRANSPORT_FIXTURES) {
  FixtureOptions options = mortal_options(4096);
  options.peers_count = 3;
  TestType fixture(options);
  Client& client = fixture.client();
  OpBuilder build(4 << 20);
  std::vector<Op> ops;
  for (uint32_t i = 0; i < 60; ++i) {
    Location at = initial_location(fixture, options, i);
    at.key = fixture.owner(i % 3).key_of(i * options.initial_stride);
    ops.push_back(build.read(fixture.peer(i % 3), at));
  }
  fixture.kill(1);
  const Ticket ticket = client.submit(ops, fixture.now() + 4 * kSecond).value();
  REQUIRE(fixture.run_until([&] { return client.result(ticket)->done; }));
  CHECK(client.result(ticket)->ok_count >= 40);
  check_hits_or_misses(fixture, ticket, ops);
  for (uint32_t i = 0; i < 60; ++i) {
    if (i % 3 != 1) {
      CHECK(client.status(ticket, i) == OpStatus::kOk);
    }
  }
  client.release(ticket);
}

TEMPLATE_TEST_CASE("conformance: a thawed peer is read again", "[conformance]", PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.operation_timeout_ms = 50;
  TestType fixture(options);
  Client& client = fixture.client();
  OpBuilder build(64 << 20);
  fixture.freeze(0);
  const auto ops = blocking_ops(fixture, build, 0, 1);
  const Ticket ticket = client.submit(ops, fixture.now() + 4 * kSecond).value();
  REQUIRE(fixture.run_until([&] { return client.result(ticket)->done; }));
  CHECK(client.status(ticket, 0) != OpStatus::kOk);
  client.release(ticket);
  fixture.thaw(0);
  const Nanos give_up = fixture.now() + 5 * kSecond;
  bool recovered = false;
  while (!recovered && fixture.now() < give_up) {
    build.clear();
    const auto again = blocking_ops(fixture, build, 0, 1);
    const Ticket probe = client.submit(again, fixture.now() + kSecond).value();
    REQUIRE(fixture.run_until([&] { return client.result(probe)->done; }));
    recovered = client.status(probe, 0) == OpStatus::kOk;
    client.release(probe);
    const Nanos pause = fixture.now() + Nanos(10'000'000);
    static_cast<void>(fixture.run_until([&] { return fixture.now() >= pause; }));
  }
  CHECK(recovered);
}

}  // namespace peercache::test
