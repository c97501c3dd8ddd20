// Whole nodes in one process: real conductors, real shared memory.

#include <algorithm>
#include <poll.h>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/support/node_cluster.h"

using namespace peercache;           // NOLINT: a test
using namespace peercache::testing;  // NOLINT

namespace {

constexpr auto kLong = std::chrono::seconds(5);

/// Nodes of one runtime directory, opened side by side as processes would be.
struct Cluster {
  explicit Cluster(size_t count, const std::function<void(NodeOptions&, size_t)>& change = {}) {
    std::vector<uint16_t> ports;
    for (size_t i = 0; i < count; ++i) ports.push_back(free_port());
    nodes.resize(count);
    std::vector<std::thread> starters;
    for (size_t i = 0; i < count; ++i) {
      starters.emplace_back([&, i] {
        NodeOptions options = small_node(ports, i, dir.path());
        if (change) change(options, i);
        Result<std::unique_ptr<Node>> node = Node::open(options);
        if (node) {
          nodes[i] = std::move(*node);
        } else {
          errors += to_string(node.error()) + "\n";
        }
      });
    }
    for (std::thread& starter : starters) starter.join();
    INFO(errors);
    for (const auto& node : nodes) REQUIRE(node != nullptr);
  }

  Node& operator[](size_t i) { return *nodes[i]; }

  TempDir dir;
  std::vector<std::unique_ptr<Node>> nodes;
  std::string errors;
};

size_t put(Node& node, Objects& objects) {
  objects.fill();
  const Result<void> done = node.put(objects.batch(), {}, objects.statuses, kLong);
  INFO((done ? "" : to_string(done.error())));
  REQUIRE(done.has_value());
  return objects.count(KeyStatus::kStored);
}

void get(Node& node, Objects& objects) {
  std::fill(objects.memory.begin(), objects.memory.end(), std::byte{0xEE});
  const Result<void> done = node.get(objects.batch(), objects.statuses, kLong);
  INFO((done ? "" : to_string(done.error())));
  REQUIRE(done.has_value());
  for (size_t i = 0; i < objects.keys.size(); ++i) {
    const bool hit =
        objects.statuses[i] == KeyStatus::kHitOwn || objects.statuses[i] == KeyStatus::kHitPeer;
    if (hit) REQUIRE(objects.wrong_bytes(i) == 0);
  }
}

}  // namespace

TEST_CASE("node: a page that one node put is read by another, every byte right") {
  Cluster cluster(2);
  Objects mine = make_objects("thread", 1, 65536);
  REQUIRE(put(cluster[0], mine) == 1);
  REQUIRE(cluster[0].flush(kLong).has_value());
  Objects theirs = make_objects("thread", 1, 65536, 7);
  get(cluster[1], theirs);
  CHECK(theirs.count(KeyStatus::kHitPeer) == 1);
}

TEST_CASE("node: its own puts are seen at once, without a flush") {
  Cluster cluster(1);
  for (int round = 0; round < 50; ++round) {
    Objects objects = make_objects("own" + std::to_string(round), 8, 4096);
    REQUIRE(put(cluster[0], objects) == 8);
    const Result<uint32_t> leading = cluster[0].exists(objects.keys, {}, kLong);
    REQUIRE(leading.has_value());
    REQUIRE(*leading == 8);
    get(cluster[0], objects);
    REQUIRE(objects.count(KeyStatus::kHitOwn) == 8);
  }
}

TEST_CASE("node: exists gives the leading run and a status per key") {
  Cluster cluster(2);
  Objects held = make_objects("lead", 10, 4096);
  Objects some = make_objects("lead", 10, 4096);
  some.keys.erase(some.keys.begin() + 4);  // the 5th is never put
  some.offsets.pop_back();
  some.pieces.erase(some.pieces.begin() + 8, some.pieces.begin() + 10);
  some.statuses.pop_back();
  some.memory.resize(10 * 4096);
  const Result<void> done = cluster[0].put(some.batch(), {}, some.statuses, kLong);
  REQUIRE(done.has_value());
  REQUIRE(cluster[0].flush(kLong).has_value());
  const Result<uint32_t> leading = cluster[1].exists(held.keys, held.statuses, kLong);
  REQUIRE(leading.has_value());
  CHECK(*leading == 4);
  CHECK(held.count(KeyStatus::kHitPeer) == 9);
  CHECK(held.statuses[4] == KeyStatus::kMiss);
}

