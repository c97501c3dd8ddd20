// A rail with its thread, over the null device, and a client on the test's thread.
#include <array>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/rail/make_rail.h"
#include "dataplane/transport/null/null_transport.h"
#include "dataplane/wire/location.h"

using namespace peercache;

namespace {

constexpr RegionIndex kBytes{0};
constexpr RegionIndex kHeaders{1};
constexpr uint32_t kSlots = 16;

struct Peer {
  std::vector<std::byte> bytes = std::vector<std::byte>(kSlots * 4096);
  std::vector<SlotHeader> headers = std::vector<SlotHeader>(kSlots);

  Peer() {
    for (uint32_t i = 0; i < kSlots; ++i) {
      headers[i].key = Key128{.low = i + 1, .high = 5};
      headers[i].generation = Generation(i);
      headers[i].state = SlotState::kPublished;
      headers[i].length_bytes = 4096;
      headers[i].offset_bytes = i * 4096;
    }
  }
  std::array<NullRegion, 2> regions() {
    std::array<NullRegion, 2> out;
    out[0].descriptor.length_bytes = bytes.size();
    out[0].descriptor.region = kBytes;
    out[0].descriptor.kind = RegionKind::kPublished;
    out[0].descriptor.headers_region = kHeaders;
    out[0].descriptor.granule_bytes = 4096;
    out[0].memory = bytes.data();
    out[1].descriptor.length_bytes = headers.size() * sizeof(SlotHeader);
    out[1].descriptor.region = kHeaders;
    out[1].descriptor.kind = RegionKind::kHeaders;
    out[1].memory = reinterpret_cast<std::byte*>(headers.data());
    return out;
  }
};

struct Bench {
  Peer peer;
  std::unique_ptr<WakeEvent> event = WakeEvent::open().value();
  std::unique_ptr<ManagedRail> rail;
  Lane* lane = nullptr;
  std::vector<OpRecord> records = std::vector<OpRecord>(256);
  LocalPiece piece{};
  std::vector<std::byte> buffer = std::vector<std::byte>(4096);

  explicit Bench(RailOptions options = {}) {
    auto transport = NullTransport::open({}).value();
    const auto regions = peer.regions();
    transport->add_peer(PeerIndex(0), regions).value();
    rail = make_rail(options, std::move(transport)).value();
    rail->proxy().connect_peer(PeerIndex(0), {}).value();
    piece = LocalPiece{buffer.data(), 4096, LocalKey(0)};
    for (uint32_t i = 0; i < records.size(); ++i) {
      OpRecord& record = records[i];
      const SlotHeader& header = peer.headers[i % kSlots];
      record.target.key = header.key;
      record.target.generation = header.generation;
      record.target.length_bytes = header.length_bytes;
      record.target.slot = SlotIndex(i % kSlots);
      record.target.offset_bytes = header.offset_bytes;
      record.pieces = &piece;
      record.deadline_at = Nanos::max();
      record.length_bytes = 4096;
      record.peer = PeerIndex(0);
      record.region = kBytes;
      record.headers_region = kHeaders;
      record.piece_count = 1;
      record.kind = OpKind::kRead;
      record.validation = Validation::kHeader;
    }
  }

  void push(uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; ++i) {
      records[i].status = OpStatus::kPending;
      REQUIRE(lane->requests.push(LaneRequest{.op = &records[i]}));
    }
    if (WakeEvent* wake = rail->wake_event(); wake != nullptr) {
      wake->wake_if_sleeping();
    }
  }

  /// Collects `count` completions, asleep in between.
  void collect(uint32_t count) {
    std::array<OpRecord*, 64> done;
    while (count > 0) {
      const size_t got = lane->completions.pop_many(done);
      for (size_t i = 0; i < got; ++i) {
        REQUIRE(done[i]->status == OpStatus::kOk);
      }
      count -= static_cast<uint32_t>(got);
      if (got == 0) {
        event->announce_sleep();
        if (lane->completions.size_approx() == 0) {
          event->sleep(std::chrono::seconds(30));
        }
        event->cancel_sleep();
      }
    }
  }
};

}  // namespace

TEST_CASE("rail: a thread of its own serves a client, and neither misses a wake-up", "[unit]") {
  const IdlePolicy policy = GENERATE(IdlePolicy::kEvent, IdlePolicy::kHybrid);
  Bench bench;
  AgentOptions agent;
  agent.idle = IdleOptions{.policy = policy, .spin_us = 1, .pause_us = 1};
  agent.sleep_ms_max = 60'000;  // a lost wake-up would show as a test that times out
  REQUIRE(bench.rail->start(agent).has_value());
  CHECK(bench.rail->start(agent).error().code == Errc::kAlreadyExists);
  REQUIRE(bench.rail->wake_event() != nullptr);
  bench.lane = bench.rail->attach_lane(ClientIndex(0), bench.event.get()).value();
  uint64_t total = 0;
  for (uint32_t round = 0; round < 2'000; ++round) {
    const uint32_t count = 1 + round % 64;
    bench.push(0, count);
    bench.collect(count);
    total += count;
  }
  CHECK(bench.rail->stop(std::chrono::seconds(10)).has_value());
  CHECK(bench.rail->stats().operations_count == total);
  CHECK(bench.rail->stats().completions_count == 2 * total);
  CHECK(bench.rail->stats().bytes_in_flight == 0);
  bench.rail->check_invariants();
}

TEST_CASE("rail: commands reach a rail that sleeps", "[unit]") {
  Bench bench;
  AgentOptions agent;
  agent.idle.policy = IdlePolicy::kEvent;
  agent.sleep_ms_max = 60'000;
  REQUIRE(bench.rail->start(agent).has_value());
  RailProxy& proxy = bench.rail->proxy();
  for (int i = 0; i < 200; ++i) {
    REQUIRE(proxy.disconnect_peer(PeerIndex(0)).has_value());
    while (!proxy.peer_quiet(PeerIndex(0))) {
      cpu_pause();
    }
    REQUIRE(proxy.connect_peer(PeerIndex(0), {}).has_value());
  }
  CHECK(bench.rail->stop(std::chrono::seconds(10)).has_value());
}

TEST_CASE("rail: a client that drives its rail needs no thread", "[unit]") {
  RailOptions options;
  options.client_driven = true;
  Bench bench(options);
  CHECK(bench.rail->client_driven());
  CHECK(bench.rail->wake_event() == nullptr);
  CHECK(bench.rail->start({}).error().code == Errc::kUnsupported);
  bench.lane = bench.rail->attach_lane(ClientIndex(0), bench.event.get()).value();
  bench.push(0, 256);
  uint32_t left = 256;
  Nanos now(0);
  while (left > 0) {
    bench.rail->poll_once(now += Nanos(1'000));
    OpRecord* done = nullptr;
    while (bench.lane->completions.pop(done)) {
      REQUIRE(done->status == OpStatus::kOk);
      --left;
    }
  }
  CHECK(bench.rail->stats().operations_count == 256);
}
