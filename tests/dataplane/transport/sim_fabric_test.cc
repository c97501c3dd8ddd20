#include "dataplane/transport/sim/sim_fabric.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/transport/sim/sim_transport.h"

using namespace peercache;

namespace {

constexpr uint64_t kBytes = 1 << 16;

/// One transport, two nodes with a published and a writable region each.
struct Net {
  explicit Net(uint64_t seed = 1, SimFaults faults = {}) : fabric(SimFabricOptions{.seed = seed}) {
    fabric.set_faults(faults);
    for (uint16_t n = 0; n < 2; ++n) {
      std::array<SimRegion, 2> regions{};
      regions[0].descriptor.length_bytes = kBytes;
      regions[0].descriptor.region = RegionIndex(0);
      regions[0].descriptor.kind = RegionKind::kPublished;
      regions[0].memory = published[n].data();
      regions[1].descriptor.length_bytes = kBytes;
      regions[1].descriptor.region = RegionIndex(1);
      regions[1].descriptor.kind = RegionKind::kWritable;
      regions[1].memory = writable[n].data();
      nodes.push_back(fabric.add_node(regions).value());
    }
    transport = SimTransport::open(fabric, {}).value();
    transport->connect(PeerIndex(0), nodes[0]).value();
    transport->connect(PeerIndex(1), nodes[1]).value();
  }

  WorkRequest request(OpKind kind,
                      uint16_t peer,
                      uint64_t offset,
                      std::byte* local,
                      uint32_t bytes) {
    pieces.push_back(std::make_unique<LocalPiece>(LocalPiece{local, bytes, LocalKey(0)}));
    WorkRequest out{};
    out.cookie_id = pieces.size() - 1;
    out.remote_offset_bytes = offset;
    out.pieces = pieces.back().get();
    out.length_bytes = bytes;
    out.peer = PeerIndex(peer);
    out.region = RegionIndex(kind == OpKind::kWrite ? 1 : 0);
    out.piece_count = 1;
    out.kind = kind;
    return out;
  }
  uint64_t post(const WorkRequest& wanted) {
    REQUIRE(transport->post({&wanted, 1}) == 1);
    return wanted.cookie_id;
  }
  uint64_t read(uint16_t peer, uint64_t offset, std::byte* local, uint32_t bytes) {
    return post(request(OpKind::kRead, peer, offset, local, bytes));
  }
  void poll() {
    std::array<Completion, 32> done;
    while (const uint32_t count = transport->poll(done)) {
      for (uint32_t i = 0; i < count; ++i) {
        REQUIRE(statuses.emplace(done[i].cookie_id, done[i].status).second);  // exactly once
        order.push_back(done[i].cookie_id);
      }
    }
  }
  /// Runs to the end; the time when each request was complete is not looked at.
  void run() {
    while (fabric.step()) {
      fabric.check_invariants();
    }
    poll();
  }

  SimFabric fabric;
  std::array<std::vector<std::byte>, 2> published{std::vector<std::byte>(kBytes, std::byte{1}),
                                                  std::vector<std::byte>(kBytes, std::byte{2})};
  std::array<std::vector<std::byte>, 2> writable{std::vector<std::byte>(kBytes),
                                                 std::vector<std::byte>(kBytes)};
  std::vector<SimNode> nodes;
  std::vector<std::unique_ptr<LocalPiece>> pieces;
  std::unique_ptr<SimTransport> transport;
  std::map<uint64_t, OpStatus> statuses;
  std::vector<uint64_t> order;
};

}  // namespace

TEST_CASE("sim: a read takes its latency and its bytes' time on the wire", "[unit][sim]") {
  SimFaults faults;
  faults.latency_ns = 5'000;
  faults.bandwidth_bytes_per_s = 1'000'000'000;
  Net net(1, faults);
  std::vector<std::byte> buffer(4096);
  net.read(1, 64, buffer.data(), 4096);
  net.run();
  CHECK(net.statuses.at(0) == OpStatus::kOk);
  CHECK(net.fabric.now() == Nanos(5'000 + 4'096));
  CHECK(std::all_of(buffer.begin(), buffer.end(), [](std::byte b) { return b == std::byte{2}; }));
}

