#include "dataplane/rail/rail.h"

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

#include "dataplane/transport/null/null_transport.h"
#include "tests/dataplane/rail/rail_bench.h"

using namespace peercache;
using namespace peercache::test;

TEST_CASE("rail: a validated read brings the bytes and the header that proves them",
          "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  const Location location = cluster.peer(1).publish(3, key_of(1), 5000);
  auto& op = bench.push(bench.read(1, location));
  bench.finish();
  CHECK(op.status() == OpStatus::kOk);
  CHECK(bench.right(op));
  CHECK(header_proves(op.record.landing, location));
  CHECK(bench.rail().stats().operations_count == 1);
  CHECK(bench.rail().stats().bytes_count == 5000);
  CHECK(bench.rail().stats().completions_count == 2);
  CHECK(bench.rail().stats().bytes_in_flight == 0);
}

TEST_CASE("rail: the header read is posted only after the data have completed", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  bench.push(bench.read(0, cluster.peer(0).publish(0, key_of(1), 4096)));
  cluster.turn();
  CHECK(cluster.transport().posts_count() == 1);
  while (cluster.fabric().step()) {
  }
  CHECK(cluster.transport().posts_count() == 1);  // complete, but not polled
  cluster.turn();
  CHECK(cluster.transport().posts_count() == 2);  // in the turn that polled the completion
  bench.finish();
  CHECK(bench.count(OpStatus::kOk) == 1);
}

TEST_CASE("rail: each operation of a large batch comes back exactly once", "[unit][sim]") {
  SimFaults faults;
  faults.jitter_ns = 3'000;
  faults.reorder_ppm = 300'000;
  faults.torn_ppm = 300'000;
  faults.error_ppm = 20'000;
  const uint64_t seed = GENERATE(1, 2, 3);
  CAPTURE(seed);
  SimCluster cluster({.seed = seed, .peers_count = 3, .faults = faults});
  RailBench bench(cluster);
  for (uint32_t i = 0; i < 3000; ++i) {
    const auto peer = static_cast<uint16_t>(i % 3);
    const uint32_t slot = i % 128;
    bench.push(bench.read(peer, cluster.peer(peer).publish(slot, key_of(i), 64 + i % 4000)));
    if (i % 700 == 699) {
      bench.run_for(5 * kMicrosecond);
    }
  }
  bench.finish();
  CHECK(bench.returned() == 3000);
  CHECK(bench.count(OpStatus::kOk) > 100);
  CHECK(bench.count(OpStatus::kStale) > 1000);  // most slots lived further lives meanwhile
  CHECK(bench.count(OpStatus::kTransportError) > 5);
  for (uint32_t i = 0; i < 3000; ++i) {
    if (bench.op(i).status() == OpStatus::kOk) {
      REQUIRE(bench.right(bench.op(i)));
    }
  }
}

TEST_CASE("rail: reordered completions end the right operations", "[unit][sim]") {
  SimFaults faults;
  faults.reorder_ppm = 500'000;
  SimCluster cluster({.faults = faults});
  RailBench bench(cluster);
  for (uint32_t i = 0; i < 200; ++i) {
    bench.push(bench.read(0, cluster.peer(0).publish(i, key_of(i), 4096)));
  }
  std::vector<uint32_t> order;
  REQUIRE(cluster.run_until([&] {
    for (uint32_t i = 0; i < 200; ++i) {
      const bool known = std::find(order.begin(), order.end(), i) != order.end();
      if (!known && bench.op(i).returns == 1) {
        order.push_back(i);
      }
    }
    return bench.all_back();
  }));
  CHECK(bench.count(OpStatus::kOk) == 200);
  CHECK(!std::is_sorted(order.begin(), order.end()));
  for (uint32_t i = 0; i < 200; ++i) {
    CHECK(bench.right(bench.op(i)));
  }
}

