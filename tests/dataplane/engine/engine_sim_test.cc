// The engine over real rails of the simulated fabric: what a failing rail costs, and that no late
// byte of it arrives.
#include <algorithm>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/engine/client.h"
#include "tests/support/sim_cluster.h"

namespace peercache {
namespace {

using test::SimCluster;
using test::SimClusterOptions;
using test::SimPeer;

constexpr Nanos kSecond{1'000'000'000};
constexpr Nanos kMillisecond{1'000'000};
constexpr uint32_t kSlots = 64;
constexpr uint32_t kBytes = 16'384;
constexpr uint32_t kStride = kBytes / 4096;

// A client over two rails towards one peer, and destinations for one READ of each slot.
struct Bench {
  explicit Bench(SimFaults first_rail = {}, uint32_t rails = 2) : cluster(options(rails)) {
    cluster.fabric().set_rail_faults(cluster.transport(0), first_rail);
    PeerInfo info;
    info.node = NodeId(1);
    info.incarnation = Incarnation(1);
    for (const RegionDescriptor& region : cluster.peer(0).regions()) {
      info.regions[info.region_count++] = region;
    }
    peer = peers->add(info).value();
    peers->set_state(peer, PeerState::kUp);
    client =
        Client::open(ClientIndex(0), EngineOptions{}, cluster.handles(), *peers, cluster.clock())
            .value();
    for (uint32_t i = 0; i < kSlots; ++i) {
      pieces.push_back(LocalPiece{memory.data() + size_t{i} * kBytes, kBytes, LocalKey(0)});
    }
    for (uint32_t i = 0; i < kSlots; ++i) {
      Op& op = ops.emplace_back();
      op.peer = peer;
      op.target = cluster.peer(0).publish(i * kStride, Key128{i + 1, 3}, kBytes);
      op.pieces = {&pieces[i], 1};
    }
  }
  static SimClusterOptions options(uint32_t rails) {
    SimClusterOptions out;
    out.peers_count = 1;
    out.rails_count = rails;
    out.slots_count = kSlots * kStride;
    return out;
  }

  // Drives everything until the batch is done.
  void finish(Ticket ticket) {
    REQUIRE(cluster.run_until([&] {
      client->poll();
      return client->result(ticket)->done;
    }));
    client->check_invariants();
    cluster.check_invariants();
  }
  uint32_t right_count() const {
    uint32_t right = 0;
    for (uint32_t i = 0; i < kSlots; ++i) {
      right += SimPeer::holds_pattern({pieces[i].address, kBytes}, ops[i].target) ? 1 : 0;
    }
    return right;
  }

  SimCluster cluster;
  std::unique_ptr<PeerDirectory> peers = std::make_unique<PeerDirectory>();
  PeerIndex peer{0};
  std::vector<std::byte> memory = std::vector<std::byte>(size_t{kSlots} * kBytes);
  std::vector<LocalPiece> pieces;
  std::vector<Op> ops;
  std::unique_ptr<Client> client;
};

// Requests vanish, but their bytes still arrive now and then, up to a second later.
SimFaults silent() {
  SimFaults faults;
  faults.lost = true;
  faults.lost_write_ns = 1'000'000'000;
  return faults;
}

}  // namespace

TEST_CASE("engine: what fails on one rail is read on the other", "[unit][sim]") {
  SimFaults broken;
  broken.error_ppm = 1'000'000;
  Bench bench(broken);
  const Ticket ticket = bench.client->submit(bench.ops, bench.cluster.now() + kSecond).value();
  bench.finish(ticket);
  CHECK(bench.client->result(ticket)->ok_count == kSlots);
  CHECK(bench.right_count() == kSlots);
  CHECK(bench.client->counters().retried.value() >= 1);
  CHECK(bench.cluster.rail(0).stats().errors_count >= 1);
  bench.client->release(ticket);
}

TEST_CASE("engine: a rail that goes down gives its reads to the other, fenced", "[unit][sim]") {
  Bench bench(silent());
  const Ticket ticket = bench.client->submit(bench.ops, bench.cluster.now() + kSecond).value();
  // Half of the batch hangs on the first rail; some of its bytes have arrived.
  bench.cluster.run_until(
      [&] {
        bench.client->poll();
        return bench.client->counters().ok.value() >= kSlots / 2;
      },
      100 * kMillisecond);
  CHECK(bench.client->counters().ok.value() == kSlots / 2);
  CHECK_FALSE(bench.client->result(ticket)->done);
  bench.cluster.rail(0).proxy().set_link(false).value();
  const Nanos down_at = bench.cluster.now();
  bench.finish(ticket);
  CHECK(bench.cluster.now() - down_at < kMillisecond);  // it did not wait for time-outs
  CHECK(bench.client->result(ticket)->ok_count == kSlots);
  CHECK(bench.right_count() == kSlots);
  CHECK(bench.client->counters().retried.value() == kSlots / 2);
  bench.client->release(ticket);
  // The destinations are the caller's again: no byte of the first rail arrives any more.
  std::fill(bench.memory.begin(), bench.memory.end(), std::byte{0xee});
  bench.cluster.run_for(2 * kSecond);
  CHECK(std::count(bench.memory.begin(), bench.memory.end(), std::byte{0xee}) ==
        static_cast<std::ptrdiff_t>(bench.memory.size()));
}

TEST_CASE("engine: reads that hang end by their time-out, quiet", "[unit][sim]") {
  Bench bench(silent(), 1);
  const Ticket ticket = bench.client->submit(bench.ops, bench.cluster.now() + 5 * kSecond).value();
  bench.finish(ticket);
  CHECK(bench.client->result(ticket)->failed_count == kSlots);
  CHECK(bench.client->status(ticket, 0) == OpStatus::kDeadline);
  CHECK(bench.cluster.now() < kSecond);
  bench.client->release(ticket);
  std::fill(bench.memory.begin(), bench.memory.end(), std::byte{0xee});
  bench.cluster.run_for(2 * kSecond);
  CHECK(std::count(bench.memory.begin(), bench.memory.end(), std::byte{0xee}) ==
        static_cast<std::ptrdiff_t>(bench.memory.size()));
}

TEST_CASE("engine: a cancelled batch is quiet when it is done", "[unit][sim]") {
  Bench bench(silent(), 1);
  const Ticket ticket = bench.client->submit(bench.ops, bench.cluster.now() + 5 * kSecond).value();
  bench.cluster.run_for(50 * kMillisecond);
  bench.client->cancel(ticket);
  bench.finish(ticket);
  CHECK(bench.client->status(ticket, kSlots - 1) == OpStatus::kCancelled);
  bench.client->release(ticket);
  std::fill(bench.memory.begin(), bench.memory.end(), std::byte{0xee});
  bench.cluster.run_for(2 * kSecond);
  CHECK(std::count(bench.memory.begin(), bench.memory.end(), std::byte{0xee}) ==
        static_cast<std::ptrdiff_t>(bench.memory.size()));
}

TEST_CASE("engine: a rail whose link flaps is left and taken back", "[unit][sim]") {
  SimFaults flapping;
  flapping.flap_period_ns = 400'000'000;
  flapping.flap_down_ns = 200'000'000;
  flapping.flap_from_ns = 100'000'000;
  Bench bench(flapping);
  uint64_t lost = 0;
  uint64_t first_before = 0;
  uint32_t rounds_with_first = 0;
  uint32_t rounds = 0;
  while (bench.cluster.now() < 2 * kSecond) {
    const Ticket ticket = bench.client->submit(bench.ops, bench.cluster.now() + kSecond).value();
    bench.finish(ticket);
    lost += bench.client->result(ticket)->failed_count;
    bench.client->release(ticket);
    const uint64_t first = bench.cluster.rail(0).stats().bytes_count;
    rounds_with_first += first != first_before ? 1 : 0;
    first_before = first;
    ++rounds;
    bench.cluster.run_for(5 * kMillisecond);
  }
  CHECK(lost == 0);  // the other rail did it
  CHECK(rounds_with_first > rounds / 5);
  CHECK(rounds_with_first < rounds * 3 / 4);
}

}  // namespace peercache
