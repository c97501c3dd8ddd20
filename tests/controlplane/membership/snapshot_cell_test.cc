#include "controlplane/membership/snapshot_cell.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "controlplane/directory/hash_ring.h"
#include "controlplane/membership/view.h"

namespace peercache {
namespace {

TEST_CASE("snapshot_cell: gives what was set last, and what was taken stays", "[unit]") {
  SnapshotCell<int> cell;
  REQUIRE(cell.get() == nullptr);
  cell.set(std::make_shared<const int>(1));
  const std::shared_ptr<const int> old = cell.get();
  cell.set(std::make_shared<const int>(2));
  REQUIRE(*old == 1);
  REQUIRE(*cell.get() == 2);
  REQUIRE(cell.retained_count() == 0);
  REQUIRE(old.use_count() == 1);
}

/// A view and the ring made from it: a reader that mixed two of them would index past an end.
struct Snapshot {
  View view;
  HashRing ring;
};

std::shared_ptr<const Snapshot> snapshot_of(uint64_t epoch) {
  // 1 to 64 holders, so that the index of one snapshot is often out of range in the next.
  std::vector<Member> members(1 + epoch % 64);
  std::vector<std::string> names;
  for (size_t i = 0; i < members.size(); ++i) {
    members[i].control_address = "n" + std::to_string(i) + ":1";
    members[i].node = NodeId(epoch * 1000 + i + 1);
    names.push_back(members[i].control_address);
  }
  return std::make_shared<const Snapshot>(
      Snapshot{View(Epoch(epoch), std::move(members)), *HashRing::make(names, 16)});
}

// a ring that is cleared and refilled under its readers gave 51,058 failed look-ups in
// 642,976.
TEST_CASE("snapshot_cell: readers always see a whole ring of one epoch (X-19)", "[unit]") {
  constexpr uint64_t kEpochs = 2000;
  SnapshotCell<Snapshot> cell(snapshot_of(0));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> lookups_count{0};
  std::atomic<uint64_t> wrong_count{0};
  std::vector<std::thread> readers;
  for (uint64_t r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      Key128 key{r, 0};
      uint64_t epoch_last = 0;
      uint64_t done_count = 0;
      uint64_t bad_count = 0;
      // Relaxed throughout: the test joins before it looks at counts.
      while (!stop.load(std::memory_order_relaxed) || done_count == 0) {
        const std::shared_ptr<const Snapshot> now = cell.get();
        const uint64_t epoch = now->view.epoch().value();
        if (epoch < epoch_last) ++bad_count;  // time goes forward for each reader
        epoch_last = epoch;
        for (int i = 0; i < 16; ++i) {
          key.high += 0x9e3779b97f4a7c15ULL;
          HashRing::Owners owners{};
          const uint32_t count = now->ring.owners(key, 2, owners);
          if (count != std::min<size_t>(2, now->view.members().size())) ++bad_count;
          for (uint32_t o = 0; o < count; ++o) {
            if (owners[o] >= now->view.members().size() ||
                now->view.members()[owners[o]].node != NodeId(epoch * 1000 + owners[o] + 1)) {
              ++bad_count;
            }
          }
        }
        ++done_count;
      }
      lookups_count.fetch_add(done_count * 16, std::memory_order_relaxed);
      wrong_count.fetch_add(bad_count, std::memory_order_relaxed);
    });
  }
  for (uint64_t epoch = 1; epoch <= kEpochs; ++epoch) cell.set(snapshot_of(epoch));
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& reader : readers) reader.join();
  REQUIRE(lookups_count.load(std::memory_order_relaxed) > 0);
  REQUIRE(wrong_count.load(std::memory_order_relaxed) == 0);
  cell.set(snapshot_of(kEpochs + 1));
  REQUIRE(cell.retained_count() == 0);
}

}  // namespace
}  // namespace peercache