TEST_CASE("rail: a slot that lives another life is stale, whenever the life changed",
          "[unit][sim]") {
  // The slot is taken over at each of many moments of the read; torn into chunks, so that both
  // lives may mix.
  uint32_t ok = 0;
  uint32_t stale = 0;
  uint32_t mixed = 0;
  for (uint64_t at_ns = 0; at_ns < 12'000; at_ns += 100) {
    SimFaults faults;
    faults.torn_ppm = 1'000'000;
    SimCluster cluster({.seed = at_ns + 1, .faults = faults});
    RailBench bench(cluster);
    const Location location = cluster.peer(0).publish(0, key_of(1), 4096);
    auto& op = bench.push(bench.read(0, location));
    bench.run_for(Nanos(static_cast<int64_t>(at_ns)));
    cluster.peer(0).publish(0, key_of(2), 4096);
    bench.finish();
    if (op.status() == OpStatus::kOk) {
      REQUIRE(bench.right(op));
      ++ok;
    } else {
      REQUIRE(op.status() == OpStatus::kStale);
      ++stale;
      mixed += bench.right(op) ? 0 : 1;
    }
  }
  CHECK(ok > 5);
  CHECK(stale > 20);
  CHECK(mixed > 10);
}

TEST_CASE("rail: a retired slot still proves its bytes, a re-filled one does not", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  SimPeer& peer = cluster.peer(0);
  const Location first = peer.publish(0, key_of(1), 100);
  const Location second = peer.publish(1, key_of(2), 100);
  const Location third = peer.publish(2, key_of(3), 100);
  peer.retire(0);
  peer.begin_life(1);
  peer.header(2).length_bytes = 99;
  auto& a = bench.push(bench.read(0, first));
  auto& b = bench.push(bench.read(0, second));
  auto& c = bench.push(bench.read(0, third));
  bench.finish();
  CHECK(a.status() == OpStatus::kOk);
  CHECK(b.status() == OpStatus::kStale);
  CHECK(c.status() == OpStatus::kStale);
  CHECK(bench.rail().stats().stale_count == 2);
}

TEST_CASE("rail: writes and lookups complete without a header read", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  auto& write = bench.write(1, 128, 1000);
  SimPeer::fill_pattern(write.buffer, key_of(5), Generation(1));
  bench.push(write);
  const Location location = cluster.peer(1).publish(4, key_of(9), 64);
  REQUIRE(cluster.peer(1).insert(location));
  const std::vector<Key128> keys{key_of(8), key_of(9)};
  std::vector<LookupResult> results;
  auto& lookup = bench.push(bench.lookup(1, keys, results));
  bench.finish();
  CHECK(write.status() == OpStatus::kOk);
  CHECK(std::equal(write.buffer.begin(), write.buffer.end(), cluster.peer(1).writable() + 128));
  CHECK(lookup.status() == OpStatus::kOk);
  CHECK(results[0].count == 0);
  REQUIRE(results[1].count == 1);
  CHECK(results[1].locations[0].key == key_of(9));
  CHECK(cluster.transport().posts_count() == 2);
}

TEST_CASE("rail: what is wrong in itself ends as out of bounds and hurts nobody else",
          "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  Location beyond = cluster.peer(0).publish(255, key_of(1), 4096);
  beyond.length_bytes = 4097;
  auto& a = bench.push(bench.read(0, beyond));
  auto& b = bench.write(0, 0, 64);
  b.record.region = kSimPublished;
  bench.push(b);
  auto& c = bench.push(bench.read(0, cluster.peer(0).publish(1, key_of(2), 64)));
  bench.finish();
  CHECK(a.status() == OpStatus::kOutOfBounds);
  CHECK(b.status() == OpStatus::kOutOfBounds);
  CHECK(c.status() == OpStatus::kOk);
  CHECK(bench.rail().state() == RailState::kUp);
  CHECK(bench.rail().reaches(PeerIndex(0)));
}

TEST_CASE("rail: a full lane and full tables only slow things down", "[unit][sim]") {
  RailOptions options;
  options.inflight_max_count = GENERATE(1U, 3U, 40U);
  const uint32_t depth = GENERATE(2U, 16U, 1024U);
  SimCluster cluster({.rail = options, .depth_count = depth});
  RailBench bench(cluster);
  const Location location = cluster.peer(0).publish(0, key_of(1), 64);
  uint32_t pushed = 0;
  while (bench.lane().requests.room() != 0) {
    bench.push(bench.read(0, location));
    ++pushed;
  }
  CHECK(pushed == limits::kLaneEntries);
  cluster.turn();
  CHECK(bench.lane().requests.room() == options.pull_max_count);
  CHECK(cluster.transport().in_flight_count() <= std::min(options.inflight_max_count, depth));
  bench.finish();
  CHECK(bench.count(OpStatus::kOk) == pushed);
}

