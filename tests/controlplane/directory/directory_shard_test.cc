#include "controlplane/directory/directory_shard.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/controlplane/directory/directory_samples.h"

namespace peercache {
namespace {

using test::key_of;
using test::member;
using test::record;
using test::TableMemory;
using test::view_of;
using Outcomes = std::vector<UpdateOutcome>;

/// A shard, and updates from nodes of incarnation 10 × node.
class Bench {
 public:
  explicit Bench(uint64_t objects_count = 1000)
      : memory(DirectoryShard::bytes_for(objects_count, 1)),
        shard(*DirectoryShard::open(memory.data(), memory.length())),
        view(view_of({member(1, 10), member(2, 20), member(3, 30), member(4, 40)})) {}

  Outcomes update(uint64_t node, std::vector<Location> deletes, std::vector<Location> puts) {
    const DirectoryUpdateMessage message{
        NodeId(node),       Incarnation(static_cast<uint32_t>(10 * node)),
        Epoch(1),           ++update_id,
        std::move(deletes), std::move(puts)};
    const DirectoryUpdateReplyMessage reply = shard.apply(message, view);
    REQUIRE(reply.update_id == message.update_id);
    shard.check_invariants();
    return reply.outcomes;
  }
  std::vector<Location> find(uint64_t key) {
    const Key128 wanted = key_of(key);
    return shard.lookup({&wanted, 1}, view).locations;
  }

