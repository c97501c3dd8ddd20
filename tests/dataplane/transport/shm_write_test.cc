#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/transport/shm/shm_transport.h"
#include "tests/dataplane/transport/shm_test_node.h"
#include "tests/support/temp_dir.h"

namespace peercache {
namespace {

using namespace testing;

constexpr Nanos kNow{1};

struct Pair {
  Pair() : a(options(1)), b(options(2)) {
    peer = connect_pair(a, b);
    transport = std::move(ShmTransport::open(*a.endpoint, nullptr)).value();
  }
  TestNodeOptions options(uint64_t id) const {
    TestNodeOptions made;
    made.id = id;
    made.writable = 8_MiB;
    made.shm.runtime_dir = temp.path();
    return made;
  }
  std::vector<ShmEndpoint*> both() { return {a.endpoint.get(), b.endpoint.get()}; }
  OpStatus write(RegionIndex region, uint64_t offset, const std::vector<LocalPiece>& pieces) {
    return run_one(*transport, make_request(OpKind::kWrite, peer, region, offset, pieces), both());
  }
  std::vector<OpStatus> collect(std::vector<ShmEndpoint*> endpoints, uint32_t wanted) {
    std::vector<OpStatus> statuses(wanted, OpStatus::kPending);
    uint32_t got = 0;
    for (int turn = 0; turn < 20000 && got < wanted; ++turn) {
      Completion completions[8];
      const uint32_t count = transport->poll(completions);
      for (uint32_t i = 0; i < count; ++i) {
        REQUIRE(statuses.at(completions[i].cookie_id) == OpStatus::kPending);
        statuses[completions[i].cookie_id] = completions[i].status;
      }
      got += count;
      for (ShmEndpoint* endpoint : endpoints) {
        endpoint->poll_once(kNow);
      }
    }
    return statuses;
  }

  TempDir temp;
  TestNode a, b;
  PeerIndex peer;
  std::unique_ptr<ShmTransport> transport;
};

std::vector<std::byte> pattern(size_t bytes) {
  std::vector<std::byte> memory(bytes);
  fill_pattern(Key128{bytes, 1}, memory.data(), bytes);
  return memory;
}

TEST_CASE("shm write: every size arrives at its place and nowhere else", "[unit]") {
  Pair pair;
  for (const uint32_t bytes : {1U, 100U, 4096U, 65535U, 65536U, 65537U, 1000001U, 7U << 20}) {
    CAPTURE(bytes);
    std::fill_n(pair.b.writable->data(), 8 << 20, std::byte{0x11});
    std::vector<std::byte> memory = pattern(bytes);
    std::vector<LocalPiece> pieces;
    for (uint32_t at = 0; at < bytes;) {
      const uint32_t length = std::min(bytes - at, 1 + bytes / 7);
      pieces.push_back({memory.data() + at, length, LocalKey(0)});
      at += length;
    }
    REQUIRE(pair.write(kWritableRegion, 333, pieces) == OpStatus::kOk);
    REQUIRE(count_wrong(Key128{bytes, 1}, pair.b.writable->data() + 333, bytes) == 0);
    REQUIRE(pair.b.writable->data()[332] == std::byte{0x11});
    REQUIRE(pair.b.writable->data()[333 + bytes] == std::byte{0x11});
  }
  REQUIRE(pair.b.endpoint->counters().writes_served.value() == 8);
}

TEST_CASE("shm write: only writable regions and only inside them", "[unit]") {
  Pair pair;
  std::vector<std::byte> memory = pattern(4096);
  const std::vector<LocalPiece> page{{memory.data(), 4096, LocalKey(0)}};
  for (const RegionIndex region :
       {kPublishedRegion, kHeadersRegion, kDirectoryRegion, RegionIndex(4)}) {
    REQUIRE(pair.write(region, 0, page) == OpStatus::kOutOfBounds);
  }
  REQUIRE(pair.write(kWritableRegion, (8 << 20) - 4096, page) == OpStatus::kOk);
  REQUIRE(pair.write(kWritableRegion, (8 << 20) - 4095, page) == OpStatus::kOutOfBounds);
  REQUIRE(pair.write(kWritableRegion, UINT64_MAX - 10, page) == OpStatus::kOutOfBounds);
  REQUIRE(pair.write(kWritableRegion, 0, {}) == OpStatus::kOutOfBounds);
  WorkRequest unsound = make_request(OpKind::kWrite, pair.peer, kWritableRegion, 0, page);
  unsound.length_bytes = 5000;
  REQUIRE(run_one(*pair.transport, unsound, pair.both()) == OpStatus::kTransportError);
  unsound.peer = PeerIndex(50);
  REQUIRE(run_one(*pair.transport, unsound, pair.both()) == OpStatus::kPeerLost);
}

TEST_CASE("shm write: many at a time are taken up to the limit and end in order", "[unit]") {
  Pair pair;
  std::vector<std::byte> memory = pattern(10000);
  const std::vector<LocalPiece> piece{{memory.data(), 10000, LocalKey(0)}};
  uint32_t posted = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const WorkRequest request =
        make_request(OpKind::kWrite, pair.peer, kWritableRegion, i * 10000, piece, i);
    posted += pair.transport->post({&request, 1});
  }
  REQUIRE(posted == ShmPort::kWritesMax);
  REQUIRE_FALSE(pair.transport->has_work());  // the client may sleep
  pair.transport->flush();
  for (const OpStatus status : pair.collect(pair.both(), posted)) {
    REQUIRE(status == OpStatus::kOk);
  }
  for (uint64_t i = 0; i < posted; ++i) {
    REQUIRE(count_wrong(Key128{10000, 1}, pair.b.writable->data() + i * 10000, 10000) == 0);
  }
}

TEST_CASE(
    "shm write: a fence frees the source at once though the owner is frozen, and the connection "
    "lives on",
    "[unit]") {
  Pair pair;
  std::vector<std::byte> memory = pattern(4 << 20);
  const std::vector<LocalPiece> piece{{memory.data(), 4 << 20, LocalKey(0)}};
  for (uint64_t i = 0; i < 2; ++i) {
    const WorkRequest request =
        make_request(OpKind::kWrite, pair.peer, kWritableRegion, i * (4 << 20), piece, i);
    REQUIRE(pair.transport->post({&request, 1}) == 1);
  }
  pair.transport->flush();
  for (int i = 0; i < 10; ++i) {
    pair.a.endpoint->poll_once(
        kNow);  // b takes no turn: the socket fills up in the middle of the first one
  }
  pair.transport->fence(pair.peer);
  const std::vector<OpStatus> statuses = pair.collect({pair.a.endpoint.get()}, 2);
  REQUIRE(statuses == std::vector<OpStatus>(2, OpStatus::kFlushed));
  REQUIRE(pair.a.endpoint->counters().writes_flushed.value() == 2);
  // What was sent and what follows is consistent: the source may change now, and b thaws.
  std::fill(memory.begin(), memory.end(), std::byte{0x77});
  std::vector<std::byte> other = pattern(100000);
  REQUIRE(pair.write(kWritableRegion, 5 << 20, {{other.data(), 100000, LocalKey(0)}}) ==
          OpStatus::kOk);
  REQUIRE(count_wrong(Key128{100000, 1}, pair.b.writable->data() + (5 << 20), 100000) == 0);
  size_t foreign = 0;
  for (size_t at = 0; at < 4U << 20; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, pair.b.writable->data() + at, sizeof word);
    foreign += word == 0 || word == pattern_word(Key128{4 << 20, 1}, at / 8) ? 0 : 1;
  }
  REQUIRE(foreign == 0);
  REQUIRE(count_wrong(Key128{4 << 20, 1}, pair.b.writable->data(), 65536) == 0);
  REQUIRE(pair.a.listener.down.empty());
  REQUIRE(pair.b.endpoint->counters().writes_served.value() == 1);
}

