#include "dataplane/transport/shm/shm_peer_table.h"

#include <atomic>
#include <memory>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/base/ordering.h"

namespace peercache {
namespace {

constexpr RegionIndex kRegion{7};

std::unique_ptr<ShmPeerMapping> make_mapping(size_t bytes, int value) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(data != MAP_FAILED);
  auto* first = static_cast<std::byte*>(data);
  *first = static_cast<std::byte>(value);
  auto mapping = std::make_unique<ShmPeerMapping>();
  mapping->mappings.emplace_back(MappedRange{first, bytes});
  mapping->mapped_bytes = bytes;
  ShmRegionView& view = mapping->regions[kRegion.value()];
  view.data = first;
  view.descriptor.length_bytes = bytes;
  view.descriptor.kind = RegionKind::kPublished;
  return mapping;
}

TEST_CASE("shm table: a peer is found from publish to retire", "[unit]") {
  ShmEpochWord word;
  ShmPeerTable table;
  table.add_user(word);
  const PeerIndex peer(4);
  REQUIRE_FALSE(table.reaches(peer));
  REQUIRE_FALSE(table.reaches(PeerIndex(UINT16_MAX)));
  table.publish(peer, make_mapping(8192, 1));
  REQUIRE(table.reaches(peer));
  REQUIRE(table.mapped_bytes() == 8192);
  {
    const ShmPin pin(table, word);
    const ShmPeerMapping* mapping = pin.find(peer);
    REQUIRE(mapping != nullptr);
    REQUIRE(mapping->find(kRegion) != nullptr);
    REQUIRE(mapping->find(RegionIndex(8)) == nullptr);
    REQUIRE(mapping->find(RegionIndex(UINT16_MAX)) == nullptr);
    REQUIRE(pin.find(PeerIndex(5)) == nullptr);
    REQUIRE(pin.find(PeerIndex(UINT16_MAX)) == nullptr);
  }
  table.retire(peer);
  table.retire(peer);
  table.retire(PeerIndex(UINT16_MAX));
  REQUIRE_FALSE(table.reaches(peer));
  table.check_invariants();
  REQUIRE(table.reclaim(1_GiB) == 8192);
  table.check_invariants();
}

TEST_CASE("shm table: memory stays mapped while somebody entered before it was retired", "[unit]") {
  ShmEpochWord early, late;
  ShmPeerTable table;
  table.add_user(early);
  table.add_user(late);
  const PeerIndex peer(0);
  table.publish(peer, make_mapping(4096, 42));
  auto pin = std::make_unique<ShmPin>(table, early);
  const ShmPeerMapping* mapping = pin->find(peer);
  table.retire(peer);
  REQUIRE(table.mapped_bytes() == 0);
  REQUIRE(table.pending_bytes() == 4096);
  REQUIRE(table.reclaim(1_GiB) == 0);
  REQUIRE(*mapping->find(kRegion)->data == std::byte{42});
  {
    const ShmPin after(table, late);  // entered after: cannot have it, does not hold it
    REQUIRE(after.find(peer) == nullptr);
    pin.reset();
    REQUIRE(table.reclaim(1_GiB) == 4096);
  }
  REQUIRE(table.pending_bytes() == 0);
  REQUIRE_FALSE(table.has_retired());
}

TEST_CASE("shm table: large memory is unmapped in steps", "[unit]") {
  ShmPeerTable table;
  table.publish(PeerIndex(1), make_mapping(9 << 20, 1));
  table.publish(PeerIndex(2), make_mapping(1 << 20, 1));
  table.retire(PeerIndex(1));
  table.retire(PeerIndex(2));
  uint64_t freed = 0;
  int steps = 0;
  while (table.has_retired()) {
    const uint64_t step = table.reclaim(4_MiB);
    REQUIRE(step != 0);
    REQUIRE(step <= 6U << 20);
    freed += step;
    ++steps;
    table.check_invariants();
  }
  REQUIRE(freed == 10U << 20);
  REQUIRE(steps >= 3);
}

TEST_CASE("shm table: readers never touch unmapped memory while peers come and go", "[unit]") {
  constexpr int kReaders = 3;
  constexpr uint16_t kPeers = 4;
  ShmEpochWord words[kReaders];
  ShmPeerTable table;
  for (ShmEpochWord& word : words) {
    table.add_user(word);
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (ShmEpochWord& word : words) {
    readers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const ShmPin pin(table, word);
        for (uint16_t peer = 0; peer < kPeers; ++peer) {
          const ShmPeerMapping* mapping = pin.find(PeerIndex(peer));
          if (mapping != nullptr) {
            // A fault here is the failure of this test.
            wrong += mapping->find(kRegion)->data[0] == static_cast<std::byte>(peer + 1) ? 0 : 1;
            hits.fetch_add(1, std::memory_order_relaxed);
          }
        }
      }
    });
  }
  uint64_t reclaimed = 0;
  for (int round = 0; round < 3000 || (hits.load() < 1000 && round < 1000000); ++round) {
    const PeerIndex peer(static_cast<uint16_t>(round % kPeers));
    if (table.reaches(peer)) {
      table.retire(peer);
    } else {
      table.publish(peer, make_mapping(4096, peer.value() + 1));
    }
    reclaimed += table.reclaim(1_MiB);
  }
  stop = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
  for (uint16_t peer = 0; peer < kPeers; ++peer) {
    table.retire(PeerIndex(peer));
  }
  table.reclaim(1_GiB);
  REQUIRE_FALSE(table.has_retired());
  REQUIRE(reclaimed > 0);
  REQUIRE(wrong == 0);
  table.check_invariants();
}

}  // namespace
}  // namespace peercache