TEST_CASE("sim: requests of one rail share its bandwidth", "[unit][sim]") {
  SimFaults faults;
  faults.bandwidth_bytes_per_s = 1'000'000'000;
  Net net(1, faults);
  std::vector<std::byte> buffer(4096);
  for (int i = 0; i < 10; ++i) {
    net.read(static_cast<uint16_t>(i % 2), 0, buffer.data(), 4096);
  }
  net.run();
  CHECK(net.fabric.now() == Nanos(2'000 + 10 * 4'096));
}

TEST_CASE("sim: a slow link takes its factor longer", "[unit][sim]") {
  SimFaults faults;
  faults.slow_percent = 400;
  Net net(1, faults);
  std::vector<std::byte> buffer(64);
  net.read(0, 0, buffer.data(), 64);
  net.run();
  CHECK(net.fabric.now() == Nanos(8'000));
}

TEST_CASE("sim: a link keeps the order of posting unless told otherwise", "[unit][sim]") {
  const bool reorder = GENERATE(false, true);
  SimFaults faults;
  faults.jitter_ns = 10'000;
  faults.reorder_ppm = reorder ? 300'000 : 0;
  Net net(7, faults);
  std::vector<std::byte> buffer(64);
  for (int i = 0; i < 200; ++i) {
    net.read(0, 0, buffer.data(), 64);
  }
  net.run();
  REQUIRE(net.order.size() == 200);
  CHECK(std::is_sorted(net.order.begin(), net.order.end()) == !reorder);
}

TEST_CASE("sim: a torn read sees its chunks at different times, all before its completion",
          "[unit][sim]") {
  // A writer counts up in every word; a torn read must show several counts in no particular order.
  uint32_t mixed = 0;
  uint32_t descending = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimFaults faults;
    faults.torn_ppm = 1'000'000;
    Net net(seed, faults);
    std::vector<std::byte> buffer(4096);
    net.read(0, 0, buffer.data(), 4096);
    uint8_t count = 1;
    while (net.fabric.step()) {
      ++count;
      std::fill(net.published[0].begin(), net.published[0].end(), std::byte{count});
    }
    net.poll();
    REQUIRE(net.statuses.at(0) == OpStatus::kOk);
    CHECK(net.transport->torn_count() == 1);
    const auto [low, high] = std::minmax_element(buffer.begin(), buffer.end());
    mixed += *low != *high ? 1 : 0;
    descending += std::is_sorted(buffer.begin(), buffer.end()) ? 0 : 1;
    CHECK(*high < std::byte{count});  // nothing is read at or after the completion
  }
  CHECK(mixed == 50);
  CHECK(descending > 25);
}

TEST_CASE("sim: a read posted after a completion is executed after it", "[unit][sim]") {
  SimFaults faults;
  faults.torn_ppm = 500'000;
  faults.jitter_ns = 4'000;
  faults.reorder_ppm = 300'000;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Net net(seed, faults);
    std::vector<std::byte> first(4096);
    std::array<std::byte, 64> second{};
    net.read(0, 0, first.data(), 4096);
    uint8_t count = 1;
    const auto tick = [&] {
      ++count;
      std::fill(net.published[0].begin(), net.published[0].end(), std::byte{count});
    };
    while (net.statuses.empty()) {
      REQUIRE(net.fabric.step());
      net.poll();
      tick();
    }
    net.read(0, 0, second.data(), 64);
    while (net.fabric.step()) {
      tick();
    }
    const auto newest = *std::max_element(first.begin(), first.end());
    const auto oldest = *std::min_element(second.begin(), second.end());
    CHECK(newest < oldest);
  }
}