TEST_CASE("rail: the byte budget bounds what is in flight and lets one through", "[unit][sim]") {
  RailOptions options;
  options.inflight_bytes_max = 10'000;
  SimCluster cluster({.rail = options});
  RailBench bench(cluster);
  for (uint32_t i = 0; i < 40; ++i) {
    bench.push(bench.read(0, cluster.peer(0).publish(i, key_of(i), 4096)));
  }
  bench.push(bench.read(0, cluster.peer(0).publish(100, key_of(100), 20'000)));
  cluster.turn();
  CHECK(cluster.transport().in_flight_count() == 2);
  CHECK(bench.rail().stats().bytes_in_flight == 8192);
  uint64_t most = 0;
  REQUIRE(cluster.run_until([&] {
    most = std::max(most, bench.rail().stats().bytes_in_flight);
    return bench.all_back();
  }));
  CHECK(bench.count(OpStatus::kOk) == 41);
  CHECK(most == 20'000);
}

TEST_CASE("rail: several lanes share a rail, each gets its own back", "[unit][sim]") {
  SimCluster cluster;
  RailBench first(cluster, 0, 0);
  RailBench second(cluster, 0, 5);
  const Location location = cluster.peer(0).publish(0, key_of(1), 4096);
  for (uint32_t i = 0; i < 100; ++i) {
    first.push(first.read(0, location));
    second.push(second.read(1, cluster.peer(1).publish(i, key_of(i), 64)));
  }
  first.finish();
  second.finish();
  CHECK(first.count(OpStatus::kOk) == 100);
  CHECK(second.count(OpStatus::kOk) == 100);
}

TEST_CASE("rail: lanes are attached once per client, also while it runs", "[unit][sim]") {
  SimCluster cluster;
  Lane* lane = cluster.rail().attach_lane(ClientIndex(1), nullptr).value();
  CHECK(cluster.rail().attach_lane(ClientIndex(1), nullptr).value() == lane);
  auto event = WakeEvent::open().value();
  CHECK(cluster.rail().attach_lane(ClientIndex(1), event.get()).error().code ==
        Errc::kAlreadyExists);
  cluster.turn();
  RailBench bench(cluster, 0, 2);
  bench.push(bench.read(0, cluster.peer(0).publish(0, key_of(1), 64)));
  bench.finish();
  CHECK(bench.count(OpStatus::kOk) == 1);
  for (uint16_t i = 3; i < limits::kClientsMax + 1; ++i) {
    CHECK(cluster.rail().attach_lane(ClientIndex(i), nullptr).has_value());
  }
  CHECK(cluster.rail().attach_lane(ClientIndex(100), nullptr).error().code == Errc::kNoClient);
}

TEST_CASE("rail: options out of range are refused", "[unit]") {
  const auto code = [](RailOptions options) {
    auto rail = make_rail(options, NullTransport::open({}).value());
    return rail.has_value() ? Errc{} : rail.error().code;
  };
  CHECK(code({}) == Errc{});
  CHECK(code({.rail = RailIndex(limits::kRailsMax)}) == Errc::kOutOfRange);
  CHECK(code({.operation_timeout_ms = 0}) == Errc::kOutOfRange);
  CHECK(code({.probe_backoff_ms_min = 0}) == Errc::kOutOfRange);
  CHECK(code({.inflight_max_count = 0}) == Errc::kOutOfRange);
  CHECK(code({.inflight_max_count = limits::kInflightPerRail + 1}) == Errc::kOutOfRange);
  CHECK(code({.pull_max_count = 65}) == Errc::kOutOfRange);
}

TEST_CASE("rail: one doorbell per turn, however much is posted", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  const Location location = cluster.peer(0).publish(0, key_of(1), 64);
  for (uint32_t i = 0; i < 30; ++i) {
    bench.push(bench.read(0, location));
  }
  cluster.turn();
  CHECK(cluster.transport().posts_count() == 30);
  CHECK(bench.rail().stats().doorbells_count == 1);
  bench.finish();
}
