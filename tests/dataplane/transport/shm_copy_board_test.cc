#include "dataplane/transport/shm/shm_copy_board.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/transport/shm/shm_copy.h"
#include "dataplane/transport/shm/shm_transport.h"
#include "tests/dataplane/transport/shm_test_node.h"
#include "tests/support/temp_dir.h"

namespace peercache {
namespace {

using namespace testing;

// Two connected nodes; the first one has copiers and a client.
struct Pair {
  explicit Pair(uint32_t copiers) : a(options(1, copiers)), b(options(2, 0)) {
    peer = connect_pair(a, b);
    transport = std::move(ShmTransport::open(*a.endpoint, nullptr)).value();
  }
  TestNodeOptions options(uint64_t id, uint32_t copiers) const {
    TestNodeOptions made;
    made.id = id;
    made.published = 16_MiB;
    made.shm.runtime_dir = temp.path();
    made.shm.copier_threads_count = copiers;
    return made;
  }

  TempDir temp;
  TestNode a, b;
  PeerIndex peer;
  std::unique_ptr<ShmTransport> transport;
};

TEST_CASE("shm cursor: finds the piece of every offset", "[unit]") {
  std::byte memory[100];
  const std::vector<LocalPiece> pieces{{memory, 10, LocalKey(0)},
                                       {memory, 0, LocalKey(0)},
                                       {memory, 1, LocalKey(0)},
                                       {memory, 39, LocalKey(0)}};
  const WorkRequest request =
      make_request(OpKind::kRead, PeerIndex(0), kPublishedRegion, 0, pieces);
  const auto at = [&](uint32_t offset) {
    const ShmCursor cursor = cursor_at(request, offset);
    return std::pair<int, uint32_t>(cursor.piece_index, cursor.piece_done_bytes);
  };
  REQUIRE(at(0) == std::pair<int, uint32_t>(0, 0));
  REQUIRE(at(9) == std::pair<int, uint32_t>(0, 9));
  REQUIRE((at(10).first == 1 || at(10).first == 2));
  REQUIRE(at(11) == std::pair<int, uint32_t>(3, 0));
  REQUIRE(at(49) == std::pair<int, uint32_t>(3, 38));
}

TEST_CASE("shm copy board: each chunk is copied once, whoever takes it, and jobs end in order",
          "[unit]") {
  Pair pair(0);
  ShmPort* port = pair.a.endpoint->lease_port(nullptr);
  const ShmPeerTable& table = pair.a.endpoint->table();
  ShmCopyBoard& board = port->board;
  std::vector<std::byte> memory(4 << 20);
  const uint32_t bytes = ShmCopyBoard::kChunkBytes * 3 + 5;
  const std::vector<LocalPiece> pieces{{memory.data(), 100001, LocalKey(0)},
                                       {memory.data() + 100001, bytes - 100001, LocalKey(0)}};
  for (uint64_t i = 0; i < ShmCopyBoard::kJobsMax; ++i) {
    REQUIRE(board.offer(make_request(OpKind::kRead, pair.peer, kPublishedRegion, 0, pieces, i)));
  }
  REQUIRE_FALSE(board.offer(make_request(OpKind::kRead, pair.peer, kPublishedRegion, 0, pieces)));
  Completion completions[64];
  REQUIRE(board.harvest(completions) == 0);
  REQUIRE(board.copy_some(table, port->word, 1) == 1);
  REQUIRE(board.copy_some(table, port->word, ShmCopyBoard::kChunkBytes * 2) == 2);
  REQUIRE(board.harvest(completions) == 0);
  REQUIRE(board.copy_some(table, port->word, 1) == 1);
  REQUIRE(board.harvest(completions) == 1);
  REQUIRE(completions[0].cookie_id == 0);
  REQUIRE(completions[0].status == OpStatus::kOk);
  REQUIRE(count_wrong(region_key(2), memory.data(), bytes) == 0);
  REQUIRE(memory[bytes] == std::byte{0});
  REQUIRE(board.copy_some(table, port->word, UINT32_MAX) == 4 * (ShmCopyBoard::kJobsMax - 1));
  REQUIRE_FALSE(board.has_chunks());
  REQUIRE(board.harvest(std::span(completions).first(5)) == 5);
  REQUIRE(board.harvest(completions) == ShmCopyBoard::kJobsMax - 6);
  REQUIRE(completions[0].cookie_id == 6);
  REQUIRE(board.running() == 0);
  pair.a.endpoint->release_port(*port);
}

TEST_CASE("shm copy board: a fence takes back what nobody has taken, a lost peer ends the rest",
          "[unit]") {
  Pair pair(0);
  ShmPort* port = pair.a.endpoint->lease_port(nullptr);
  ShmCopyBoard& board = port->board;
  std::vector<std::byte> memory(1 << 20);
  const std::vector<LocalPiece> piece{{memory.data(), 1 << 20, LocalKey(0)}};
  const auto offer = [&](PeerIndex peer, uint64_t cookie) {
    REQUIRE(board.offer(make_request(OpKind::kRead, peer, kPublishedRegion, 0, piece, cookie)));
  };
  offer(pair.peer, 1);
  offer(PeerIndex(77), 2);
  offer(pair.peer, 3);
  REQUIRE(board.copy_some(pair.a.endpoint->table(), port->word, 1) == 1);
  board.flush(pair.peer);
  Completion completions[8];
  REQUIRE(board.harvest(completions) == 1);
  REQUIRE(completions[0].status == OpStatus::kFlushed);
  REQUIRE(board.copy_some(pair.a.endpoint->table(), port->word, UINT32_MAX) == 8);
  REQUIRE(board.harvest(completions) == 2);
  REQUIRE(completions[0].cookie_id == 2);
  REQUIRE(completions[0].status == OpStatus::kPeerLost);
  REQUIRE(completions[1].status == OpStatus::kFlushed);
  pair.a.endpoint->release_port(*port);
}

TEST_CASE("shm copiers: clients and copiers together deliver every byte", "[unit]") {
  Pair pair(2);
  constexpr int kClients = 2;
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      auto transport = std::move(ShmTransport::open(*pair.a.endpoint, nullptr)).value();
      std::vector<std::byte> memory(16 << 20);
      for (int round = 0; round < 6; ++round) {
        std::fill(memory.begin(), memory.end(), std::byte{0});
        std::vector<std::vector<LocalPiece>> pieces;
        std::vector<WorkRequest> requests;
        uint64_t at = 0;
        // Large ones, which are shared, and small ones between them, which are not.
        for (uint64_t i = 0; at + (1 << 20) < memory.size(); ++i) {
          const auto bytes =
              static_cast<uint32_t>(i % 3 == 2 ? 4096 : 70000 + (i * 77777) % 900000);
          const uint32_t first = bytes / 3;
          pieces.push_back({{memory.data() + at, first, LocalKey(0)},
                            {memory.data() + at + first, bytes - first, LocalKey(0)}});
          requests.push_back(
              make_request(OpKind::kRead, pair.peer, kPublishedRegion, at, pieces.back(), i));
          at += bytes / 8 * 8;
        }
        uint32_t posted = 0;
        uint32_t completed = 0;
        while (completed < requests.size()) {
          posted += transport->post(
              std::span(requests).subspan(posted, std::min<size_t>(requests.size() - posted, 8)));
          Completion completions[16];
          const uint32_t count = transport->poll(completions);
          for (uint32_t i = 0; i < count; ++i) {
            wrong += completions[i].status == OpStatus::kOk ? 0 : 1;
          }
          completed += count;
        }
        wrong += count_wrong(region_key(2), memory.data(), at);
        wrong += transport->has_work() ? 1 : 0;
      }
      static_cast<void>(c);
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  REQUIRE(wrong.load(std::memory_order_relaxed) == 0);
  REQUIRE(pair.a.endpoint->copiers() != nullptr);
}

TEST_CASE("shm copiers: a peer that dies while they copy is a loss, and its memory goes",
          "[unit]") {
  for (int round = 0; round < 5; ++round) {
    Pair pair(2);
    std::vector<std::byte> memory(16 << 20);
    const std::vector<LocalPiece> piece{{memory.data(), 16 << 20, LocalKey(0)}};
    for (uint64_t i = 0; i < 8; ++i) {
      const WorkRequest request =
          make_request(OpKind::kRead, pair.peer, kPublishedRegion, 0, piece, i);
      REQUIRE(pair.transport->post({&request, 1}) == 1);
    }
    Completion completions[16];
    uint32_t completed = 0;
    for (int i = 0; i < round; ++i) {
      completed += pair.transport->poll(completions);
    }
    pair.b.endpoint.reset();
    pair.b.published.reset();
    while (completed < 8) {
      const uint32_t count = pair.transport->poll(completions);
      for (uint32_t i = 0; i < count; ++i) {
        REQUIRE((completions[i].status == OpStatus::kOk ||
                 completions[i].status == OpStatus::kPeerLost));
      }
      completed += count;
      pair.a.endpoint->poll_once(Nanos(1));
    }
    REQUIRE(run_until({pair.a.endpoint.get()}, Nanos(1), [&] {
      return pair.a.listener.down.size() == 1 && !pair.a.endpoint->table().has_retired();
    }));
  }
}

TEST_CASE("shm copiers: more than there is room for are refused", "[unit]") {
  const TempDir temp;
  TestNodeOptions options;
  options.shm.runtime_dir = temp.path();
  options.shm.copier_threads_count = ShmPeerTable::kCopiersMax + 1;
  const TestNode node(options);
  REQUIRE(node.open_error.code == Errc::kOutOfRange);
}

}  // namespace
}  // namespace peercache
