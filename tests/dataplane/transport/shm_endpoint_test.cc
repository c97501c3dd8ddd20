#include "dataplane/transport/shm/shm_endpoint.h"

#include <filesystem>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/dataplane/transport/shm_test_node.h"
#include "tests/support/temp_dir.h"

namespace peercache {
namespace {

using namespace testing;

constexpr Nanos kNow{1'000'000'000};

TestNodeOptions in(const TempDir& temp, uint64_t id) {
  TestNodeOptions options;
  options.id = id;
  options.shm.runtime_dir = temp.path();
  return options;
}

bool settle(TestNode& a, TestNode& b, size_t refusals) {
  return run_until({a.endpoint.get(), b.endpoint.get()}, kNow,
                   [&] { return a.listener.errors.size() == refusals; });
}

TEST_CASE("shm endpoint: two nodes connect, each maps the other's regions", "[unit]") {
  const TempDir temp;
  TestNode a(in(temp, 1)), b(in(temp, 2));
  const PeerIndex b_at_a = connect_pair(a, b);
  REQUIRE(b_at_a == PeerIndex(3));
  REQUIRE(a.listener.up_cookies == std::vector<uint64_t>{2});
  REQUIRE(a.listener.last_hello.node_name == "node-2");
  REQUIRE(a.listener.last_hello.regions.size() == 4);
  REQUIRE(a.endpoint->table().reaches(b_at_a));
  const uint64_t bytes = b.published->length().value() + b.headers->length().value() +
                         b.directory->length().value() + b.writable->length().value();
  REQUIRE(a.listener.last_mapped_bytes == bytes);
  REQUIRE(a.endpoint->counters().mapped_bytes.value() == bytes);
  REQUIRE(b.endpoint->counters().mapped_bytes.value() == 0);  // one direction per connection
  connect_pair(b, a);
  REQUIRE(b.endpoint->counters().mapped_bytes.value() == bytes);
  REQUIRE(b.endpoint->counters().peers_up.value() == 1);
  REQUIRE(b.endpoint->counters().inbound_open.value() == 1);
}

TEST_CASE("shm endpoint: a peer that ends is reported once and its memory is unmapped", "[unit]") {
  const TempDir temp;
  TestNode a(in(temp, 1)), b(in(temp, 2));
  const PeerIndex peer = connect_pair(a, b);
  b.endpoint.reset();
  REQUIRE_FALSE(
      std::filesystem::exists(temp.path() + "/" + shm_socket_name(NodeId(2), Incarnation(102))));
  REQUIRE(run_until({a.endpoint.get()}, kNow, [&] { return !a.listener.down.empty(); }));
  REQUIRE(a.listener.down == std::vector<PeerIndex>{peer});
  REQUIRE_FALSE(a.endpoint->table().reaches(peer));
  REQUIRE(run_until({a.endpoint.get()}, kNow, [&] { return !a.endpoint->table().has_retired(); }));
  REQUIRE(a.endpoint->counters().mapped_bytes.value() == 0);
  REQUIRE(a.endpoint->counters().unmapping_bytes.value() == 0);
  REQUIRE(a.listener.down.size() == 1);
  REQUIRE(a.endpoint->counters().lost.value() == 1);
}

TEST_CASE("shm endpoint: the memory of a lost peer waits for those who copy from it", "[unit]") {
  const TempDir temp;
  TestNode a(in(temp, 1)), b(in(temp, 2));
  const PeerIndex peer = connect_pair(a, b);
  ShmPort* port = a.endpoint->lease_port(nullptr);
  REQUIRE(port != nullptr);
  {
    const ShmPin pin(a.endpoint->table(), port->word);
    const std::byte* data = pin.find(peer)->find(kPublishedRegion)->data;
    b.endpoint.reset();
    b.published.reset();
    REQUIRE(run_until({a.endpoint.get()}, kNow, [&] { return !a.listener.down.empty(); }));
    for (int i = 0; i < 10; ++i) {
      a.endpoint->poll_once(kNow);
    }
    REQUIRE(a.endpoint->table().has_retired());
    REQUIRE(a.endpoint->counters().unmapping_bytes.value() > 0);
    REQUIRE(a.endpoint->next_due(kNow) <= kNow + std::chrono::milliseconds(10));
    REQUIRE(count_wrong(region_key(2), data, 4096) == 0);
  }
  REQUIRE(run_until({a.endpoint.get()}, kNow, [&] { return !a.endpoint->table().has_retired(); }));
  a.endpoint->release_port(*port);
}

TEST_CASE("shm endpoint: hellos that disagree are refused by the acceptor with both values",
          "[unit]") {
  const TempDir temp;
  TestNodeOptions other = in(temp, 2);
  other.cluster_name = "another";
  TestNode a(in(temp, 1)), b(other);
  a.endpoint->connect(b.endpoint->socket_name(), 77, kNow).value();
  REQUIRE(settle(a, b, 1));
  REQUIRE(a.listener.refused_cookies == std::vector<uint64_t>{77});
  REQUIRE(a.listener.errors[0].code == Errc::kPeerRefused);
  REQUIRE(a.listener.reasons[0].find("another") != std::string::npos);
  REQUIRE(a.listener.reasons[0].find("test") != std::string::npos);
  REQUIRE(a.listener.up.empty());
  REQUIRE(a.endpoint->counters().refused_by_peer.value() == 1);
  REQUIRE(b.endpoint->counters().refused_by_us.value() == 1);
}

TEST_CASE("shm endpoint: a listener that does not want the peer refuses it, and the peer hears why",
          "[unit]") {
  const TempDir temp;
  TestNode a(in(temp, 1)), b(in(temp, 2));
  a.listener.refuse_next = true;
  a.endpoint->connect(b.endpoint->socket_name(), 5, kNow).value();
  REQUIRE(settle(a, b, 1));
  REQUIRE(a.listener.errors[0].code == Errc::kUnknownMember);
  REQUIRE(run_until({a.endpoint.get(), b.endpoint.get()}, kNow,
                    [&] { return b.endpoint->counters().refused_by_peer.value() == 1; }));
  REQUIRE(a.endpoint->counters().mapped_bytes.value() == 0);
  REQUIRE(a.endpoint->counters().peers_up.value() == 0);
}

TEST_CASE("shm endpoint: a peer of another user is refused on both sides", "[unit]") {
  const TempDir temp;
  TestNodeOptions strict = in(temp, 2);
  strict.shm.peer_uid_id = 54321;
  TestNode a(in(temp, 1)), b(strict);
  a.endpoint->connect(b.endpoint->socket_name(), 1, kNow).value();
  REQUIRE(settle(a, b, 1));
  REQUIRE(a.listener.errors[0].code == Errc::kPeerRefused);
  REQUIRE(a.listener.reasons[0].find("54321") != std::string::npos);
  b.endpoint->connect(a.endpoint->socket_name(), 2, kNow).value();
  REQUIRE(settle(b, a, 1));
  REQUIRE(b.listener.errors[0].code == Errc::kPermission);
}

TEST_CASE("shm endpoint: connections beyond the cap are refused with a reason", "[unit]") {
  const TempDir temp;
  TestNodeOptions few = in(temp, 9);
  few.shm.inbound_max_count = 2;
  TestNode hub(few);
  TestNode a(in(temp, 1)), b(in(temp, 2)), c(in(temp, 3));
  connect_pair(a, hub);
  connect_pair(b, hub);
  c.endpoint->connect(hub.endpoint->socket_name(), 1, kNow).value();
  REQUIRE(settle(c, hub, 1));
  REQUIRE(c.listener.errors[0].code == Errc::kPeerRefused);
  REQUIRE(c.listener.reasons[0].find("2 connections") != std::string::npos);
  // One leaves, the next one fits.
  a.endpoint.reset();
  REQUIRE(run_until({hub.endpoint.get()}, kNow,
                    [&] { return hub.endpoint->counters().inbound_open.value() == 1; }));
  connect_pair(c, hub);
  REQUIRE(c.listener.up.size() == 1);
}

TEST_CASE("shm endpoint: nobody there is an error at once, a mute acceptor one after the deadline",
          "[unit]") {
  const TempDir temp;
  TestNode a(in(temp, 1)), b(in(temp, 2));
  REQUIRE(a.endpoint->connect("pc-none.sock", 1, kNow).error().code == Errc::kConnectRefused);
  REQUIRE(a.endpoint->connect(std::string(200, 'x'), 1, kNow).error().code == Errc::kBadLength);
  a.endpoint->connect(b.endpoint->socket_name(), 8, kNow).value();  // b takes no turn: as if frozen
  Nanos now = kNow;
  for (int i = 0; i < 999; ++i) {
    a.endpoint->poll_once(now);
    now += std::chrono::milliseconds(1);
  }
  REQUIRE(a.listener.errors.empty());
  REQUIRE(a.endpoint->next_due(now) <= kNow + std::chrono::milliseconds(1000));
  a.endpoint->poll_once(kNow + std::chrono::milliseconds(1001));
  REQUIRE(a.listener.errors.size() == 1);
  REQUIRE(a.listener.errors[0].code == Errc::kTimeout);
  REQUIRE(a.listener.refused_cookies[0] == 8);
  REQUIRE(a.endpoint->counters().timeouts.value() == 1);
}

TEST_CASE("shm endpoint: connecting by a whole path works as by name", "[unit]") {
  const TempDir temp;
  const TempDir elsewhere;
  TestNodeOptions options = in(temp, 2);
  options.shm.runtime_dir = elsewhere.path();
  TestNode a(in(temp, 1)), b(options);
  a.endpoint->connect(b.endpoint->socket_path(), 1, kNow).value();
  REQUIRE(run_until({a.endpoint.get(), b.endpoint.get()}, kNow,
                    [&] { return a.listener.up.size() == 1; }));
}

TEST_CASE("shm endpoint: a restarted node is a new peer and its predecessor's socket is removed",
          "[unit]") {
  const TempDir temp;
  TestNode a(in(temp, 1));
  auto b = std::make_unique<TestNode>(in(temp, 2));
  const PeerIndex first = connect_pair(a, *b);
  b.reset();
  REQUIRE(run_until({a.endpoint.get()}, kNow, [&] { return !a.listener.down.empty(); }));
  {
    const auto leftover = listen_unix(temp.path(), "pc-dead.sock", 4);
  }
  TestNode again(in(temp, 2));
  REQUIRE(again.endpoint->counters().stale_sockets.value() == 1);
  const PeerIndex second = connect_pair(a, again);
  REQUIRE(second != first);
  REQUIRE(a.endpoint->table().reaches(second));
}

TEST_CASE("shm endpoint: disconnect drops a peer without a report", "[unit]") {
  const TempDir temp;
  TestNode a(in(temp, 1)), b(in(temp, 2));
  const PeerIndex peer = connect_pair(a, b);
  a.endpoint->disconnect(peer);
  a.endpoint->disconnect(peer);
  a.endpoint->disconnect(PeerIndex(UINT16_MAX));
  REQUIRE_FALSE(a.endpoint->table().reaches(peer));
  REQUIRE(run_until({a.endpoint.get(), b.endpoint.get()}, kNow,
                    [&] { return b.endpoint->counters().inbound_open.value() == 0; }));
  REQUIRE(a.listener.down.empty());
}

TEST_CASE("shm endpoint: the page table is filled in steps without a client", "[unit]") {
  const TempDir temp;
  TestNodeOptions steps = in(temp, 1);
  steps.shm.populate_step_bytes = 64 << 10;
  TestNode a(steps), b(in(temp, 2));
  connect_pair(a, b);
  REQUIRE(a.endpoint->next_due(kNow) == kNow);
  int turns = 0;
  while (a.endpoint->next_due(kNow) == kNow && turns < 1000) {
    a.endpoint->poll_once(kNow);
    ++turns;
  }
  REQUIRE(turns >= 60);
  REQUIRE(turns < 1000);
}

TEST_CASE("shm endpoint: a sleeper on epoll_fd is woken by a connection and by a client",
          "[unit]") {
  const TempDir temp;
  TestNode a(in(temp, 1)), b(in(temp, 2));
  const auto readable = [](const TestNode& node) {
    pollfd ready{node.endpoint->epoll_fd(), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  };
  while (b.endpoint->poll_once(kNow) != 0) {
  }
  REQUIRE_FALSE(readable(b));
  a.endpoint->connect(b.endpoint->socket_name(), 1, kNow).value();
  REQUIRE(readable(a));
  a.endpoint->poll_once(kNow);
  REQUIRE(readable(b));
  REQUIRE(run_until({a.endpoint.get(), b.endpoint.get()}, kNow,
                    [&] { return a.listener.up.size() == 1; }));
  while (a.endpoint->poll_once(kNow) != 0) {
  }
  REQUIRE_FALSE(readable(a));
  a.endpoint->wake();
  REQUIRE(readable(a));
}

TEST_CASE("shm endpoint: regions that peers could not map are refused at open", "[unit]") {
  const TempDir temp;
  RecordingListener listener;
  Hello hello;
  hello.node = NodeId(4);
  ShmOptions options;
  options.runtime_dir = temp.path();
  auto segment = TestNode::make(64_KiB);
  MemorySpec spec = TestNode::spec(*segment, 64_KiB, RegionKind::kWritable, RegionIndex(0));
  spec.fd = -1;
  REQUIRE(ShmEndpoint::open(options, hello, {{spec}}, listener).error().code ==
          Errc::kRegistration);
  spec.fd = segment->fd();
  spec.region = RegionIndex(limits::kRegionsPerNodeMax);
  REQUIRE(ShmEndpoint::open(options, hello, {{spec}}, listener).error().code ==
          Errc::kTooManyRegions);
  spec.region = RegionIndex(1);
  REQUIRE(ShmEndpoint::open(options, hello, {{spec, spec}}, listener).error().code ==
          Errc::kRegionOverlap);
  MemorySpec destination;  // stays local: no memory needed
  REQUIRE(ShmEndpoint::open(options, hello, {{spec, destination}}, listener).has_value());
}

TEST_CASE("shm endpoint: the most regions a node may have cross in several messages", "[unit]") {
  const TempDir temp;
  RecordingListener listener;
  Hello hello;
  hello.node = NodeId(4);
  hello.cluster_name = "test";
  hello.inflight_max_count = 1;
  ShmOptions options;
  options.runtime_dir = temp.path();
  std::vector<std::unique_ptr<ShmSegment>> segments;
  std::vector<MemorySpec> specs;
  for (uint16_t i = 0; i < limits::kRegionsPerNodeMax; ++i) {
    segments.push_back(TestNode::make(4_KiB));
    segments.back()->data()[0] = static_cast<std::byte>(i);
    specs.push_back(TestNode::spec(*segments.back(), 4_KiB, RegionKind::kWritable, RegionIndex(i)));
  }
  auto endpoint = std::move(ShmEndpoint::open(options, hello, specs, listener)).value();
  TestNode a(in(temp, 1));
  a.endpoint->connect(endpoint->socket_name(), 1, kNow).value();
  REQUIRE(run_until({a.endpoint.get(), endpoint.get()}, kNow,
                    [&] { return a.listener.up.size() == 1; }));
  ShmPort* port = a.endpoint->lease_port(nullptr);
  {
    const ShmPin pin(a.endpoint->table(), port->word);
    for (uint16_t i = 0; i < limits::kRegionsPerNodeMax; ++i) {
      REQUIRE(pin.find(a.listener.up[0])->find(RegionIndex(i))->data[0] ==
              static_cast<std::byte>(i));
    }
  }
  a.endpoint->release_port(*port);
}

TEST_CASE("shm endpoint: every client gets a port, the next one none, and a port comes back",
          "[unit]") {
  const TempDir temp;
  TestNode a(in(temp, 1));
  std::vector<ShmPort*> ports;
  for (size_t i = 0; i < limits::kClientsMax; ++i) {
    ports.push_back(a.endpoint->lease_port(nullptr));
    REQUIRE(ports.back() != nullptr);
  }
  REQUIRE(a.endpoint->lease_port(nullptr) == nullptr);
  REQUIRE(ShmTransport::open(*a.endpoint, nullptr).error().code == Errc::kNoClient);
  a.endpoint->release_port(*ports[5]);
  REQUIRE(a.endpoint->lease_port(nullptr) == ports[5]);
  for (ShmPort* port : ports) {
    a.endpoint->release_port(*port);
  }
}

}  // namespace
}  // namespace peercache