TEST_CASE("node: pages that a live node holds are not copied again") {
  Cluster cluster(2);
  Objects objects = make_objects("dup", 16, 8192);
  REQUIRE(put(cluster[0], objects) == 16);
  REQUIRE(cluster[0].flush(kLong).has_value());
  Objects again = make_objects("dup", 16, 8192);
  REQUIRE(put(cluster[1], again) == 0);
  CHECK(again.count(KeyStatus::kHeld) == 16);
  CHECK(cluster[1].stats().pool_objects_count == 0);
}

TEST_CASE("node: X-1, an eviction between exists and get costs misses, never other pages' bytes") {
  Cluster cluster(2, [](NodeOptions& options, size_t) { options.pool_bytes = 4 * 65536; });
  Objects old = make_objects("old", 4, 65536);
  REQUIRE(put(cluster[0], old) == 4);
  REQUIRE(cluster[0].flush(kLong).has_value());
  REQUIRE(cluster[1].exists(old.keys, {}, kLong).value() == 4);
  Objects fresh = make_objects("fresh", 4, 65536);
  REQUIRE(put(cluster[0], fresh) == 4);
  REQUIRE(cluster[0].flush(kLong).has_value());
  Objects read = make_objects("old", 4, 65536);
  get(cluster[1], read);
  CHECK(read.count(KeyStatus::kMiss) == 4);
  CHECK(cluster[1].stats().stale_reads_count >= 1);
  // The directory has learnt of it: nobody is told of the old pages any more.
  CHECK(cluster[1].exists(old.keys, {}, kLong).value() == 0);
  Objects now = make_objects("fresh", 4, 65536);
  get(cluster[1], now);
  CHECK(now.count(KeyStatus::kHitPeer) == 4);
}

TEST_CASE("node: remove and clear touch own objects only, and are done when they return") {
  Cluster cluster(2);
  Objects a = make_objects("a", 4, 4096);
  Objects b = make_objects("b", 4, 4096);
  REQUIRE(put(cluster[0], a) == 4);
  REQUIRE(put(cluster[1], b) == 4);
  REQUIRE(cluster[0].flush(kLong).has_value());
  REQUIRE(cluster[1].flush(kLong).has_value());
  REQUIRE(cluster[0].remove(std::span<const Key128>(a.keys).first(1), kLong).has_value());
  CHECK(cluster[0].exists(a.keys, {}, kLong).value() == 0);
  REQUIRE(cluster[0].clear(kLong).has_value());
  CHECK(cluster[0].stats().pool_objects_count == 0);
  get(cluster[0], b);
  CHECK(b.count(KeyStatus::kHitPeer) == 4);
}

TEST_CASE(
    "node: objects of another length under the same key are misses, and verify finds no fault") {
  Cluster cluster(2, [](NodeOptions& options, size_t) { options.verify = VerifyMode::kFull; });
  Objects objects = make_objects("len", 3, 12288, 3);
  REQUIRE(put(cluster[0], objects) == 3);
  REQUIRE(cluster[0].flush(kLong).has_value());
  Objects shorter = make_objects("len", 3, 8192);
  get(cluster[1], shorter);
  CHECK(shorter.count(KeyStatus::kMiss) == 3);
  Objects right = make_objects("len", 3, 12288, 5);
  get(cluster[1], right);
  CHECK(right.count(KeyStatus::kHitPeer) == 3);
  CHECK(cluster[1].stats().bad_payload_count == 0);
}

TEST_CASE("node: tickets do the same as calls, and tell by their descriptor") {
  Cluster cluster(2);
  Objects objects = make_objects("ticket", 32, 65536);
  objects.fill();
  Result<NodeTicket> ticket = cluster[0].submit_put(objects.batch(), {}, objects.statuses, kLong);
  REQUIRE(ticket.has_value());
  REQUIRE(cluster[0].event_fd(*ticket).has_value());
  while (!cluster[0].poll(*ticket).value()) {
    pollfd ready{cluster[0].event_fd(*ticket).value(), POLLIN, 0};
    ::poll(&ready, 1, 1000);
  }
  REQUIRE(cluster[0].collect(*ticket).has_value());
  CHECK(objects.count(KeyStatus::kStored) == 32);
  CHECK(cluster[0].poll(*ticket).error().code == Errc::kStaleTicket);
  REQUIRE(cluster[0].flush(kLong).has_value());
  std::fill(objects.memory.begin(), objects.memory.end(), std::byte{0});
  ticket = cluster[1].submit_get(objects.batch(), objects.statuses, kLong);
  REQUIRE(ticket.has_value());
  REQUIRE(cluster[1].wait(*ticket, kLong).value());
  REQUIRE(cluster[1].collect(*ticket).has_value());
  CHECK(objects.count(KeyStatus::kHitPeer) == 32);
  for (size_t i = 0; i < 32; ++i) REQUIRE(objects.wrong_bytes(i) == 0);
}