  TableMemory memory;
  DirectoryShard shard;
  View view;
  uint64_t update_id = 0;
};

TEST_CASE("directory_shard: sized for a load of at most 0.6", "[unit]") {
  REQUIRE(DirectoryShard::bytes_for(0, 2) == 4_KiB);
  const uint64_t bytes = DirectoryShard::bytes_for(1'000'000, 2).value();
  REQUIRE(bytes >= 2'000'000 * 64 * 10 / 6);
  REQUIRE(bytes <= 214 * 1'000'000);
  REQUIRE(bytes % 4096 == 0);
}

TEST_CASE("directory_shard: a put is found, a newer one replaces it, an older one is stale",
          "[unit]") {
  Bench bench;
  REQUIRE(bench.update(1, {}, {record(5, 1, 10, 100)}) == Outcomes{UpdateOutcome::kApplied});
  REQUIRE(bench.update(1, {}, {record(5, 1, 10, 102)}) == Outcomes{UpdateOutcome::kApplied});
  REQUIRE(bench.update(1, {}, {record(5, 1, 10, 101)}) == Outcomes{UpdateOutcome::kStaleSequence});
  const auto found = bench.find(5);
  REQUIRE(found.size() == 1);
  REQUIRE(found[0].sequence == Sequence(102));
  REQUIRE(bench.shard.stats().records_count == 1);
  REQUIRE(bench.shard.stats().stale_count == 1);
}

TEST_CASE("directory_shard: two nodes hold the same key, newest first", "[unit]") {
  Bench bench;
  bench.update(1, {}, {record(5, 1, 10, 100)});
  bench.update(2, {}, {record(5, 2, 20, 200)});
  bench.update(3, {}, {record(5, 3, 30, 150)});
  const auto found = bench.find(5);
  REQUIRE(found.size() == 3);
  REQUIRE(found[0].node == NodeId(2));
  REQUIRE(found[1].node == NodeId(3));
  REQUIRE(found[2].node == NodeId(1));
}

TEST_CASE("directory_shard: a delete takes exactly the life it names", "[unit]") {
  Bench bench;
  const Location life = record(5, 1, 10, 100);
  bench.update(1, {}, {life});
  for (auto change : {+[](Location& l) { l.slot = SlotIndex(9); },
                      +[](Location& l) { l.generation = Generation(9); },
                      +[](Location& l) { l.sequence = Sequence(9); }}) {
    Location other = life;
    change(other);
    seal(other);
    REQUIRE(bench.update(1, {other}, {}) == Outcomes{UpdateOutcome::kNotFound});
  }
  REQUIRE(bench.find(5).size() == 1);
  REQUIRE(bench.update(1, {life}, {}) == Outcomes{UpdateOutcome::kApplied});
  REQUIRE(bench.find(5).empty());
  REQUIRE(bench.update(1, {life}, {}) == Outcomes{UpdateOutcome::kNotFound});
}

TEST_CASE("directory_shard: deletes go before puts", "[unit]") {
  Bench bench;
  bench.update(1, {}, {record(5, 1, 10, 100)});
  REQUIRE(bench.update(1, {record(5, 1, 10, 100)}, {record(5, 1, 10, 101)}) ==
          Outcomes{UpdateOutcome::kApplied, UpdateOutcome::kApplied});
  REQUIRE(bench.find(5)[0].sequence == Sequence(101));
}

TEST_CASE("directory_shard: nobody puts or deletes for a node that lives", "[unit]") {
  Bench bench;
  bench.update(1, {}, {record(5, 1, 10, 100)});
  REQUIRE(bench.update(2, {record(5, 1, 10, 100)}, {record(6, 1, 10, 100)}) ==
          Outcomes{UpdateOutcome::kNotOwner, UpdateOutcome::kNotOwner});
  // Its own node, but another incarnation.
  REQUIRE(bench.update(1, {}, {record(6, 1, 11, 100)}) == Outcomes{UpdateOutcome::kNotOwner});
  REQUIRE(bench.find(5).size() == 1);
  REQUIRE(bench.find(6).empty());
  REQUIRE(bench.shard.stats().refused_count == 3);
}

TEST_CASE("directory_shard: anybody may delete a dead node's record", "[unit]") {
  Bench bench;
  const Location life = record(5, 1, 10, 100);
  bench.update(1, {}, {life});
  bench.view = view_of({member(1, 10, MemberState::kDown), member(2, 20)});
  REQUIRE(bench.update(2, {life}, {}) == Outcomes{UpdateOutcome::kApplied});
}

TEST_CASE("directory_shard: who is not in the view, or in another incarnation, changes nothing",
          "[unit]") {
  Bench bench;
  REQUIRE(bench.update(9, {}, {record(5, 9, 90, 1)}) == Outcomes{UpdateOutcome::kUnknownSender});
  bench.view = view_of({member(1, 11)});
  REQUIRE(bench.update(1, {}, {record(5, 1, 10, 1)}) == Outcomes{UpdateOutcome::kUnknownSender});
  REQUIRE(bench.shard.stats().records_count == 0);
}

TEST_CASE("directory_shard: unsound records are refused", "[unit]") {
  Bench bench;
  Location torn = record(5, 1, 10, 100);
  torn.offset_bytes += 1;
  Location empty{};
  REQUIRE(bench.update(1, {empty}, {torn, empty}) == Outcomes{UpdateOutcome::kBadRecord,
                                                              UpdateOutcome::kBadRecord,
                                                              UpdateOutcome::kBadRecord});
}

TEST_CASE("directory_shard: an update that comes after a later one is not applied", "[unit]") {
  Bench bench;
  bench.update(1, {}, {record(5, 1, 10, 100)});
  bench.update(1, {record(5, 1, 10, 100)}, {});
  bench.update_id = 0;  // the first one again, from a connection that was thought to be dead
  REQUIRE(bench.update(1, {}, {record(5, 1, 10, 100)}) == Outcomes{UpdateOutcome::kStaleUpdate});
  REQUIRE(bench.find(5).empty());
  bench.update_id = 1;
  REQUIRE(bench.update(1, {}, {record(6, 1, 10, 100)}) == Outcomes{UpdateOutcome::kApplied});
  // A new incarnation counts anew.
  bench.view = view_of({member(1, 11)});
  const DirectoryUpdateMessage fresh{NodeId(1), Incarnation(11),        Epoch(2), 1,
                                     {},        {record(7, 1, 11, 200)}};
  REQUIRE(bench.shard.apply(fresh, bench.view).outcomes == Outcomes{UpdateOutcome::kApplied});
}

TEST_CASE("directory_shard: a record that a reader found missing goes, a newer life stays",
          "[unit]") {
  Bench bench;
  const Location old = record(5, 1, 10, 100);
  bench.update(1, {}, {old, record(6, 1, 10, 100)});
  bench.update(1, {}, {record(5, 1, 10, 101)});
  const std::vector<Location> reported{old, record(6, 1, 10, 100), Location{}};
  REQUIRE(bench.shard.report_missing(reported) == 1);
  REQUIRE(bench.find(5).size() == 1);
  REQUIRE(bench.find(6).empty());
  REQUIRE(bench.shard.stats().reported_count == 1);
}

// a dead producer's keys were hits for ever, and nobody could publish them again.
TEST_CASE(
    "directory_shard: a dead producer's records are misses at once and can be put again (X-9)",
    "[unit]") {
  Bench bench;
  std::vector<Location> published;
  for (uint64_t key = 0; key < 32; ++key) published.push_back(record(key, 1, 10, 100 + key));
  bench.update(1, {}, published);
  for (uint64_t key = 0; key < 32; ++key) REQUIRE(bench.find(key).size() == 1);

  SECTION("it went down") {
    bench.view = view_of({member(1, 10, MemberState::kDown), member(2, 20)});
  }
  SECTION("it came back as another incarnation") {
    bench.view = view_of({member(1, 11), member(2, 20)});
  }
  // Before anything was purged.
  for (uint64_t key = 0; key < 32; ++key) REQUIRE(bench.find(key).empty());
  std::vector<Location> again;
  for (uint64_t key = 0; key < 32; ++key) again.push_back(record(key, 2, 20, 50 + key));
  for (const UpdateOutcome outcome : bench.update(2, {}, again)) {
    REQUIRE(outcome == UpdateOutcome::kApplied);
  }
  for (uint64_t key = 0; key < 32; ++key) {
    REQUIRE(bench.find(key).size() == 1);
    REQUIRE(bench.find(key)[0].node == NodeId(2));
  }
  bench.shard.purge(NodeId(1), Incarnation(10));
  while (bench.shard.purge_step(7)) {
  }
  REQUIRE(bench.shard.stats().records_count == 32);
  REQUIRE(bench.shard.stats().purged_count == 32);
  REQUIRE(bench.shard.purged_count(NodeId(1)) == 1);
}

TEST_CASE("directory_shard: a purge ends when its node turns out to live", "[unit]") {
  Bench bench;
  bench.update(1, {}, {record(1, 1, 10, 100), record(2, 1, 10, 100)});
  bench.shard.purge(NodeId(1), Incarnation(10));
  REQUIRE(bench.shard.purging());
  REQUIRE(bench.shard.purged_count(NodeId(1)) == 0);
  // Some records may have gone: the node sees another count and publishes again.
  bench.update(1, {}, {record(3, 1, 10, 100)});
  REQUIRE_FALSE(bench.shard.purging());
  REQUIRE(bench.shard.purged_count(NodeId(1)) == 1);
  REQUIRE_FALSE(bench.shard.purge_step(1 << 20));
  REQUIRE(bench.find(3).size() == 1);
}

TEST_CASE("directory_shard: when both buckets are full the oldest goes and is counted", "[unit]") {
  Bench bench(0);  // one page: 16 buckets
  uint64_t dropped_count = 0;
  for (uint64_t key = 0; key < 200; ++key) {
    const Outcomes outcomes = bench.update(1, {}, {record(key, 1, 10, 1000 + key)});
    if (outcomes[0] == UpdateOutcome::kAppliedDropped) ++dropped_count;
    REQUIRE(bench.find(key).size() == 1);
  }
  REQUIRE(dropped_count > 100);
  REQUIRE(bench.shard.stats().dropped_count == dropped_count);
  REQUIRE(bench.shard.stats().records_count == 200 - dropped_count);
}

TEST_CASE("directory_shard: at its design load next to nothing overflows", "[unit]") {
  constexpr uint64_t kObjects = 20'000;
  Bench bench(kObjects);
  std::vector<Location> batch;
  for (uint64_t key = 0; key < kObjects; ++key) {
    batch.push_back(record(key, 1, 10, 1000 + key));
    if (batch.size() == 1000) {
      bench.update(1, {}, std::exchange(batch, {}));
    }
  }
  // 0.035 % expected: 7.
  REQUIRE(bench.shard.stats().dropped_count < 40);
}

/// A shard beside a plain map that obeys the same rules.
class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {}

