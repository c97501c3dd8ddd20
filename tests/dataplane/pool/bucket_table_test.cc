#include "dataplane/pool/bucket_table.h"

#include <map>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

struct Table {
  explicit Table(uint64_t bucket_count) : buckets(bucket_count), table(open(buckets)) {}

  static BucketTable open(std::vector<Bucket>& buckets) {
    return BucketTable::open(reinterpret_cast<std::byte*>(buckets.data()),
                             Bytes(buckets.size() * sizeof(Bucket)))
        .value();
  }

  LookupResult find(const Key128& key) const {
    LookupResult result;
    table.find(&key, &result, 1);
    return result;
  }

  std::vector<Bucket> buckets;
  BucketTable table;
};

Location record(uint64_t key, uint64_t node, uint64_t sequence) {
  Location location{};
  location.key = Key128{.low = key, .high = ~key};
  location.node = NodeId(node);
  location.sequence = Sequence(sequence);
  location.slot = SlotIndex(static_cast<uint32_t>(sequence));
  location.generation = Generation(1);
  location.length_bytes = 1;
  seal(location);
  return location;
}

using Outcome = BucketTable::InsertOutcome;

TEST_CASE("bucket table: memory that is no array of buckets is refused", "[unit]") {
  std::vector<Bucket> buckets(2);
  auto* bytes = reinterpret_cast<std::byte*>(buckets.data());
  REQUIRE(BucketTable::open(nullptr, Bytes(256)).error().code == Errc::kInvalidArgument);
  REQUIRE(BucketTable::open(bytes, Bytes(0)).error().code == Errc::kInvalidArgument);
  REQUIRE(BucketTable::open(bytes, Bytes(300)).error().code == Errc::kInvalidArgument);
}

TEST_CASE("bucket table: a newer record of the same node replaces, an older one does nothing",
          "[unit]") {
  Table t(8);
  REQUIRE(t.table.insert(record(1, 1, 10)).outcome == Outcome::kInserted);
  const auto replaced = t.table.insert(record(1, 1, 12));
  REQUIRE(replaced.outcome == Outcome::kReplaced);
  REQUIRE(replaced.dropped.sequence == Sequence(10));
  REQUIRE(t.table.insert(record(1, 1, 11)).outcome == Outcome::kStaleSequence);
  REQUIRE(t.table.insert(record(1, 1, 12)).outcome == Outcome::kReplaced);  // the same once more
  REQUIRE(t.find(record(1, 1, 1).key).locations[0].sequence == Sequence(12));
  REQUIRE(t.table.record_count() == 1);
  t.table.check_invariants();
}

TEST_CASE("bucket table: up to three nodes per key; a fourth takes the oldest's place", "[unit]") {
  Table t(8);
  for (uint64_t node = 1; node <= 3; ++node) {
    REQUIRE(t.table.insert(record(1, node, 10 * node)).outcome == Outcome::kInserted);
  }
  const auto fourth = t.table.insert(record(1, 4, 25));
  REQUIRE(fourth.outcome == Outcome::kDroppedOldest);
  REQUIRE(fourth.dropped.node == NodeId(1));
  const LookupResult found = t.find(record(1, 1, 1).key);
  REQUIRE(found.count == 3);
  REQUIRE(found.locations[0].node == NodeId(3));
  REQUIRE(found.locations[1].node == NodeId(4));
  REQUIRE(found.locations[2].node == NodeId(2));
  t.table.check_invariants();
}

TEST_CASE("bucket table: when both buckets are full the oldest of the eight goes", "[unit]") {
  Table t(2);
  uint64_t key = 0;
  std::vector<uint64_t> held;
  BucketTable::Insert last{};
  while (true) {
    ++key;
    last = t.table.insert(record(key, 1, 1000 + key));
    if (last.outcome == Outcome::kDroppedOldest) {
      break;
    }
    held.push_back(key);
  }
  REQUIRE(t.find(last.dropped.key).count == 0);
  REQUIRE(t.find(record(key, 1, 1).key).count == 1);
  REQUIRE(t.table.record_count() == held.size());
  t.table.check_invariants();
}

TEST_CASE("bucket table: erase takes exactly the record that is named", "[unit]") {
  Table t(8);
  const Location kept = record(1, 1, 10);
  t.table.insert(kept);
  for (const auto change :
       {+[](Location& l) { l.node = NodeId(2); }, +[](Location& l) { l.slot = SlotIndex(99); },
        +[](Location& l) { l.generation = Generation(2); },
        +[](Location& l) { l.sequence = Sequence(9); }}) {
    Location other = kept;
    change(other);
    REQUIRE_FALSE(t.table.erase(other));
  }
  REQUIRE(t.table.erase(kept));
  REQUIRE_FALSE(t.table.erase(kept));
  REQUIRE(t.table.record_count() == 0);
  t.table.insert(record(1, 1, 10));
  t.table.insert(record(2, 1, 11));
  REQUIRE(t.table.erase_if([](const Location& l) { return l.key.low == 2; }) == 1);
  REQUIRE(t.table.record_count() == 1);
}

TEST_CASE("bucket table: behaves like a map, except for what it says it dropped", "[unit]") {
  const uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Table t(40);  // 160 records for up to 130 keys
  std::map<std::pair<uint64_t, uint64_t>, Location> model;
  for (uint64_t sequence = 1; sequence < 20000; ++sequence) {
    const uint64_t key = random() % 130 + 1;
    const uint64_t node = random() % 2 + 1;
    const auto at = model.find({key, node});
    if (random() % 3 == 0) {
      const Location absent = record(key, node, 1 << 30U);
      REQUIRE(t.table.erase(at != model.end() ? at->second : absent) == (at != model.end()));
      if (at != model.end()) {
        model.erase(at);
      }
    } else {
      const Location location = record(key, node, sequence);
      const auto insert = t.table.insert(location);
      REQUIRE((insert.outcome == Outcome::kReplaced) == (at != model.end()));
      if (insert.outcome == Outcome::kDroppedOldest) {
        REQUIRE(model.erase({insert.dropped.key.low, insert.dropped.node.value()}) == 1);
      }
      model[{key, node}] = location;
    }
    REQUIRE(t.table.record_count() == model.size());
  }
  t.table.check_invariants();
  for (const auto& [name, location] : model) {
    const LookupResult found = t.find(location.key);
    uint32_t match_count = 0;
    for (uint32_t i = 0; i < found.count; ++i) {
      match_count += found.locations[i].sequence == location.sequence ? 1 : 0;
    }
    REQUIRE(match_count == 1);
  }
}

TEST_CASE("bucket table: at a load of 0.6 few inserts find both buckets full", "[unit]") {
  std::mt19937_64 random(7);
  Table t(10000);
  uint32_t dropped_count = 0;
  for (uint64_t i = 1; i <= 24000; ++i) {
    Location location = record(1, 1, i);
    location.key = Key128{.low = random(), .high = random()};
    seal(location);
    dropped_count += t.table.insert(location).outcome == Outcome::kDroppedOldest ? 1 : 0;
  }
  REQUIRE(dropped_count <= 8);  // 0.035 % of 24,000
}

}  // namespace
}  // namespace peercache
