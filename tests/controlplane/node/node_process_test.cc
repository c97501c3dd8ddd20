// Nodes in processes of their own: what still holds when one is killed or frozen.

#include <algorithm>
#include <sys/resource.h>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/support/child_process.h"
#include "tests/support/node_cluster.h"

using namespace peercache;           // NOLINT: a test
using namespace peercache::testing;  // NOLINT

namespace {

constexpr auto kLong = std::chrono::seconds(5);

/// One node here, the others in processes of their own.
struct Processes {
  explicit Processes(size_t count, uint64_t pool_bytes = 16 << 20) {
    for (size_t i = 0; i < count; ++i) ports.push_back(free_port());
    for (size_t i = 1; i < count; ++i) start(i, pool_bytes);
    NodeOptions options = small_node(ports, 0, dir.path());
    options.pool_bytes = pool_bytes;
    Result<std::unique_ptr<Node>> opened = Node::open(options);
    REQUIRE(opened.has_value());
    node = std::move(*opened);
    REQUIRE(wait_for_members(count));
  }

  void start(size_t i, uint64_t pool_bytes) {
    std::vector<std::string> command{PC_NODE_PROCESS, dir.path(), std::to_string(pool_bytes),
                                     std::to_string(i)};
    for (const uint16_t port : ports) command.push_back(std::to_string(port));
    children.resize(std::max(children.size(), i + 1));
    children[i] = std::make_unique<ChildProcess>(command);
    REQUIRE(children[i]->read_line(kLong) == "open");
  }

  std::string ask(size_t i, const std::string& line) {
    children[i]->write_line(line);
    return children[i]->read_line(std::chrono::seconds(10));
  }

  bool wait_for_members(size_t count) {
    for (int turn = 0; turn < 500; ++turn) {
      bool all = node->members_up_count() == count;
      for (size_t i = 1; i < children.size(); ++i) {
        if (children[i] != nullptr && children[i]->started()) {
          all = all && ask(i, "members") == "members " + std::to_string(count);
        }
      }
      if (all) return true;
      usleep(20000);  // waiting for other processes
    }
    return false;
  }

  TempDir dir;
  std::vector<uint16_t> ports;
  std::vector<std::unique_ptr<ChildProcess>> children;
  std::unique_ptr<Node> node;
};

}  // namespace

TEST_CASE("process: two processes share pages in both directions") {
  Processes processes(2);
  REQUIRE(processes.ask(1, "put theirs 8 65536") == "stored 8 held 0 ok 1");
  REQUIRE(processes.ask(1, "flush") == "flushed 1");
  Objects theirs = make_objects("theirs", 8, 65536, 3);
  REQUIRE(processes.node->get(theirs.batch(), theirs.statuses, kLong).has_value());
  CHECK(theirs.count(KeyStatus::kHitPeer) == 8);
  for (size_t i = 0; i < 8; ++i) CHECK(theirs.wrong_bytes(i) == 0);

  Objects mine = make_objects("mine", 8, 65536);
  mine.fill();
  REQUIRE(processes.node->put(mine.batch(), {}, mine.statuses, kLong).has_value());
  REQUIRE(processes.node->flush(kLong).has_value());
  CHECK(processes.ask(1, "get mine 8 65536") == "own 0 peer 8 wrong 0 ok 1");
}

TEST_CASE("process: X-9, a killed producer's keys are misses at once and can be published again") {
  Processes processes(3);
  REQUIRE(processes.ask(1, "put keys 32 16384") == "stored 32 held 0 ok 1");
  REQUIRE(processes.ask(1, "flush") == "flushed 1");
  Objects objects = make_objects("keys", 32, 16384);
  REQUIRE(processes.node->exists(objects.keys, {}, kLong).value() == 32);
  processes.children[1]->kill(SIGKILL);
  // The kernel closes its socket with it; the conductor hears of that within milliseconds.
  uint32_t leading = 32;
  for (int turn = 0; turn < 200 && leading > 0; ++turn) {
    leading = processes.node->exists(objects.keys, {}, kLong).value();
    if (leading > 0) usleep(5000);
  }
  CHECK(leading == 0);
  objects.fill();
  REQUIRE(processes.node->put(objects.batch(), {}, objects.statuses, kLong).has_value());
  CHECK(objects.count(KeyStatus::kStored) == 32);
  REQUIRE(processes.node->get(objects.batch(), objects.statuses, kLong).has_value());
  CHECK(objects.count(KeyStatus::kHitOwn) == 32);
  REQUIRE(processes.node->flush(kLong).has_value());
  CHECK(processes.ask(2, "get keys 32 16384") == "own 0 peer 32 wrong 0 ok 1");
  CHECK(processes.node->stats().outlived_count == 0);
}

