#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/transport/shm/shm_transport.h"
#include "tests/dataplane/transport/shm_test_node.h"
#include "tests/support/temp_dir.h"

namespace peercache {
namespace {

using namespace testing;

// Two connected nodes and a client of the first.
struct Pair {
  explicit Pair(Bytes published = 4_MiB) : a(options(1, 1_MiB)), b(options(2, published)) {
    peer = connect_pair(a, b);
    transport = std::move(ShmTransport::open(*a.endpoint, nullptr)).value();
  }
  TestNodeOptions options(uint64_t id, Bytes published) const {
    TestNodeOptions made;
    made.id = id;
    made.published = published;
    made.shm.runtime_dir = temp.path();
    return made;
  }
  OpStatus read(uint64_t offset,
                const std::vector<LocalPiece>& pieces,
                RegionIndex region = kPublishedRegion) {
    return read_one(*transport, peer, region, offset, pieces);
  }

  TempDir temp;
  TestNode a, b;
  PeerIndex peer;
  std::unique_ptr<ShmTransport> transport;
};

// `count` pieces that add up to `bytes`, of uneven lengths, each with a guard behind it, in
// `memory`.
std::vector<LocalPiece> make_pieces(std::vector<std::byte>& memory,
                                    uint32_t bytes,
                                    uint32_t count,
                                    uint32_t align) {
  constexpr uint32_t kGap = 64;
  memory.assign(bytes + uint64_t{count} * (kGap + align) + 64, std::byte{0xEE});
  std::vector<LocalPiece> pieces;
  std::minstd_rand engine(bytes + count);
  const auto random = [&] { return static_cast<uint32_t>(engine()); };
  uint64_t at = 0;
  uint32_t left = bytes;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t rest = count - i - 1;
    const uint32_t most = left - rest;  // at least a byte for each that follows
    const uint32_t length =
        rest == 0 ? left : 1 + random() % std::max(1U, std::min(most, 2 * bytes / count));
    pieces.push_back({memory.data() + at, std::min(length, most), LocalKey(0)});
    left -= pieces.back().length_bytes;
    at += pieces.back().length_bytes + kGap + (align == 0 ? 0 : random() % align);
  }
  return pieces;
}

size_t wrong_bytes(const std::vector<LocalPiece>& pieces, const std::byte* truth) {
  size_t wrong = 0;
  for (const LocalPiece& piece : pieces) {
    wrong += std::equal(piece.address, piece.address + piece.length_bytes, truth)
                 ? 0
                 : piece.length_bytes;
    wrong += piece.address[piece.length_bytes] == std::byte{0xEE} ? 0 : 1;
    truth += piece.length_bytes;
  }
  return wrong;
}

TEST_CASE("shm read: every size arrives whole in any number of pieces", "[unit]") {
  Pair pair(17_MiB);
  std::vector<std::byte> memory;
  for (const uint32_t bytes : {1U, 2U, 63U, 64U, 65U, 255U, 256U, 257U, 1000U, 4095U, 4096U, 4097U,
                               12345U, 65536U, 131072U, 1U << 20, (2U << 20) + 7, 16U << 20}) {
    for (const uint32_t count : {1U, 2U, 3U, 30U, 160U, 256U}) {
      if (count > bytes) {
        continue;
      }
      CAPTURE(bytes, count);
      const std::vector<LocalPiece> pieces =
          make_pieces(memory, bytes, count, count % 2 == 0 ? 64 : 0);
      const uint64_t offset = bytes % 3 == 0 ? 4096 : 1;
      REQUIRE(pair.read(offset, pieces) == OpStatus::kOk);
      REQUIRE(wrong_bytes(pieces, pair.b.published->data() + offset) == 0);
    }
  }
}

TEST_CASE(
    "shm read: a large copy is cut, others complete meanwhile, and has_work says that it goes on",
    "[unit]") {
  Pair pair(17_MiB);
  std::vector<std::byte> large(16 << 20), header(64);
  const std::vector<LocalPiece> large_piece{{large.data(), 16 << 20, LocalKey(0)}};
  const std::vector<LocalPiece> header_piece{{header.data(), 64, LocalKey(0)}};
  const WorkRequest requests[] = {
      make_request(OpKind::kRead, pair.peer, kPublishedRegion, 0, large_piece, 1),
      make_request(OpKind::kRead, pair.peer, kHeadersRegion, 64, header_piece, 2)};
  REQUIRE_FALSE(pair.transport->has_work());
  REQUIRE(pair.transport->post(requests) == 2);
  Completion completions[8];
  REQUIRE(pair.transport->poll(completions) == 1);
  REQUIRE(completions[0].cookie_id == 2);
  int polls = 1;
  uint32_t count = 0;
  while (count == 0) {
    REQUIRE(pair.transport->has_work());
    count = pair.transport->poll(completions);
    ++polls;
  }
  REQUIRE(polls == 8);
  REQUIRE(completions[0].cookie_id == 1);
  REQUIRE_FALSE(pair.transport->has_work());
  REQUIRE(count_wrong(region_key(2), large.data(), large.size()) == 0);
}

TEST_CASE("shm read: headers show the present, also in the middle of the table", "[unit]") {
  Pair pair;
  SlotHeader header{};
  header.key = Key128{7, 9};
  header.generation = Generation(13);
  header.state = SlotState::kPublished;
  std::memcpy(pair.b.headers->data() + 5 * sizeof header, &header, sizeof header);
  SlotHeader landing{};
  REQUIRE(pair.read(5 * sizeof header,
                    {{reinterpret_cast<std::byte*>(&landing), sizeof landing, LocalKey(0)}},
                    kHeadersRegion) == OpStatus::kOk);
  REQUIRE(std::memcmp(&landing, &header, sizeof header) == 0);
}

TEST_CASE("shm read: what lies outside, or has no such region, is refused and touches nothing",
          "[unit]") {
  Pair pair;
  std::vector<std::byte> memory(8192, std::byte{0xEE});
  const std::vector<LocalPiece> page{{memory.data(), 4096, LocalKey(0)}};
  const std::vector<LocalPiece> byte{{memory.data(), 1, LocalKey(0)}};
  const uint64_t end = pair.b.published->length().value();
  REQUIRE(pair.read(end - 4096, page) == OpStatus::kOk);
  std::fill(memory.begin(), memory.end(), std::byte{0xEE});
  REQUIRE(pair.read(end - 4095, page) == OpStatus::kOutOfBounds);
  REQUIRE(pair.read(end, byte) == OpStatus::kOutOfBounds);
  REQUIRE(pair.read(UINT64_MAX, byte) == OpStatus::kOutOfBounds);
  REQUIRE(pair.read(UINT64_MAX - 4095, page) == OpStatus::kOutOfBounds);
  REQUIRE(pair.read(0, byte, RegionIndex(4)) == OpStatus::kOutOfBounds);
  REQUIRE(pair.read(0, byte, RegionIndex(64)) == OpStatus::kOutOfBounds);
  REQUIRE(pair.read(0, byte, RegionIndex(UINT16_MAX)) == OpStatus::kOutOfBounds);
  REQUIRE(pair.read(0, {}) == OpStatus::kOutOfBounds);
  REQUIRE(read_one(*pair.transport, PeerIndex(9), kPublishedRegion, 0, page) ==
          OpStatus::kPeerLost);
  REQUIRE(read_one(*pair.transport, PeerIndex(UINT16_MAX), kPublishedRegion, 0, page) ==
          OpStatus::kPeerLost);
  WorkRequest short_pieces = make_request(OpKind::kRead, pair.peer, kPublishedRegion, 0, page);
  short_pieces.length_bytes = 4097;
  REQUIRE(run_one(*pair.transport, short_pieces) == OpStatus::kTransportError);
  short_pieces.length_bytes = 100;
  REQUIRE(run_one(*pair.transport, short_pieces) == OpStatus::kTransportError);
  REQUIRE(
      std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0xEE}; }));
}

