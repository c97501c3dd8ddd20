// Deadlines, cancels, fences and stop.
#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/dataplane/rail/rail_bench.h"

using namespace peercache;
using namespace peercache::test;

namespace {

/// Loses exactly the operations that are posted while it lives.
class Losing {
 public:
  Losing(SimCluster& cluster, uint32_t rail, uint32_t peer, uint64_t lost_write_ns = 0)
      : faults_(cluster.link(rail, peer)) {
    faults_.lost = true;
    faults_.lost_write_ns = lost_write_ns;
  }
  ~Losing() { faults_.lost = false; }
  Losing(const Losing&) = delete;
  Losing& operator=(const Losing&) = delete;

 private:
  SimFaults& faults_;
};

}  // namespace

TEST_CASE("rail: a time-out fences first, and the destination is quiet afterwards", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  cluster.link(0, 0).fence_ns = 3'000'000;
  cluster.link(0, 0).lost = true;
  cluster.link(0, 0).lost_write_ns = 2'000'000'000;  // the bytes come late, for two seconds
  std::vector<RailBench::Op*> ops;
  for (uint32_t i = 0; i < 50; ++i) {
    ops.push_back(&bench.push(bench.read(0, cluster.peer(0).publish(i, key_of(i), 4096))));
  }
  bench.run_for(499 * kMillisecond);
  CHECK(bench.returned() == 0);
  CHECK(cluster.transport().fences_count() == 0);
  bench.run_for(2 * kMillisecond);
  CHECK(cluster.transport().fences_count() == 1);  // one for all of them
  CHECK(bench.returned() == 0);                    // not before the fence is done
  bench.run_for(4 * kMillisecond);
  CHECK(bench.count(OpStatus::kDeadline) == 50);
  for (RailBench::Op* op : ops) {
    std::fill(op->buffer.begin(), op->buffer.end(), std::byte{0x5a});
  }
  bench.run_for(3'000 * kMillisecond);
  for (const RailBench::Op* op : ops) {
    CHECK(std::all_of(op->buffer.begin(), op->buffer.end(),
                      [](std::byte b) { return b == std::byte{0x5a}; }));
  }
}

TEST_CASE("rail: what a cancel's fence flushes besides is posted again", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  cluster.link(0, 0).latency_ns = 10'000'000;
  {
    const Losing losing(cluster, 0, 0);
    bench.push(bench.read(0, cluster.peer(0).publish(0, key_of(1), 64), 7));
    cluster.turn();
  }
  auto& innocent = bench.push(bench.read(0, cluster.peer(0).publish(1, key_of(2), 4096), 8));
  auto& elsewhere = bench.push(bench.read(1, cluster.peer(1).publish(1, key_of(2), 4096), 7));
  bench.run_for(kMillisecond);
  CHECK(elsewhere.status() == OpStatus::kOk);
  bench.cancel(7);
  // Also what comes while the fence is under way is only delayed.
  cluster.turn();
  auto& late = bench.push(bench.read(0, cluster.peer(0).publish(2, key_of(3), 4096), 8));
  cluster.turn();
  CHECK(cluster.transport().posts_count() == 4);  // two, one with its header; the late one is held
  bench.finish();
  CHECK(bench.op(0).status() == OpStatus::kCancelled);
  CHECK(innocent.status() == OpStatus::kOk);
  CHECK(bench.right(innocent));
  CHECK(innocent.record.attempt_count == 0);
  CHECK(late.status() == OpStatus::kOk);
  CHECK(cluster.transport().fences_count() == 1);
  CHECK(cluster.transport().posts_count() == 4 + 2 + 2);
  CHECK(bench.rail().reaches(PeerIndex(0)));
  CHECK(bench.rail().state() == RailState::kUp);
}

TEST_CASE("rail: a lost operation of a living peer costs only itself", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  const Location location = cluster.peer(0).publish(0, key_of(1), 4096);
  {
    const Losing losing(cluster, 0, 0);
    bench.push(bench.read(0, location));
    cluster.turn();
  }
  for (uint32_t i = 0; i < 10; ++i) {
    bench.push(bench.read(0, location));
    bench.run_for(49 * kMillisecond);
  }
  CHECK(bench.count(OpStatus::kOk) == 10);
  cluster.link(0, 0).latency_ns = 30'000'000;
  auto& innocent = bench.push(bench.read(0, location));  // in flight when the fence comes
  bench.run_for(15 * kMillisecond);
  CHECK(bench.op(0).status() == OpStatus::kDeadline);
  CHECK(innocent.status() == OpStatus::kPending);
  bench.finish();
  CHECK(innocent.status() == OpStatus::kOk);
  CHECK(bench.rail().reaches(PeerIndex(0)));
}

TEST_CASE("rail: only the header is read again if only the header was flushed", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  {
    const Losing losing(cluster, 0, 0);
    bench.push(bench.write(0, 0, 64, 7));
    cluster.turn();
  }
  auto& op = bench.push(bench.read(0, cluster.peer(0).publish(0, key_of(1), 4096), 8));
  REQUIRE(cluster.run_until([&] { return cluster.transport().posts_count() == 3; }));
  bench.cancel(7);
  bench.finish();
  CHECK(op.status() == OpStatus::kOk);
  CHECK(bench.right(op));
  CHECK(cluster.transport().posts_count() == 4);
  CHECK(bench.rail().stats().bytes_count == 4096);
}

TEST_CASE("rail: flushes that nobody asked for are repeated, but not for ever", "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  cluster.link(0, 0).latency_ns = 1'000'000;
  auto& op = bench.push(bench.read(0, cluster.peer(0).publish(0, key_of(1), 4096)));
  const uint32_t flushes = GENERATE(3U, 4U);
  for (uint32_t i = 0; i < flushes; ++i) {
    bench.run_for(100 * kMicrosecond);
    cluster.transport().fence(PeerIndex(0));
    bench.run_for(100 * kMicrosecond);
  }
  bench.finish();
  CHECK(op.status() == (flushes == 3 ? OpStatus::kOk : OpStatus::kTransportError));
}

TEST_CASE("rail: expired operations that are queued end without being posted", "[unit][sim]") {
  RailOptions options;
  options.inflight_max_count = 2;
  SimCluster cluster({.rail = options});
  RailBench bench(cluster);
  const Location location = cluster.peer(0).publish(0, key_of(1), 64);
  cluster.link(0, 0).lost = true;
  bench.push(bench.read(0, location));
  bench.push(bench.read(0, location));
  bench.deadline = 10 * kMillisecond;
  for (uint32_t i = 0; i < 500; ++i) {
    bench.push(bench.read(0, location));
  }
  bench.run_for(9 * kMillisecond);
  CHECK(bench.returned() == 0);
  bench.run_for(2 * kMillisecond);
  CHECK(bench.count(OpStatus::kDeadline) == 500);
  CHECK(cluster.transport().posts_count() == 2);
  CHECK(bench.rail().stats().timeouts_count == 500);
  bench.finish();
}

TEST_CASE("rail: a cancel ends what is queued at once and nothing of other batches",
          "[unit][sim]") {
  RailOptions options;
  options.inflight_max_count = 4;
  SimCluster cluster({.rail = options});
  RailBench bench(cluster);
  const Location location = cluster.peer(0).publish(0, key_of(1), 64);
  cluster.link(0, 0).latency_ns = 50'000'000;
  for (uint32_t i = 0; i < 100; ++i) {
    bench.push(bench.read(0, location, i % 2));
  }
  auto& later = bench.read(0, location, 1);
  later.record.ticket_generation_id = 1;  // the same index in its next life
  bench.push(later);
  cluster.turn();
  bench.cancel(1);
  bench.run_for(100 * kMicrosecond);
  CHECK(bench.count(OpStatus::kCancelled) == 50);
  CHECK(bench.returned() == 50);
  bench.finish();
  CHECK(bench.count(OpStatus::kOk) == 51);
}

TEST_CASE("rail: an operation that ends by itself before its fence keeps its outcome",
          "[unit][sim]") {
  SimCluster cluster;
  RailBench bench(cluster);
  cluster.link(0, 0).latency_ns = 1'000'000;
  cluster.link(0, 0).fence_ns = 50'000'000;
  auto& write = bench.write(0, 0, 64);
  bench.push(write);
  auto& read = bench.push(bench.read(0, cluster.peer(0).publish(0, key_of(1), 64)));
  cluster.turn();
  bench.cancel(0);
  bench.finish();
  CHECK(cluster.transport().fences_count() == 1);
  CHECK(write.status() == OpStatus::kOk);
  CHECK(read.status() == OpStatus::kCancelled);  // its bytes came, but nobody could prove them
}

TEST_CASE("rail: stop ends everything quietly", "[unit][sim]") {
  RailOptions options;
  options.inflight_max_count = 8;
  SimCluster cluster({.rail = options});
  RailBench bench(cluster);
  cluster.link(0, 0).lost = true;
  for (uint32_t i = 0; i < 100; ++i) {
    bench.push(bench.read(0, cluster.peer(0).publish(0, key_of(1), 64)));
  }
  cluster.turn();
  bench.rail().proxy().request_stop().value();
  bench.finish(10 * kMillisecond);
  cluster.turn();
  CHECK(bench.count(OpStatus::kCancelled) == 100);
  CHECK(bench.rail().proxy().stopped());
  CHECK(has(news(bench.rail()), RailEventKind::kStopped));
}

TEST_CASE("rail: random trouble of every kind loses nothing and lies never", "[unit][sim]") {
  const uint64_t seed = GENERATE(range(1, 13));
  CAPTURE(seed);
  SimFaults faults;
  faults.jitter_ns = 5'000;
  faults.reorder_ppm = 100'000;
  faults.torn_ppm = 300'000;
  faults.error_ppm = 2'000;
  RailOptions options;
  options.inflight_max_count = 64;
  SimCluster cluster({.seed = seed, .peers_count = 4, .faults = faults, .rail = options});
  RailBench bench(cluster);
  SimRandom random(seed);
  uint32_t pushed = 0;
  for (uint32_t step = 0; step < 600; ++step) {
    const auto peer = static_cast<uint16_t>(random.below(4));
    SimPeer& owner = cluster.peer(peer);
    for (uint64_t i = random.below(8); i > 0; --i) {
      const auto slot = static_cast<uint32_t>(random.below(32));
      const Location location = owner.publish(slot, key_of(random.below(100)), 2048);
      bench.deadline =
          cluster.now() + Nanos(static_cast<int64_t>(random.below(20'000'000) + 1'000));
      bench.push(bench.read(peer, location, static_cast<uint32_t>(random.below(4))));
      ++pushed;
    }
    SimFaults& link = cluster.link(0, peer);
    switch (random.below(40)) {
      case 0:
        link.lost = !link.lost;
        link.lost_write_ns = random.below(2) * 10'000'000;
        break;
      case 1:
        bench.cancel(static_cast<uint32_t>(random.below(4)));
        break;
      case 2:
        random.below(2) == 0 ? cluster.fabric().kill(cluster.node(peer))
                             : cluster.fabric().revive(cluster.node(peer));
        break;
      case 3:
        bench.rail().proxy().set_link(random.below(3) != 0).value();
        break;
      case 4:
        if (!bench.rail().proxy().disconnect_peer(PeerIndex(peer))) {
          static_cast<void>(
              bench.rail().proxy().connect_peer(PeerIndex(peer), SimCluster::probe_target()));
        }
        break;
      default:
        break;
    }
    bench.run_for(Nanos(static_cast<int64_t>(random.below(300'000))));
  }
  bench.finish();
  CHECK(bench.returned() == pushed);
  for (uint32_t i = 0; i < pushed; ++i) {
    if (bench.op(i).status() == OpStatus::kOk) {
      REQUIRE(bench.right(bench.op(i)));
    }
  }
  CHECK(bench.count(OpStatus::kOk) > 50);
}
