// Unrelated processes: what happens when the other one is killed, frozen, or both talk at once.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <signal.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/dataplane/transport/shm_test_node.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace peercache {
namespace {

using namespace testing;

// A node in a process of its own.
struct Remote {
  Remote(const TempDir& temp, uint64_t node_id, int published_MiB)
      : id(node_id),
        process({PC_SHM_TEST_PEER, temp.path(), std::to_string(node_id),
                 std::to_string(published_MiB)}) {
    const std::string line = process.read_line(std::chrono::seconds(20));
    REQUIRE(line.rfind("ready ", 0) == 0);
    socket = line.substr(6);
  }
  uint64_t id;
  ChildProcess process;
  std::string socket;
};

TestNodeOptions in(const TempDir& temp, uint64_t id) {
  TestNodeOptions options;
  options.id = id;
  options.published = 1_MiB;
  options.shm.runtime_dir = temp.path();
  return options;
}

PeerIndex connect_to(TestNode& node, const Remote& remote) {
  const size_t before = node.listener.up.size();
  node.endpoint->connect(remote.socket, remote.id, monotonic_now()).value();
  REQUIRE(wait_until(*node.endpoint, [&] { return node.listener.up.size() > before; }));
  return node.listener.up.back();
}

// Memory files of this process that are mapped, by the system's own account.
size_t mapped_memory_files() {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  size_t count = 0;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    count += std::string(line).find("memfd:peercache") != std::string::npos ? 1 : 0;
  }
  std::fclose(maps);
  return count;
}

TEST_CASE("shm process: pages of an unrelated process are read whole", "[unit]") {
  const TempDir temp;
  Remote remote(temp, 2, 64);
  TestNode node(in(temp, 1));
  const PeerIndex peer = connect_to(node, remote);
  auto client = std::move(ShmTransport::open(*node.endpoint, nullptr)).value();
  std::vector<std::byte> memory(16 << 20);
  for (uint64_t i = 0; i < 4; ++i) {
    REQUIRE(read_one(*client, peer, kPublishedRegion, i * (16 << 20),
                     {{memory.data(), 16 << 20, LocalKey(0)}}) == OpStatus::kOk);
    size_t wrong = 0;
    for (size_t at = 0; at < memory.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, memory.data() + at, 8);
      wrong += word == pattern_word(region_key(2), (i * (16 << 20) + at) / 8) ? 0 : 1;
    }
    REQUIRE(wrong == 0);
  }
}

TEST_CASE(
    "shm process: a peer killed in the middle of a copy is a loss, never a crash, and its memory "
    "goes",
    "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  const size_t own = mapped_memory_files();
  for (int round = 0; round < 5; ++round) {
    Remote remote(temp, 2, 64);
    const PeerIndex peer = connect_to(node, remote);
    REQUIRE(mapped_memory_files() == own + 4);
    auto client = std::move(ShmTransport::open(*node.endpoint, nullptr)).value();
    std::vector<std::byte> memory(64 << 20);
    const std::vector<LocalPiece> piece{{memory.data(), 64 << 20, LocalKey(0)}};
    const WorkRequest request = make_request(OpKind::kRead, peer, kPublishedRegion, 0, piece, 1);
    REQUIRE(client->post({&request, 1}) == 1);
    Completion completion{};
    uint32_t completed = 0;
    for (int i = 0; i < 3 + round; ++i) {
      completed += client->poll({&completion, 1});
    }
    REQUIRE(completed == 0);
    remote.process.kill(SIGKILL);
    completed +=
        client->poll({&completion, 1});  // dead, not yet noticed: the mapping holds the bytes
    REQUIRE(completed == 0);
    REQUIRE(wait_until(*node.endpoint, [&] {
      return node.listener.down.size() == static_cast<size_t>(round) + 1;
    }));
    REQUIRE(client->poll({&completion, 1}) == 1);
    REQUIRE(completion.status == OpStatus::kPeerLost);
    REQUIRE(wait_until(*node.endpoint, [&] { return !node.endpoint->table().has_retired(); }));
    REQUIRE(node.endpoint->counters().mapped_bytes.value() == 0);
    REQUIRE(mapped_memory_files() == own);
  }
}