TEST_CASE("shm transport: accepts as many requests as it can complete, and completes each once",
          "[unit]") {
  Pair pair;
  std::vector<std::byte> memory(4096);
  const std::vector<LocalPiece> page{{memory.data(), 4096, LocalKey(0)}};
  std::vector<WorkRequest> requests;
  for (uint64_t i = 0; i < 2000; ++i) {
    requests.push_back(
        make_request(OpKind::kRead, pair.peer, kPublishedRegion, i % 1024 * 4096, page, i));
  }
  uint32_t posted = 0;
  for (;;) {
    const uint32_t count = pair.transport->post(std::span(requests).subspan(posted, 32));
    posted += count;
    if (count < 32) {
      break;
    }
  }
  REQUIRE(posted == limits::kInflightPerRail);
  std::vector<int> seen(2000);
  uint32_t completed = 0;
  Completion completions[32];
  while (pair.transport->has_work()) {
    const uint32_t count = pair.transport->poll(completions);
    for (uint32_t i = 0; i < count; ++i) {
      REQUIRE(completions[i].status == OpStatus::kOk);
      ++seen[completions[i].cookie_id];
    }
    completed += count;
    pair.transport->check_invariants();
  }
  REQUIRE(completed == posted);
  REQUIRE(std::count(seen.begin(), seen.end(), 1) == static_cast<long>(posted));
}