TEST_CASE(
    "process: reads run while their owner is killed, and end as validated hits or misses in time") {
  Processes processes(2, 64 << 20);
  REQUIRE(processes.ask(1, "put big 48 1048576") == "stored 48 held 0 ok 1");
  REQUIRE(processes.ask(1, "flush") == "flushed 1");
  std::atomic<bool> killed{false};
  std::atomic<int> rounds{0};
  std::thread killer([&] {
    while (rounds < 3)
      std::this_thread::yield();  // some reads were whole; the next one is under way
    usleep(3000);
    processes.children[1]->signal(SIGKILL);
    killed = true;
  });
  size_t wrong = 0;
  size_t hits = 0;
  for (int round = 0; round < 200; ++round) {
    Objects objects = make_objects("big", 48, 1048576, 4);
    const auto began = std::chrono::steady_clock::now();
    REQUIRE(processes.node->get(objects.batch(), objects.statuses, std::chrono::seconds(1))
                .has_value());
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::milliseconds(1250));
    for (size_t i = 0; i < objects.keys.size(); ++i) {
      if (objects.statuses[i] != KeyStatus::kHitPeer) continue;
      ++hits;
      wrong += objects.wrong_bytes(i);
    }
    ++rounds;
    if (killed && objects.count(KeyStatus::kHitPeer) == 0) break;
  }
  killer.join();
  CHECK(wrong == 0);
  CHECK(hits > 0);
  Objects objects = make_objects("big", 1, 1048576);
  REQUIRE(processes.node->get(objects.batch(), objects.statuses, kLong).has_value());
  CHECK(objects.count(KeyStatus::kMiss) == 1);
}

TEST_CASE("process: a frozen owner's pages stay readable, and calls keep their deadlines") {
  Processes processes(2);
  REQUIRE(processes.ask(1, "put cold 16 65536") == "stored 16 held 0 ok 1");
  REQUIRE(processes.ask(1, "flush") == "flushed 1");
  processes.children[1]->signal(SIGSTOP);
  Objects objects = make_objects("cold", 16, 65536);
  const auto began = std::chrono::steady_clock::now();
  REQUIRE(processes.node->get(objects.batch(), objects.statuses, std::chrono::milliseconds(500))
              .has_value());
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::milliseconds(750));
  CHECK(objects.count(KeyStatus::kHitPeer) == 16);
  Objects mine = make_objects("while-frozen", 4, 65536);
  mine.fill();
  REQUIRE(processes.node->put(mine.batch(), {}, mine.statuses, kLong).has_value());
  CHECK(mine.count(KeyStatus::kStored) == 4);
  processes.children[1]->signal(SIGCONT);
  CHECK(processes.node->flush(kLong).has_value());
  CHECK(processes.ask(1, "get while-frozen 4 65536") == "own 0 peer 4 wrong 0 ok 1");
}

TEST_CASE("process: a node that comes back gets the records of its shard again") {
  Processes processes(2);
  Objects mine = make_objects("again", 24, 16384);
  mine.fill();
  REQUIRE(processes.node->put(mine.batch(), {}, mine.statuses, kLong).has_value());
  REQUIRE(processes.node->flush(kLong).has_value());
  processes.children[1]->kill(SIGKILL);
  processes.start(1, 16 << 20);
  REQUIRE(processes.wait_for_members(2));
  REQUIRE(processes.node->flush(kLong).has_value());
  CHECK(processes.ask(1, "get again 24 16384") == "own 0 peer 24 wrong 0 ok 1");
}

TEST_CASE("process: a forked child gets errors and its parent goes on") {
  Processes processes(2);
  Objects objects = make_objects("fork", 2, 4096);
  objects.fill();
  REQUIRE(processes.node->put(objects.batch(), {}, objects.statuses, kLong).has_value());
  const pid_t child = fork();
  if (child == 0) {
    const Result<uint32_t> leading = processes.node->exists(objects.keys, {}, kLong);
    _exit(!leading.has_value() && leading.error().code == Errc::kForked ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(processes.node->exists(objects.keys, {}, kLong).value() == 2);
}

TEST_CASE("process: a child that was forked and lives on does not hold a lost peer's events") {
  Processes processes(2);
  const pid_t child = fork();
  if (child == 0) {
    pause();  // holds copies of all descriptors, that of the peer's connection too
    _exit(0);
  }
  processes.children[1]->kill(SIGKILL);
  processes.start(1, 16 << 20);
  REQUIRE(processes.wait_for_members(2));
  REQUIRE(processes.ask(1, "put after-fork 8 16384") == "stored 8 held 0 ok 1");
  REQUIRE(processes.ask(1, "flush") == "flushed 1");
  Objects objects = make_objects("after-fork", 8, 16384);
  REQUIRE(processes.node->get(objects.batch(), objects.statuses, kLong).has_value());
  CHECK(objects.count(KeyStatus::kHitPeer) == 8);
  kill(child, SIGKILL);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
}