  void step() {
    const uint64_t node = 1 + random_() % 3;
    const uint64_t key = random_() % kKeys;
    const uint64_t dice = random_() % 100;
    if (dice < 50) {
      put(key, node);
    } else if (dice >= 99) {
      restart(node);
    } else if (const auto held = records_.find({key, node}); held != records_.end()) {
      if (dice < 75) {
        erase(node, held->second, true);
      } else if (dice < 87) {
        // Somebody else's delete: only if the record's incarnation is dead.
        erase(node % 3 + 1, held->second, is_dead(held->second));
      } else {
        const Location missing = held->second;
        REQUIRE(bench_.shard.report_missing({&missing, 1}) == 1);
        records_.erase(held);
      }
    }
    if (bench_.shard.purging()) purge_some();
    compare(random_() % kKeys);
  }

  void compare_all() {
    for (uint64_t key = 0; key < kKeys; ++key) compare(key);
    bench_.shard.check_invariants();
    // Records of dead incarnations may still lie there.
    REQUIRE(bench_.shard.stats().records_count == records_.size());
  }

 private:
  static constexpr uint64_t kKeys = 300;

  bool is_dead(const Location& location) const {
    return incarnations_.at(location.node.value()) != location.incarnation.value();
  }

  UpdateOutcome apply(uint64_t node, std::vector<Location> deletes, std::vector<Location> puts) {
    const DirectoryUpdateMessage update{NodeId(node),       Incarnation(incarnations_[node]),
                                        Epoch(1),           ++update_id_,
                                        std::move(deletes), std::move(puts)};
    return bench_.shard.apply(update, bench_.view).outcomes.at(0);
  }