TEST_CASE("shm transport: a fence ends what is queued for the peer and nothing else", "[unit]") {
  Pair pair;
  pair.a.endpoint->map_self(PeerIndex(0));
  std::vector<std::byte> theirs(1 << 20), own(4096), large(4 << 20);
  const std::vector<LocalPiece> theirs_piece{{theirs.data(), 1 << 20, LocalKey(0)}};
  const std::vector<LocalPiece> own_piece{{own.data(), 4096, LocalKey(0)}};
  const std::vector<LocalPiece> large_piece{{large.data(), 4 << 20, LocalKey(0)}};
  const WorkRequest requests[] = {
      make_request(OpKind::kRead, pair.peer, kPublishedRegion, 0, large_piece, 1),
      make_request(OpKind::kRead, PeerIndex(0), kPublishedRegion, 0, own_piece, 2),
      make_request(OpKind::kRead, pair.peer, kPublishedRegion, 0, theirs_piece, 3)};
  REQUIRE(pair.transport->post(requests) == 3);
  Completion completions[8];
  REQUIRE(pair.transport->poll(completions) == 0);  // half of the large one
  pair.transport->fence(pair.peer);
  std::fill(large.begin(), large.end(), std::byte{0xEE});
  REQUIRE(pair.transport->poll(completions) == 3);
  REQUIRE(completions[0].status == OpStatus::kFlushed);
  REQUIRE(completions[1].status == OpStatus::kOk);
  REQUIRE(completions[2].status == OpStatus::kFlushed);
  REQUIRE(
      std::all_of(large.begin(), large.end(), [](std::byte b) { return b == std::byte{0xEE}; }));
  REQUIRE(count_wrong(region_key(1), own.data(), own.size()) == 0);
}

TEST_CASE("shm transport: a peer that goes in the middle of a copy ends it as lost", "[unit]") {
  Pair pair(17_MiB);
  std::vector<std::byte> memory(16 << 20);
  const std::vector<LocalPiece> piece{{memory.data(), 16 << 20, LocalKey(0)}};
  const WorkRequest request = make_request(OpKind::kRead, pair.peer, kPublishedRegion, 0, piece, 1);
  REQUIRE(pair.transport->post({&request, 1}) == 1);
  Completion completions[8];
  REQUIRE(pair.transport->poll(completions) == 0);
  REQUIRE(pair.transport->reaches(pair.peer));
  pair.b.endpoint.reset();
  pair.b.published.reset();
  REQUIRE(pair.transport->poll(completions) ==
          0);  // nobody has noticed yet; the bytes are still there
  REQUIRE(run_until({pair.a.endpoint.get()}, Nanos(1),
                    [&] { return pair.a.listener.down.size() == 1; }));
  REQUIRE(pair.transport->poll(completions) == 1);
  REQUIRE(completions[0].status == OpStatus::kPeerLost);
  REQUIRE_FALSE(pair.transport->reaches(pair.peer));
  REQUIRE(run_until({pair.a.endpoint.get()}, Nanos(1),
                    [&] { return !pair.a.endpoint->table().has_retired(); }));
  REQUIRE(pair.a.endpoint->counters().unmapping_bytes.value() == 0);
}

