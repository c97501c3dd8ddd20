// Suspect peers, errors, probes, flaps, connects and disconnects.
#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/dataplane/rail/rail_bench.h"

using namespace peercache;
using namespace peercache::test;

TEST_CASE("rail: a silent peer is suspect after one time-out and back after a probe",
          "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  const Location location = cluster.peer(0).publish(0, key_of(1), 64);
  cluster.link(0, 0).lost = true;
  bench.push(bench.read(0, location));
  bench.finish();
  CHECK(bench.count(OpStatus::kDeadline) == 1);
  CHECK_FALSE(bench.rail().reaches(PeerIndex(0)));
  CHECK(bench.rail().reaches(PeerIndex(1)));
  CHECK(has(news(bench.rail()), RailEventKind::kPeerSuspect));

  // The next ones cost nothing, and other peers are served.
  const Nanos before = cluster.now();
  bench.push(bench.read(0, location));
  bench.push(bench.read(1, cluster.peer(1).publish(0, key_of(1), 64)));
  bench.finish();
  CHECK(cluster.now() - before < kMillisecond);
  CHECK(bench.count(OpStatus::kPeerSuspect) == 1);
  CHECK(bench.count(OpStatus::kOk) == 1);

  cluster.link(0, 0).lost = false;
  REQUIRE(
      cluster.run_until([&] { return bench.rail().reaches(PeerIndex(0)); }, 2'500 * kMillisecond));
  CHECK(has(news(bench.rail()), RailEventKind::kPeerRecovered));
  bench.push(bench.read(0, location));
  bench.finish();
  CHECK(bench.count(OpStatus::kOk) == 2);
}

TEST_CASE("rail: probes of a silent peer come at growing pauses", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  cluster.link(0, 0).lost = true;
  bench.push(bench.read(0, cluster.peer(0).publish(0, key_of(1), 64)));
  bench.finish();
  uint64_t seen = cluster.transport().posts_count();
  std::vector<int64_t> at_ms;
  const Nanos start = cluster.now();
  static_cast<void>(cluster.run_until(
      [&] {
        if (cluster.transport().posts_count() != seen) {
          seen = cluster.transport().posts_count();
          at_ms.push_back((cluster.now() - start) / kMillisecond);
        }
        return false;
      },
      12'000 * kMillisecond));
  // 100 ms of waiting for each probe, and pauses of 100, 200, 400, 800, 1600, 2000, 2000, ... ms.
  const std::vector<int64_t> expected{100, 400, 900, 1'800, 3'500, 5'600, 7'700, 9'800, 11'900};
  REQUIRE(at_ms.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(std::abs(at_ms[i] - expected[i]) <= 10);
  }
}

TEST_CASE("rail: a short deadline makes a silent peer suspect as well", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  cluster.link(0, 0).lost = true;
  const Location location = cluster.peer(0).publish(0, key_of(1), 64);
  bench.deadline = 100 * kMillisecond;  // too short to tell
  bench.push(bench.read(0, location));
  bench.finish();
  CHECK(bench.rail().reaches(PeerIndex(0)));
  bench.deadline = cluster.now() + 250 * kMillisecond;
  bench.push(bench.read(0, location));
  const Nanos before = cluster.now();
  bench.finish();
  CHECK(cluster.now() - before < 252 * kMillisecond);
  CHECK(bench.count(OpStatus::kDeadline) == 2);
  CHECK_FALSE(bench.rail().reaches(PeerIndex(0)));
}

TEST_CASE("rail: an error makes the peer wait for a probe, then all goes on", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  const Location location = cluster.peer(0).publish(0, key_of(1), 64);
  cluster.link(0, 0).error_ppm = 1'000'000;
  bench.push(bench.read(0, location));
  cluster.turn();
  cluster.link(0, 0).error_ppm = 0;
  REQUIRE(cluster.run_until([&] { return bench.drain() == 1; }));
  CHECK(bench.op(0).status() == OpStatus::kTransportError);
  CHECK(bench.rail().state() == RailState::kDegraded);
  CHECK_FALSE(bench.rail().reaches(PeerIndex(0)));
  auto& held = bench.push(bench.read(0, location));
  const Nanos before = cluster.now();
  bench.finish();
  CHECK(held.status() == OpStatus::kOk);
  CHECK(cluster.now() - before < kMillisecond);
  CHECK(bench.rail().reaches(PeerIndex(0)));
  for (uint32_t i = 0; i < 40; ++i) {
    bench.push(bench.read(0, location));
  }
  bench.finish();
  CHECK(bench.rail().state() == RailState::kUp);
  CHECK(bench.rail().stats().errors_count == 1);
}

TEST_CASE("rail: an error whose probe fails makes the peer suspect", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  const Location location = cluster.peer(0).publish(0, key_of(1), 64);
  cluster.link(0, 0).error_ppm = 1'000'000;
  bench.push(bench.read(0, location));
  REQUIRE(cluster.run_until([&] { return bench.drain() == 1; }));
  auto& held = bench.push(bench.read(0, location));
  bench.finish();
  CHECK(held.status() == OpStatus::kPeerSuspect);
  CHECK(bench.rail().state() == RailState::kDegraded);  // the other peer may be well
  bench.push(bench.read(1, cluster.peer(1).publish(0, key_of(1), 64)));
  bench.finish();
  CHECK(bench.count(OpStatus::kOk) == 1);
}

TEST_CASE("rail: a link that flaps brings the rail down, and it is taken back", "[unit][sim]") {
  SimFaults faults;
  faults.flap_period_ns = 3'000'000'000;
  faults.flap_down_ns = 1'000'000'000;
  faults.flap_from_ns = 1'000'000'000;
  SimCluster cluster({.faults = faults});
  RailBench bench(cluster);
  const Location location[2] = {cluster.peer(0).publish(0, key_of(1), 64),
                                cluster.peer(1).publish(0, key_of(1), 64)};
  uint32_t pushed = 0;
  uint32_t changes = 0;
  bool down_before = false;
  std::vector<OpStatus> late;
  while (cluster.now() < 7'000 * kMillisecond) {
    bench.deadline = cluster.now() + 1'000 * kMillisecond;
    const auto peer = static_cast<uint16_t>(pushed++ % 2);
    bench.push(bench.read(peer, location[peer]));
    bench.run_for(10 * kMillisecond);
    const bool down = bench.rail().state() == RailState::kDown;
    changes += down != down_before ? 1 : 0;
    down_before = down;
  }
  bench.finish();
  CHECK(bench.returned() == pushed);
  CHECK(changes == 4);  // down twice, up twice
  CHECK(bench.count(OpStatus::kNoRail) > 50);
  CHECK(bench.count(OpStatus::kTransportError) >=
        2);  // what is posted when the rail goes down ends as kNoRail
  CHECK(bench.count(OpStatus::kOk) > 350);  // at least five of seven seconds less the back-off
  CHECK(bench.count(OpStatus::kDeadline) == 0);
  CHECK(bench.rail().state() == RailState::kUp);
}

TEST_CASE("rail: a port that reports down refuses at once, up is tried at once", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  const Location location = cluster.peer(0).publish(0, key_of(1), 64);
  bench.rail().proxy().set_link(false).value();
  bench.push(bench.read(0, location));
  bench.finish();
  CHECK(bench.rail().state() == RailState::kDown);
  CHECK(bench.count(OpStatus::kNoRail) == 1);
  bench.run_for(5'000 * kMillisecond);
  CHECK(bench.rail().state() == RailState::kDown);
  bench.rail().proxy().set_link(true).value();
  bench.run_for(kMillisecond);
  CHECK(bench.rail().state() == RailState::kDegraded);
  bench.push(bench.read(0, location));
  bench.finish();
  CHECK(bench.count(OpStatus::kOk) == 1);
}

TEST_CASE("rail: a killed peer is lost and others are served", "[unit][sim]") {
  SimCluster cluster({.peers_count = 3});
  RailBench bench(cluster);
  for (uint32_t i = 0; i < 90; ++i) {
    const auto peer = static_cast<uint16_t>(i % 3);
    bench.push(bench.read(peer, cluster.peer(peer).publish(i, key_of(i), 4096)));
  }
  cluster.turn();
  cluster.fabric().kill(cluster.node(1));
  bench.finish();
  CHECK(bench.count(OpStatus::kOk) == 60);
  CHECK(bench.count(OpStatus::kPeerLost) + bench.count(OpStatus::kPeerSuspect) == 30);
  CHECK(bench.count(OpStatus::kPeerLost) >= 1);
  CHECK_FALSE(bench.rail().reaches(PeerIndex(1)));
  CHECK(bench.rail().state() == RailState::kUp);
}

TEST_CASE("rail: disconnect ends what is under way, quiet says when", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  RailProxy& proxy = bench.rail().proxy();
  const Location location = cluster.peer(0).publish(0, key_of(1), 4096);
  cluster.link(0, 0).lost = true;
  cluster.link(0, 0).fence_ns = 1'000'000;
  for (uint32_t i = 0; i < 20; ++i) {
    bench.push(bench.read(0, location));
  }
  cluster.turn();
  CHECK(proxy.connect_peer(PeerIndex(0), {}).error().code == Errc::kAlreadyExists);
  proxy.disconnect_peer(PeerIndex(0)).value();
  CHECK(proxy.disconnect_peer(PeerIndex(0)).error().code == Errc::kNotConnected);
  CHECK(proxy.connect_peer(PeerIndex(0), {}).error().code == Errc::kBusy);
  CHECK_FALSE(bench.rail().reaches(PeerIndex(0)));
  CHECK_FALSE(proxy.peer_quiet(PeerIndex(0)));
  auto& refused = bench.push(bench.read(0, location));
  bench.run_for(100 * kMicrosecond);
  CHECK(refused.status() == OpStatus::kPeerLost);
  CHECK_FALSE(proxy.peer_quiet(PeerIndex(0)));
  bench.finish();
  CHECK(bench.count(OpStatus::kPeerLost) == 21);
  CHECK(proxy.peer_quiet(PeerIndex(0)));
  CHECK(has(news(bench.rail()), RailEventKind::kPeerQuiet));

  cluster.link(0, 0).lost = false;
  proxy.connect_peer(PeerIndex(0), SimCluster::probe_target()).value();
  CHECK(bench.rail().reaches(PeerIndex(0)));
  bench.push(bench.read(0, location));
  bench.finish();
  CHECK(bench.count(OpStatus::kOk) == 1);
  CHECK(proxy.connect_peer(PeerIndex(limits::kPeersMax), {}).error().code == Errc::kTooManyPeers);
}

TEST_CASE("rail: operations towards a peer that was never connected are lost", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  auto& op = bench.push(bench.read(9, cluster.peer(0).publish(0, key_of(1), 64)));
  bench.finish();
  CHECK(op.status() == OpStatus::kPeerLost);
  CHECK_FALSE(bench.rail().reaches(PeerIndex(9)));
  CHECK(cluster.transport().posts_count() == 0);
}

TEST_CASE("rail: without a probe target the next operation decides", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  RailProxy& proxy = bench.rail().proxy();
  proxy.disconnect_peer(PeerIndex(0)).value();
  cluster.turn();
  proxy.connect_peer(PeerIndex(0), ProbeTarget{}).value();
  const Location location = cluster.peer(0).publish(0, key_of(1), 64);
  cluster.link(0, 0).lost = true;
  bench.push(bench.read(0, location));
  bench.finish();
  CHECK_FALSE(bench.rail().reaches(PeerIndex(0)));
  bench.run_for(150 * kMillisecond);
  CHECK(bench.rail().reaches(PeerIndex(0)));
  bench.push(bench.read(0, location));  // fails again: the pause is twice as long
  bench.finish();
  CHECK(bench.count(OpStatus::kDeadline) == 2);
  cluster.link(0, 0).lost = false;
  bench.run_for(150 * kMillisecond);
  CHECK_FALSE(bench.rail().reaches(PeerIndex(0)));
  bench.run_for(100 * kMillisecond);
  CHECK(bench.rail().reaches(PeerIndex(0)));
  bench.push(bench.read(0, location));
  bench.finish();
  CHECK(bench.count(OpStatus::kOk) == 1);
}

TEST_CASE("rail: rails of unequal speed show it in their bytes in flight", "[unit][sim]") {
  SimFaults faults;
  faults.bandwidth_bytes_per_s = 1'000'000'000;
  SimCluster cluster({.rails_count = 2, .faults = faults});
  SimFaults slow = faults;
  slow.slow_percent = 1'000;
  cluster.fabric().set_rail_faults(cluster.transport(1), slow);
  RailBench fast_bench(cluster, 0);
  RailBench slow_bench(cluster, 1);
  for (uint32_t i = 0; i < 100; ++i) {
    const Location location = cluster.peer(0).publish(i, key_of(i), 4096);
    fast_bench.push(fast_bench.read(0, location));
    slow_bench.push(slow_bench.read(0, location));
  }
  fast_bench.finish();
  slow_bench.drain();
  CHECK(slow_bench.returned() < 20);
  CHECK(cluster.rail(1).stats().bytes_in_flight > 80 * 4096);
  CHECK(cluster.rail(0).stats().bytes_in_flight == 0);
  slow_bench.finish();
  CHECK(slow_bench.count(OpStatus::kOk) == 100);
}