TEST_CASE("shm process: a copying thread and a dying peer meet at any moment", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  for (int round = 0; round < 8; ++round) {
    Remote remote(temp, 2, 16);
    const PeerIndex peer = connect_to(node, remote);
    std::atomic<uint64_t> reads{0};
    std::atomic<uint64_t> wrong{0};
    std::thread copier([&] {
      auto client = std::move(ShmTransport::open(*node.endpoint, nullptr)).value();
      std::vector<std::byte> memory(1 << 20);
      for (uint64_t i = 0;; ++i) {
        const uint64_t offset = i % 16 * (1 << 20);
        const OpStatus status = read_one(*client, peer, kPublishedRegion, offset,
                                         {{memory.data(), 1 << 20, LocalKey(0)}});
        if (status != OpStatus::kOk) {
          wrong += status == OpStatus::kPeerLost ? 0 : 1;
          return;
        }
        for (size_t at = 0; at < memory.size(); at += 4096) {
          uint64_t word = 0;
          std::memcpy(&word, memory.data() + at, 8);
          wrong += word == pattern_word(region_key(2), (offset + at) / 8) ? 0 : 1;
        }
        reads.fetch_add(1, std::memory_order_relaxed);
      }
    });
    wait_until(*node.endpoint,
               [&] { return reads.load() > static_cast<uint64_t>(20 + round * 7); });
    remote.process.kill(SIGKILL);
    REQUIRE(wait_until(*node.endpoint, [&] {
      return node.listener.down.size() == static_cast<size_t>(round) + 1;
    }));
    REQUIRE(wait_until(*node.endpoint, [&] { return !node.endpoint->table().has_retired(); }));
    copier.join();
    REQUIRE(wrong.load() == 0);
    REQUIRE(node.endpoint->counters().unmapping_bytes.value() == 0);
  }
}

TEST_CASE("shm process: a frozen peer is read as usual; connecting to it ends by its deadline",
          "[unit]") {
  const TempDir temp;
  Remote remote(temp, 2, 4);
  TestNode node(in(temp, 1)), late(in(temp, 3));
  const PeerIndex peer = connect_to(node, remote);
  auto client = std::move(ShmTransport::open(*node.endpoint, nullptr)).value();
  std::vector<std::byte> memory(4 << 20);
  remote.process.signal(SIGSTOP);
  REQUIRE(read_one(*client, peer, kPublishedRegion, 0, {{memory.data(), 4 << 20, LocalKey(0)}}) ==
          OpStatus::kOk);
  REQUIRE(count_wrong(region_key(2), memory.data(), memory.size()) == 0);
  const Nanos began = monotonic_now();
  late.endpoint->connect(remote.socket, 2, began).value();
  REQUIRE(wait_until(*late.endpoint, [&] { return late.listener.errors.size() == 1; }));
  REQUIRE(late.listener.errors[0].code == Errc::kTimeout);
  REQUIRE(monotonic_now() - began < std::chrono::milliseconds(1250));
  remote.process.signal(SIGCONT);
  connect_to(late, remote);
  REQUIRE(late.listener.up.size() == 1);
}

TEST_CASE(
    "shm process: writes reach the owner; a killed owner loses them, a frozen one can be fenced",
    "[unit]") {
  const TempDir temp;
  Remote remote(temp, 2, 1);
  TestNode node(in(temp, 1));
  const PeerIndex peer = connect_to(node, remote);
  auto client = std::move(ShmTransport::open(*node.endpoint, nullptr)).value();
  std::vector<std::byte> memory(8 << 20);
  fill_pattern(Key128{8, 8}, memory.data(), memory.size());
  const std::vector<LocalPiece> piece{{memory.data(), 8 << 20, LocalKey(0)}};
  const WorkRequest request = make_request(OpKind::kWrite, peer, kWritableRegion, 0, piece, 1);
  Completion completion{};
  const auto write = [&] {
    REQUIRE(client->post({&request, 1}) == 1);
    client->flush();
  };
  const auto completed = [&] {
    return wait_until(*node.endpoint, [&] { return client->poll({&completion, 1}) == 1; });
  };
  write();
  REQUIRE(completed());
  REQUIRE(completion.status == OpStatus::kOk);
  remote.process.write_line("sum");
  REQUIRE(remote.process.read_line(std::chrono::seconds(5)) ==
          "sum " + std::to_string(hash_bytes64(memory.data(), memory.size())));
  remote.process.signal(SIGSTOP);
  write();
  for (int i = 0; i < 20; ++i) {
    node.endpoint->poll_once(monotonic_now());
  }
  client->fence(peer);
  REQUIRE(completed());
  REQUIRE(completion.status == OpStatus::kFlushed);
  remote.process.signal(SIGCONT);
  write();
  REQUIRE(completed());
  REQUIRE(completion.status == OpStatus::kOk);
  remote.process.signal(SIGSTOP);
  write();
  for (int i = 0; i < 20; ++i) {
    node.endpoint->poll_once(monotonic_now());
  }
  remote.process.kill(SIGKILL);
  REQUIRE(completed());
  REQUIRE(completion.status == OpStatus::kPeerLost);
}

TEST_CASE("shm process: the socket of a killed node is removed by the next one that starts",
          "[unit]") {
  const TempDir temp;
  std::string socket;
  {
    Remote remote(temp, 2, 1);
    socket = temp.path() + "/" + remote.socket;
    remote.process.kill(SIGKILL);
  }
  REQUIRE(std::filesystem::exists(socket));
  TestNode node(in(temp, 1));
  REQUIRE_FALSE(std::filesystem::exists(socket));
  REQUIRE(node.endpoint->counters().stale_sockets.value() == 1);
}

}  // namespace
}  // namespace peercache