TEST_CASE("shm write: a fence by one client leaves those of another alone", "[unit]") {
  Pair pair;
  auto second = std::move(ShmTransport::open(*pair.a.endpoint, nullptr)).value();
  std::vector<std::byte> memory = pattern(2 << 20);
  const std::vector<LocalPiece> piece{{memory.data(), 2 << 20, LocalKey(0)}};
  const WorkRequest request = make_request(OpKind::kWrite, pair.peer, kWritableRegion, 0, piece, 0);
  REQUIRE(pair.transport->post({&request, 1}) == 1);
  REQUIRE(second->post({&request, 1}) == 1);
  pair.transport->flush();
  second->flush();
  pair.a.endpoint->poll_once(kNow);
  pair.transport->fence(pair.peer);
  Completion completion{};
  int turns = 0;
  while (second->poll({&completion, 1}) == 0) {
    pair.a.endpoint->poll_once(kNow);
    pair.b.endpoint->poll_once(kNow);
    REQUIRE(++turns < 20000);
  }
  REQUIRE(completion.status == OpStatus::kOk);
  REQUIRE(pair.collect(pair.both(), 1)[0] == OpStatus::kFlushed);
  REQUIRE(count_wrong(Key128{2 << 20, 1}, pair.b.writable->data(), 2 << 20) == 0);
}

TEST_CASE("shm write: those under way are lost with their owner, each exactly once", "[unit]") {
  Pair pair;
  std::vector<std::byte> memory = pattern(1 << 20);
  const std::vector<LocalPiece> piece{{memory.data(), 1 << 20, LocalKey(0)}};
  for (uint64_t i = 0; i < 5; ++i) {
    const WorkRequest request =
        make_request(OpKind::kWrite, pair.peer, kWritableRegion, 0, piece, i);
    REQUIRE(pair.transport->post({&request, 1}) == 1);
  }
  pair.transport->flush();
  for (int i = 0; i < 3; ++i) {
    pair.a.endpoint->poll_once(kNow);
  }
  pair.b.endpoint.reset();
  for (const OpStatus status : pair.collect({pair.a.endpoint.get()}, 5)) {
    REQUIRE(status == OpStatus::kPeerLost);
  }
  const WorkRequest late = make_request(OpKind::kWrite, pair.peer, kWritableRegion, 0, piece, 0);
  REQUIRE(run_one(*pair.transport, late, {pair.a.endpoint.get()}) == OpStatus::kPeerLost);
}

TEST_CASE("shm write: completions wake a client that sleeps", "[unit]") {
  Pair pair;
  auto event = std::move(WakeEvent::open()).value();
  auto client = std::move(ShmTransport::open(*pair.a.endpoint, event.get())).value();
  std::vector<std::byte> memory = pattern(100);
  const std::vector<LocalPiece> piece{{memory.data(), 100, LocalKey(0)}};
  const WorkRequest request = make_request(OpKind::kWrite, pair.peer, kWritableRegion, 0, piece, 0);
  REQUIRE(client->post({&request, 1}) == 1);
  client->flush();
  event->announce_sleep();
  REQUIRE(run_until(pair.both(), kNow, [&] {
    pollfd ready{event->fd(), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  }));
  event->cancel_sleep();
  Completion completion{};
  REQUIRE(client->poll({&completion, 1}) == 1);
  REQUIRE(completion.status == OpStatus::kOk);
}

}  // namespace
}  // namespace peercache
