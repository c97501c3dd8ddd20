// WRITE and LOOKUP.
#include <catch2/catch.hpp>

#include "tests/conformance/transport_list.h"

namespace peercache::test {
namespace {

template <class Fixture>
BatchResult finish(Fixture& fixture, const std::vector<Op>& ops) {
  Client& client = fixture.client();
  const Ticket ticket = client.submit(ops, fixture.now() + Nanos(10'000'000'000)).value();
  REQUIRE(fixture.run_until([&] { return client.result(ticket)->done; }));
  const BatchResult result = client.result(ticket).value();
  client.release(ticket);
  fixture.check_invariants();
  return result;
}

std::vector<std::byte> numbered_bytes(size_t count, uint64_t seed) {
  TestRandom random(seed);
  std::vector<std::byte> out(count);
  for (std::byte& byte : out) {
    byte = static_cast<std::byte>(random.next() >> 56);
  }
  return out;
}

}  // namespace

TEMPLATE_TEST_CASE("conformance: a WRITE gathers its pieces and touches nothing else", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  TestType fixture(FixtureOptions{});
  std::byte* const remote = fixture.owner().writable;
  for (const uint32_t bytes : {1U, 7U, 4096U, 65'537U, 500'000U}) {
    for (const uint32_t pieces : {1U, 2U, 30U, 160U}) {
      if (pieces > bytes) {
        continue;
      }
      CAPTURE(bytes, pieces);
      std::fill_n(remote, kWritableBytes, std::byte{0x11});
      OpBuilder build(size_t{bytes} + 512);
      const Op op = build.plain(OpKind::kWrite, fixture.peer(), kWritableRegion, 1001, bytes, pieces);
      const std::vector<std::byte> data = numbered_bytes(bytes, bytes + pieces);
      OpBuilder::scatter(op, data);
      CHECK(finish(fixture, {op}).ok_count == 1);
      CHECK(std::memcmp(remote + 1001, data.data(), bytes) == 0);
      CHECK(remote[1000] == std::byte{0x11});
      CHECK(remote[1001 + bytes] == std::byte{0x11});
    }
  }
}

TEMPLATE_TEST_CASE("conformance: a batch of WRITEs to different places all arrive", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.peers_count = 2;
  TestType fixture(options);
  OpBuilder build(600 * 1100);
  std::vector<Op> ops;
  std::vector<std::vector<std::byte>> data;
  for (uint32_t i = 0; i < 600; ++i) {
    ops.push_back(build.plain(OpKind::kWrite, fixture.peer(i % 2), kWritableRegion, i * 1024, 1000, 1 + i % 2));
    data.push_back(numbered_bytes(1000, i));
    OpBuilder::scatter(ops.back(), data.back());
  }
  CHECK(finish(fixture, ops).ok_count == 600);
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < 600; ++i) {
    wrong += std::memcmp(fixture.owner(i % 2).writable + i * 1024, data[i].data(), 1000) != 0 ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("conformance: a LOOKUP finds what the table holds, key by key", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  FixtureOptions options;
  options.slots_count = 4096;
  TestType fixture(options);
  const OwnerView& owner = fixture.owner();
  std::vector<Location> at;
  for (uint32_t i = 0; i < 2500; ++i) {
    at.push_back(owner.publish(i, 64));
    if (i % 5 != 0 && !owner.insert(at.back())) {
      at.back().key = Key128{};  // both buckets full: not there
    }
  }
  for (const uint32_t count : {1U, 2U, 9U, 128U, 2000U, 2500U}) {
    CAPTURE(count);
    std::vector<Key128> keys;
    std::vector<LookupResult> results(count);
    for (uint32_t i = 0; i < count; ++i) {
      keys.push_back(owner.key_of(i));
      results[i].count = 77;
    }
    const LookupBatch batch{.keys = keys.data(), .results = results.data(), .key_count = count};
    Op op;
    op.kind = OpKind::kLookup;
    op.peer = fixture.peer();
    op.target.region = kDirectoryRegion;
    op.lookup = &batch;
    CHECK(finish(fixture, {op}).ok_count == 1);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const bool there = i % 5 != 0 && at[i].key != Key128{};
      const bool right =
          results[i].count == (there ? 1U : 0U) &&
          (!there || std::memcmp(&results[i].locations[0], &at[i], sizeof(Location)) == 0);
      wrong += right ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEMPLATE_TEST_CASE("conformance: a record whose checksum is wrong is not found", "[conformance]",
                   PC_TRANSPORT_FIXTURES) {
  TestType fixture(FixtureOptions{});
  const OwnerView& owner = fixture.owner();
  Location planted = owner.publish(1, 4096);
  planted.offset_bytes += 64;  // not sealed again
  REQUIRE(owner.insert(planted));
  const Key128 key = planted.key;
  LookupResult result;
  result.count = 77;
  const LookupBatch batch{.keys = &key, .results = &result, .key_count = 1};
  Op op;
  op.kind = OpKind::kLookup;
  op.peer = fixture.peer();
  op.target.region = kDirectoryRegion;
  op.lookup = &batch;
  CHECK(finish(fixture, {op}).ok_count == 1);
  CHECK(result.count == 0);
}

TEMPLATE_TEST_CASE("conformance: READ, WRITE and LOOKUP mix in one batch", "[conformance]", PC_TRANSPORT_FIXTURES) {
  TestType fixture(FixtureOptions{});
  const OwnerView& owner = fixture.owner();
  const Location at = owner.publish(4, 10'000);
  REQUIRE(owner.insert(at));
  OpBuilder build(1 << 18);
  LookupResult result;
  const LookupBatch batch{.keys = &at.key, .results = &result, .key_count = 1};
  Op lookup;
  lookup.kind = OpKind::kLookup;
  lookup.peer = fixture.peer();
  lookup.target.region = kDirectoryRegion;
  lookup.lookup = &batch;
  const Op read = build.read(fixture.peer(), at, 3);
  const Op write = build.plain(OpKind::kWrite, fixture.peer(), kWritableRegion, 64, 3000, 2);
  const std::vector<std::byte> data = numbered_bytes(3000, 5);
  OpBuilder::scatter(write, data);
  CHECK(finish(fixture, {lookup, read, write}).ok_count == 3);
  CHECK(result.count == 1);
  CHECK(std::memcmp(owner.writable + 64, data.data(), 3000) == 0);
  const std::vector<std::byte> bytes = OpBuilder::gathered(read);
  CHECK(fixture.pattern().matches(bytes.data(), at.key, bytes.size()));
}

}  // namespace peercache::test