TEST_CASE("node: when all clients are leased, submit says busy at its deadline") {
  Cluster cluster(1, [](NodeOptions& options, size_t) { options.client_count = 2; });
  Objects objects = make_objects("busy", 1, 4096);
  std::vector<NodeTicket> held;
  for (int i = 0; i < 2; ++i)
    held.push_back(cluster[0].submit_exists(objects.keys, {}, kLong).value());
  const auto began = std::chrono::steady_clock::now();
  const Result<NodeTicket> third =
      cluster[0].submit_exists(objects.keys, {}, std::chrono::milliseconds(50));
  REQUIRE(!third.has_value());
  CHECK(third.error().code == Errc::kBusy);
  CHECK(std::chrono::steady_clock::now() - began >= std::chrono::milliseconds(50));
  for (const NodeTicket& ticket : held) REQUIRE(cluster[0].collect(ticket).has_value());
  CHECK(cluster[0].exists(objects.keys, {}, kLong).has_value());
}

TEST_CASE("node: bad input has an error of its own with the values in it, and nothing is done") {
  Cluster cluster(1);
  Objects objects = make_objects("bad", 2, 4096);
  SECTION("a piece list that does not add up") {
    objects.offsets.back() += 1;
    const Result<void> done = cluster[0].put(objects.batch(), {}, objects.statuses, kLong);
    REQUIRE(!done.has_value());
    CHECK(done.error().code == Errc::kPieceSumMismatch);
  }
  SECTION("an empty piece") {
    objects.pieces[1].length_bytes = 0;
    const Result<void> done = cluster[0].get(objects.batch(), objects.statuses, kLong);
    REQUIRE(!done.has_value());
    CHECK(done.error().code == Errc::kEmptyOperation);
  }
  SECTION("a length that fits no class") {
    Objects huge = make_objects("huge", 1, 9 << 20);
    const Result<void> done = cluster[0].put(huge.batch(), {}, huge.statuses, kLong);
    REQUIRE(!done.has_value());
    const std::string text = to_string(done.error());
    CHECK(text.find(std::to_string(9 << 20)) != std::string::npos);
  }
  SECTION("statuses of another count") {
    objects.statuses.pop_back();
    CHECK(cluster[0].put(objects.batch(), {}, objects.statuses, kLong).error().code ==
          Errc::kInvalidArgument);
  }
  CHECK(cluster[0].stats().pool_objects_count == 0);
}

TEST_CASE("node: a member that never answers does not keep a node from starting alone") {
  const uint16_t own = free_port();
  const uint16_t silent = free_port();
  TempDir dir;
  NodeOptions options = small_node({own, silent}, 0, dir.path());
  options.start_timeout_ms = 200;
  Result<std::unique_ptr<Node>> node = Node::open(options);
  REQUIRE(node.has_value());
  Objects objects = make_objects("alone", 4, 4096);
  REQUIRE(put(**node, objects) == 4);
  get(**node, objects);
  CHECK(objects.count(KeyStatus::kHitOwn) == 4);
  CHECK((*node)->members_up_count() == 1);
}

TEST_CASE("node: calls from many threads at once stay correct while others evict") {
  Cluster cluster(2, [](NodeOptions& options, size_t) { options.pool_bytes = 2 << 20; });
  std::atomic<size_t> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 60; ++round) {
        Objects objects = make_objects(
            "mix" + std::to_string((t * 7 + static_cast<size_t>(round)) % 24), 6, 65536);
        Node& node = cluster[t % 2];
        if (t < 3) {
          objects.fill();
          static_cast<void>(node.put(objects.batch(), {}, objects.statuses, kLong));
        } else {
          static_cast<void>(node.exists(objects.keys, {}, kLong));
          static_cast<void>(node.get(objects.batch(), objects.statuses, kLong));
          for (size_t i = 0; i < objects.keys.size(); ++i) {
            const bool hit = objects.statuses[i] == KeyStatus::kHitOwn ||
                             objects.statuses[i] == KeyStatus::kHitPeer;
            if (hit) wrong += objects.wrong_bytes(i);
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(cluster[0].stats().outlived_count == 0);
}

TEST_CASE("node: after close every call answers closed, and close is idempotent") {
  Cluster cluster(1);
  cluster[0].close();
  cluster[0].close();
  Objects objects = make_objects("closed", 1, 4096);
  CHECK(cluster[0].put(objects.batch(), {}, objects.statuses, kLong).error().code == Errc::kClosed);
  CHECK(cluster[0].exists(objects.keys, {}, kLong).error().code == Errc::kClosed);
  CHECK(cluster[0].flush(kLong).error().code == Errc::kClosed);
}