  void put(uint64_t key, uint64_t node) {
    const Location fresh = record(key, node, incarnations_[node], ++sequence_);
    REQUIRE(apply(node, {}, {fresh}) == UpdateOutcome::kApplied);
    records_.insert_or_assign({key, node}, fresh);
  }

  void erase(uint64_t sender, Location location, bool allowed) {
    REQUIRE(apply(sender, {location}, {}) ==
            (allowed ? UpdateOutcome::kApplied : UpdateOutcome::kNotOwner));
    if (allowed) records_.erase({location.slot.value(), location.node.value()});
  }

  void restart(uint64_t node) {
    const Incarnation old(incarnations_[node]++);
    bench_.view = view_of(
        {member(1, incarnations_[1]), member(2, incarnations_[2]), member(3, incarnations_[3])});
    bench_.shard.purge(NodeId(node), old);
  }

  /// A part of the table; what has gone from it goes from the model.
  void purge_some() {
    bench_.shard.purge_step(1 + random_() % 300);
    std::erase_if(records_, [&](const auto& entry) {
      if (!is_dead(entry.second)) return false;
      LookupResult found;
      bench_.shard.table().find(&entry.second.key, &found, 1);
      const auto end = found.locations.begin() + found.count;
      return std::none_of(found.locations.begin(), end, [&](const Location& location) {
        return same_bytes(location, entry.second);
      });
    });
  }

  void compare(uint64_t key) {
    std::vector<Location> wanted;
    for (uint64_t node = 1; node <= 3; ++node) {
      const auto found = records_.find({key, node});
      if (found != records_.end() && !is_dead(found->second)) wanted.push_back(found->second);
    }
    std::sort(wanted.begin(), wanted.end(),
              [](const Location& a, const Location& b) { return a.sequence > b.sequence; });
    REQUIRE(same_bytes(bench_.find(key), wanted));
  }

  std::mt19937_64 random_;
  Bench bench_{4000};  // roomy: nothing is dropped
  /// (key, node) -> record; of dead incarnations too, until they are purged
  std::map<std::pair<uint64_t, uint64_t>, Location> records_;
  std::map<uint64_t, uint32_t> incarnations_{{1, 10}, {2, 20}, {3, 30}};
  uint64_t sequence_ = 0;
  uint64_t update_id_ = 0;
};

TEST_CASE("directory_shard: a random history leaves what a plain map says", "[unit]") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    INFO("seed " << seed);
    Model model(seed);
    for (int round = 0; round < 3000; ++round) model.step();
    model.compare_all();
  }
}

}  // namespace
}  // namespace peercache