TEST_CASE("shm lookup: finds what the owner's table holds, for thousands of keys in several turns",
          "[unit]") {
  Pair pair;
  auto* buckets = reinterpret_cast<Bucket*>(pair.b.directory->data());
  std::vector<Key128> keys;
  for (uint64_t i = 0; i < 1500; ++i) {
    keys.push_back(Key128{i * 0x9E3779B97F4A7C15 + 1, i});
  }
  size_t stored = 0;
  std::vector<uint32_t> expected(keys.size());
  for (size_t i = 0; i < keys.size(); i += 2) {
    Location location{};
    location.key = keys[i];
    location.node = NodeId(2);
    location.sequence = Sequence(i + 1);
    location.length_bytes = static_cast<uint32_t>(i + 1);
    seal(location);
    Bucket& bucket = buckets[candidate_buckets(keys[i], kBucketCount).first_index];
    for (Location& record : bucket.records) {
      if (is_empty(record)) {
        record = location;
        expected[i] = 1;
        ++stored;
        break;
      }
    }
  }
  REQUIRE(stored > 500);
  std::vector<LookupResult> results(keys.size());
  const LookupBatch batch{keys.data(), results.data(), static_cast<uint32_t>(keys.size())};
  WorkRequest request{};
  request.cookie_id = 1;
  request.kind = OpKind::kLookup;
  request.lookup = &batch;
  request.peer = pair.peer;
  request.region = kDirectoryRegion;
  REQUIRE(pair.transport->post({&request, 1}) == 1);
  Completion completion{};
  int polls = 0;
  while (pair.transport->poll({&completion, 1}) == 0) {
    ++polls;
    REQUIRE(polls < 10);
  }
  REQUIRE(polls == 2);
  REQUIRE(completion.status == OpStatus::kOk);
  for (size_t i = 0; i < keys.size(); ++i) {
    REQUIRE(results[i].count == expected[i]);
    if (expected[i] == 1) {
      REQUIRE(results[i].locations[0].length_bytes == i + 1);
    }
  }
  request.region = kPublishedRegion;
  REQUIRE(run_one(*pair.transport, request) == OpStatus::kOutOfBounds);
  request.region = kDirectoryRegion;
  request.peer = PeerIndex(99);
  REQUIRE(run_one(*pair.transport, request) == OpStatus::kPeerLost);
}

TEST_CASE("shm transport: own regions are read and written like a peer's", "[unit]") {
  Pair pair;
  const PeerIndex self(0);
  pair.a.endpoint->map_self(self);
  std::vector<std::byte> memory(1 << 20);
  const std::vector<LocalPiece> pieces{{memory.data(), 1000, LocalKey(0)},
                                       {memory.data() + 2000, 40000, LocalKey(0)}};
  REQUIRE(read_one(*pair.transport, self, kPublishedRegion, 0, pieces) == OpStatus::kOk);
  REQUIRE(count_wrong(region_key(1), memory.data(), 1000) == 0);
  REQUIRE(run_one(*pair.transport, make_request(OpKind::kWrite, self, kWritableRegion, 77,
                                                pieces)) == OpStatus::kOk);
  REQUIRE(std::equal(memory.data(), memory.data() + 1000, pair.a.writable->data() + 77));
  REQUIRE(std::equal(memory.data() + 2000, memory.data() + 42000, pair.a.writable->data() + 1077));
  REQUIRE(run_one(*pair.transport, make_request(OpKind::kWrite, self, kPublishedRegion, 0,
                                                pieces)) == OpStatus::kOutOfBounds);
}

}  // namespace
}  // namespace peercache