TEST_CASE("sim: a write reaches the peer in its time, from many pieces", "[unit][sim]") {
  Net net;
  std::vector<std::byte> source(1000);
  for (size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::byte>(i * 7);
  }
  std::vector<LocalPiece> pieces;
  for (size_t at = 0; at < source.size(); at += 40) {
    pieces.push_back(LocalPiece{source.data() + at, 40, LocalKey(0)});
  }
  WorkRequest request = net.request(OpKind::kWrite, 1, 500, source.data(), 1000);
  request.pieces = pieces.data();
  request.piece_count = static_cast<uint16_t>(pieces.size());
  net.post(request);
  CHECK(net.writable[1][500] == std::byte{0});
  net.run();
  CHECK(net.statuses.at(0) == OpStatus::kOk);
  CHECK(std::equal(source.begin(), source.end(), net.writable[1].begin() + 500));
}

TEST_CASE("sim: a lost request ends by a fence only, and is quiet from then on", "[unit][sim]") {
  SimFaults faults;
  faults.lost = true;
  faults.lost_write_ns = 1'000'000;
  faults.fence_ns = 100'000;
  Net net(3, faults);
  std::vector<std::byte> buffer(4096);
  for (int i = 0; i < 20; ++i) {
    net.read(0, 0, buffer.data(), 4096);
  }
  net.fabric.run_until(Nanos(300'000));
  net.poll();
  CHECK(net.statuses.empty());
  const bool arrived =
      std::any_of(buffer.begin(), buffer.end(), [](std::byte b) { return b != std::byte{0}; });
  CHECK(arrived);  // bytes come without a completion
  net.transport->fence(PeerIndex(0));
  net.fabric.set_faults({});
  // posted after the fence: not its business
  const uint64_t after = net.read(0, 0, buffer.data(), 4096);
  net.fabric.run_until(Nanos(399'999));
  net.poll();
  CHECK(net.statuses.size() == 1);
  CHECK(net.statuses.at(after) == OpStatus::kOk);
  net.fabric.run_until(Nanos(400'000));
  net.poll();
  CHECK(net.statuses.size() == 21);
  for (uint64_t i = 0; i < 20; ++i) {
    CHECK(net.statuses.at(i) == OpStatus::kFlushed);
  }
  std::fill(buffer.begin(), buffer.end(), std::byte{9});
  net.run();
  CHECK(std::all_of(buffer.begin(), buffer.end(), [](std::byte b) { return b == std::byte{9}; }));
}

TEST_CASE("sim: a fence leaves other peers alone and true outcomes true", "[unit][sim]") {
  Net net;
  net.fabric.link(*net.transport, net.nodes[0]).fence_ns = 10'000;
  std::vector<std::byte> buffer(64);
  net.read(0, 0, buffer.data(), 64);
  net.read(1, 0, buffer.data(), 64);
  net.transport->fence(PeerIndex(0));
  net.run();
  CHECK(net.statuses.at(0) == OpStatus::kOk);  // came within the fence's delay
  CHECK(net.statuses.at(1) == OpStatus::kOk);
}

TEST_CASE("sim: errors come with the probability asked for, after part of the bytes",
          "[unit][sim]") {
  SimFaults faults;
  faults.error_ppm = 100'000;
  faults.torn_ppm = 1'000'000;
  Net net(5, faults);
  std::vector<std::vector<std::byte>> buffers(500, std::vector<std::byte>(1024));
  for (auto& buffer : buffers) {
    net.read(0, 0, buffer.data(), 1024);
  }
  net.run();
  uint32_t errors = 0;
  uint32_t partial = 0;
  for (uint64_t i = 0; i < 500; ++i) {
    if (net.statuses.at(i) == OpStatus::kTransportError) {
      ++errors;
      const auto moved = std::count(buffers[i].begin(), buffers[i].end(), std::byte{1});
      partial += moved > 0 && moved < 1024 ? 1 : 0;
    }
  }
  CHECK(errors > 25);
  CHECK(errors < 80);
  CHECK(partial > 10);
}

TEST_CASE("sim: a flapping link fails what meets its down time", "[unit][sim]") {
  SimFaults faults;
  faults.flap_period_ns = 100'000;
  faults.flap_down_ns = 20'000;
  faults.flap_from_ns = 50'000;
  Net net(1, faults);
  std::vector<std::byte> buffer(64);
  std::map<uint64_t, int64_t> posted_at;
  for (int64_t at = 0; at < 300'000; at += 1'000) {
    net.fabric.run_until(Nanos(at));
    posted_at[net.read(0, 0, buffer.data(), 64)] = at;
  }
  net.run();
  for (const auto& [cookie, at] : posted_at) {
    // A step half-way and the completion after 2 us: either may meet it.
    const auto down = [&](int64_t t) { return faults.link_down_at(static_cast<uint64_t>(t)); };
    if (down(at + 2'000) || down(at + 1'000)) {
      CHECK(net.statuses.at(cookie) == OpStatus::kTransportError);
    } else if (!down(at + 1'500)) {
      CHECK(net.statuses.at(cookie) == OpStatus::kOk);
    }
  }
}

TEST_CASE("sim: a killed node's requests are lost and its memory is left alone", "[unit][sim]") {
  Net net;
  std::vector<std::byte> buffer(4096);
  net.read(0, 0, buffer.data(), 4096);
  net.read(1, 0, buffer.data(), 4096);
  net.fabric.kill(net.nodes[0]);
  net.read(0, 0, buffer.data(), 4096);
  net.published[0] = {};
  net.run();
  CHECK(net.statuses.at(0) == OpStatus::kPeerLost);
  CHECK(net.statuses.at(1) == OpStatus::kOk);
  CHECK(net.statuses.at(2) == OpStatus::kPeerLost);
}

TEST_CASE("sim: disconnect ends what is in flight at once", "[unit][sim]") {
  Net net;
  net.fabric.link(*net.transport, net.nodes[0]).lost = true;
  std::vector<std::byte> buffer(64);
  net.read(0, 0, buffer.data(), 64);
  net.read(1, 0, buffer.data(), 64);
  net.transport->disconnect(PeerIndex(0));
  net.poll();
  CHECK(net.statuses.at(0) == OpStatus::kPeerLost);
  net.read(0, 0, buffer.data(), 64);
  net.run();
  CHECK(net.statuses.at(1) == OpStatus::kOk);
  CHECK(net.statuses.at(2) == OpStatus::kPeerLost);
}

TEST_CASE("sim: bounds and kinds are checked against the region table", "[unit][sim]") {
  Net net;
  std::vector<std::byte> buffer(64);
  net.read(0, kBytes - 64, buffer.data(), 64);
  net.read(0, kBytes - 63, buffer.data(), 64);
  WorkRequest write = net.request(OpKind::kWrite, 0, 0, buffer.data(), 64);
  write.region = RegionIndex(0);
  net.post(write);
  WorkRequest unknown = net.request(OpKind::kRead, 0, 0, buffer.data(), 64);
  unknown.region = RegionIndex(9);
  net.post(unknown);
  net.run();
  CHECK(net.statuses.at(0) == OpStatus::kOk);
  CHECK(net.statuses.at(1) == OpStatus::kOutOfBounds);
  CHECK(net.statuses.at(2) == OpStatus::kOutOfBounds);
  CHECK(net.statuses.at(3) == OpStatus::kOutOfBounds);
}

TEST_CASE("sim: the same seed gives the same run, another seed another", "[unit][sim]") {
  const auto run = [](uint64_t seed) {
    SimFaults faults;
    faults.jitter_ns = 10'000;
    faults.reorder_ppm = 200'000;
    faults.torn_ppm = 200'000;
    faults.error_ppm = 50'000;
    Net net(seed, faults);
    std::vector<std::byte> buffer(4096);
    for (int i = 0; i < 300; ++i) {
      net.read(static_cast<uint16_t>(i % 2), 0, buffer.data(), 4096);
      net.fabric.step();
    }
    net.run();
    std::vector<uint64_t> trace = net.order;
    for (const auto& [cookie, status] : net.statuses) {
      trace.push_back(static_cast<uint64_t>(status));
    }
    trace.push_back(static_cast<uint64_t>(net.fabric.now().count()));
    return trace;
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}

TEST_CASE("sim: depth bounds what post accepts; several fences may overlap", "[unit][sim]") {
  Net net;
  auto small = SimTransport::open(net.fabric, SimTransportOptions{.depth_count = 4}).value();
  small->connect(PeerIndex(0), net.nodes[0]).value();
  std::vector<std::byte> buffer(64);
  std::vector<WorkRequest> requests(6, net.request(OpKind::kRead, 0, 0, buffer.data(), 64));
  CHECK(small->post(requests) == 4);
  CHECK(small->post(requests) == 0);
  small->fence(PeerIndex(0));
  small->fence(PeerIndex(0));
  while (net.fabric.step()) {
  }
  CHECK(small->post(requests) == 0);  // completed, not polled
  std::array<Completion, 8> done;
  CHECK(small->poll(done) == 4);
  CHECK(small->post(requests) == 4);
  small.reset();  // with requests in flight: their events go with it
  CHECK_FALSE(net.fabric.step());
}

TEST_CASE("sim: polls drive the time where asked to, and time passes when nothing happens",
          "[unit][sim]") {
  SimFabric fabric(SimFabricOptions{.drive_on_poll = true, .idle_tick_ns = 500});
  std::vector<std::byte> memory(4096, std::byte{3});
  std::array<SimRegion, 1> regions{};
  regions[0].descriptor.length_bytes = 4096;
  regions[0].descriptor.kind = RegionKind::kPublished;
  regions[0].memory = memory.data();
  const SimNode node = fabric.add_node(regions).value();
  auto transport = SimTransport::open(fabric, {}).value();
  transport->connect(PeerIndex(0), node).value();
  std::array<std::byte, 64> buffer{};
  const LocalPiece piece{buffer.data(), 64, LocalKey(0)};
  WorkRequest request{};
  request.pieces = &piece;
  request.length_bytes = 64;
  request.piece_count = 1;
  REQUIRE(transport->post({&request, 1}) == 1);
  std::array<Completion, 4> done;
  CHECK(transport->poll(done) == 1);
  CHECK(fabric.now() == Nanos(2'000));
  CHECK(transport->poll(done) == 0);
  CHECK(fabric.now() == Nanos(2'500));
}

TEST_CASE("sim: nodes and peers out of range are refused", "[unit][sim]") {
  SimFabric fabric(SimFabricOptions{.nodes_max_count = 1, .transports_max_count = 1});
  std::array<SimRegion, 2> twice{};
  std::byte byte{};
  twice[0].memory = &byte;
  twice[1].memory = &byte;
  CHECK(fabric.add_node(twice).error().code == Errc::kAlreadyExists);
  twice[0].descriptor.region = RegionIndex(64);
  CHECK(fabric.add_node(twice).error().code == Errc::kNoSuchRegion);
  const SimNode node = fabric.add_node({}).value();
  CHECK(fabric.add_node({}).error().code == Errc::kTooManyPeers);
  CHECK(SimTransport::open(fabric, {.depth_count = 0}).error().code == Errc::kOutOfRange);
  auto transport = SimTransport::open(fabric, {}).value();
  CHECK(SimTransport::open(fabric, {}).error().code == Errc::kOutOfRange);
  CHECK(transport->connect(PeerIndex(0), SimNode(5)).error().code == Errc::kNotFound);
  CHECK(transport->connect(PeerIndex(0), node).has_value());
  CHECK(transport->connect(PeerIndex(0), node).error().code == Errc::kAlreadyExists);
  CHECK(transport->connect(PeerIndex(limits::kPeersMax), node).error().code == Errc::kTooManyPeers);
}
