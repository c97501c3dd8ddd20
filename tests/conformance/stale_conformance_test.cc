// READs that must not count: other lives, wrong places, bounds off by one.
#include <catch2/catch.hpp>

#include "tests/conformance/transport_list.h"

namespace peercache::test {
namespace {

template <class Fixture>
OpStatus status_of(Fixture& fixture, const Op& op) {
  Client& client = fixture.client();
  const Ticket ticket = client.submit({&op, 1}, fixture.now() + Nanos(10'000'000'000)).value();
  REQUIRE(fixture.run_until([&] { return client.result(ticket)->done; }));
  const OpStatus status = client.status(ticket, 0);
  client.release(ticket);
  return status;
}

template <class Fixture>
Errc refusal_of(Fixture& fixture, const Op& op) {
  const auto refused = fixture.client().submit({&op, 1}, fixture.now() + Nanos(10'000'000'000));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().values[0] == 0);
  return refused.error().code;
}

}  // namespace

TEMPLATE_TEST_CASE("conformance: a location of another life is stale", "[conformance]", PC_TRANSPORT_FIXTURES) {
  TestType fixture(FixtureOptions{});
  const OwnerView& owner = fixture.owner();
  OpBuilder build(1 << 20);
  const Location first = owner.publish(2, 4096);
  CHECK(status_of(fixture, build.read(fixture.peer(), first)) == OpStatus::kOk);
  const Location second = owner.publish(2, owner.key_of(77), 4096);
  CHECK(status_of(fixture, build.read(fixture.peer(), first)) == OpStatus::kStale);
  CHECK(status_of(fixture, build.read(fixture.peer(), second)) == OpStatus::kOk);
  // The same key again, in a later life: still not the life that was named.
  const Location third = owner.publish(2, 4096);
  CHECK(status_of(fixture, build.read(fixture.peer(), first)) == OpStatus::kStale);
  CHECK(status_of(fixture, build.read(fixture.peer(), third)) == OpStatus::kOk);
}

TEMPLATE_TEST_CASE("conformance: each field of the header has its say", "[conformance]", PC_TRANSPORT_FIXTURES) {
  TestType fixture(FixtureOptions{});
  const OwnerView& owner = fixture.owner();
  OpBuilder build(1 << 20);
  const Location at = owner.publish(2, 4096);
  Location wrong = at;
  wrong.key.low ^= 1;
  CHECK(status_of(fixture, build.read(fixture.peer(), wrong)) == OpStatus::kStale);
  wrong = at;
  wrong.generation = next(at.generation);
  CHECK(status_of(fixture, build.read(fixture.peer(), wrong)) == OpStatus::kStale);
  wrong = at;
  wrong.length_bytes = 4095;
  CHECK(status_of(fixture, build.read(fixture.peer(), wrong)) == OpStatus::kStale);
  owner.headers[2].offset_bytes += kGranuleBytes;
  CHECK(status_of(fixture, build.read(fixture.peer(), at)) == OpStatus::kStale);
  owner.headers[2].offset_bytes -= kGranuleBytes;
  CHECK(status_of(fixture, build.read(fixture.peer(), at)) == OpStatus::kOk);
}

TEMPLATE_TEST_CASE("conformance: the states of a slot decide", "[conformance]", PC_TRANSPORT_FIXTURES) {
  TestType fixture(FixtureOptions{});
  const OwnerView& owner = fixture.owner();
  OpBuilder build(1 << 20);
  const Location at = owner.publish(9, 4096);
  retire_life(owner.headers[9]);
  CHECK(status_of(fixture, build.read(fixture.peer(), at)) == OpStatus::kOk);  // the bytes are still there
  free_life(owner.headers[9]);
  CHECK(status_of(fixture, build.read(fixture.peer(), at)) == OpStatus::kStale);
  const Location again = owner.publish(9, 4096);
  owner.end(9);
  CHECK(begin_life(owner.headers[9]) == next(again.generation));
  CHECK(status_of(fixture, build.read(fixture.peer(), again)) == OpStatus::kStale);
  const Location last = owner.publish(9, 4096);
  owner.end(9);
  end_geometry(owner.headers[9]);
  CHECK(status_of(fixture, build.read(fixture.peer(), last)) == OpStatus::kStale);
}

TEMPLATE_TEST_CASE("conformance: the last byte of a region can be read, the next cannot", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.slots_count = 64;
  TestType fixture(options);
  const OwnerView& owner = fixture.owner();
  OpBuilder build(1 << 20);
  const Location last = owner.publish(63, kGranuleBytes);
  CHECK(status_of(fixture, build.read(fixture.peer(), last)) == OpStatus::kOk);
  Location beyond = last;
  beyond.length_bytes += 1;
  CHECK(refusal_of(fixture, build.read(fixture.peer(), beyond)) == Errc::kOutOfBounds);
  beyond = last;
  beyond.slot = SlotIndex(64);
  beyond.offset_bytes = 64 * kGranuleBytes;
  CHECK(refusal_of(fixture, build.read(fixture.peer(), beyond)) == Errc::kOutOfBounds);
  beyond = last;
  beyond.slot = SlotIndex(62);
  CHECK(refusal_of(fixture, build.read(fixture.peer(), beyond)) == Errc::kOutOfBounds);
  beyond = last;
  beyond.region = RegionIndex(40);
  CHECK(refusal_of(fixture, build.read(fixture.peer(), beyond)) == Errc::kOutOfBounds);
  beyond.region = kHeadersRegion;
  CHECK(refusal_of(fixture, build.read(fixture.peer(), beyond)) == Errc::kOutOfBounds);
  for (const OpKind kind : {OpKind::kRead, OpKind::kWrite}) {
    const Op good = build.plain(kind, fixture.peer(), kWritableRegion, kWritableBytes - 10, 10);
    CHECK(status_of(fixture, good) == OpStatus::kOk);
    const Op bad = build.plain(kind, fixture.peer(), kWritableRegion, kWritableBytes - 10, 11);
    CHECK(refusal_of(fixture, bad) == Errc::kOutOfBounds);
  }
  CHECK(refusal_of(fixture, build.plain(OpKind::kWrite, fixture.peer(), kPublishedRegion, 0, 8)) ==
        Errc::kOutOfBounds);
  CHECK(refusal_of(fixture, build.plain(OpKind::kWrite, fixture.peer(), kHeadersRegion, 0, 8)) ==
        Errc::kOutOfBounds);
  CHECK(refusal_of(fixture, build.plain(OpKind::kWrite, fixture.peer(), kDirectoryRegion, 0, 8)) ==
        Errc::kOutOfBounds);
}

TEMPLATE_TEST_CASE("conformance: one bad operation refuses its batch and posts nothing", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  TestType fixture(FixtureOptions{});
  const Location at = fixture.owner().publish(1, 4096);
  OpBuilder build(1 << 20);
  build.clear();
  std::vector<Op> ops;
  for (int i = 0; i < 10; ++i) {
    ops.push_back(build.read(fixture.peer(), at));
  }
  ops[6].target.length_bytes = 0;
  const auto refused = fixture.client().submit(ops, fixture.now() + Nanos(1'000'000'000));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::kEmptyOperation);
  CHECK(refused.error().values[0] == 6);
  fixture.turn();
  fixture.turn();
  for (const std::byte byte : build.memory()) {
    REQUIRE(byte == std::byte{0xee});
  }
}

}  // namespace peercache::test
