// The pool against a model without cleverness, stepped in one thread from a printed seed.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/dataplane/pool/pool_harness.h"

namespace peercache {
namespace {

using test::key_of;
using test::PoolHarness;
using test::small_options;

struct Plan {
  uint64_t pool_bytes;
  uint32_t client_count;
  std::vector<uint32_t> lengths;
  uint64_t group_count;
  int step_count;
  bool has_room = false;
};

/// One run: random calls of several clients, the agent's turns in between, and after every turn all
/// rules.
class Run {
 public:
  Run(const Plan& plan, uint64_t seed)
      : plan_(plan), random_(seed), pool_(plan.pool_bytes, small_options(plan.client_count)) {}

  void go() {
    for (int i = 0; i < plan_.step_count; ++i) {
      act();
      if (random_() % 3 != 0) {
        turn();
      }
      read_somewhere();
    }
    for (const Held& held : held_) {
      pool_.client(held.client).abandon(held.grant);
    }
    held_.clear();
    turn();
    turn();
    REQUIRE(resident_.size() == pool_.stats().objects_count);
    REQUIRE(stored_count_ > 0);
    REQUIRE((evicted_count_ > 0 || plan_.has_room));
  }

  uint64_t stale_count() const { return stale_count_; }
  uint64_t proven_count() const { return proven_count_; }

 private:
  struct Held {
    uint32_t client;
    SlotGrant grant;
    Generation generation;
    bool begun;
  };
  struct Object {
    Location location;
    Key128 group;
  };

  uint64_t below(uint64_t limit) { return random_() % limit; }

  // Object n of group g: key 10 g + n; chains of six groups.
  static Key128 group_key(uint64_t group) { return key_of(group * 10); }
  GroupPlace place_of(uint64_t group) const {
    return GroupPlace{.group = group_key(group),
                      .parent = group % 6 == 1 ? Key128{} : group_key(group - 1),
                      .position_index = static_cast<uint32_t>(group % 6)};
  }

  void act() {
    const auto client = static_cast<uint32_t>(below(plan_.client_count));
    switch (below(10)) {
      case 0:
        if (!held_.empty() && below(2) == 0) {
          const size_t at = below(held_.size());
          pool_.client(held_[at].client).abandon(held_[at].grant);
          held_.erase(held_.begin() + static_cast<ptrdiff_t>(at));
        }
        break;
      case 1: {
        const Key128 keys[] = {key_of(below(plan_.group_count) * 10 + 10),
                               key_of(below(plan_.group_count) * 10 + 11)};
        pool_.client(client).touch(keys);
        break;
      }
      case 2:
        if (below(4) == 0) {
          const Key128 key = key_of(below(plan_.group_count) * 10 + 10);
          removed_.insert(key);
          REQUIRE(pool_.client(client).remove(std::span(&key, 1)).has_value());
        } else if (below(50) == 0) {
          cleared_ = true;
          REQUIRE(pool_.client(client).clear().has_value());
        }
        break;
      case 3: {
        const SizeClassIndex size_class =
            pool_.class_of(plan_.lengths[below(plan_.lengths.size())]);
        pool_.client(client).announce(size_class, static_cast<uint32_t>(below(20)));
        break;
      }
      case 4:
        if (below(50) == 0) {
          pool_.clock.advance(std::chrono::seconds(6));
        }
        break;
      case 5:  // a put that is slow: begun, and finished or abandoned later
        if (held_.size() < 6) {
          hold(client);
        }
        break;
      default:
        put(client);
    }
  }

  void hold(uint32_t client) {
    const uint32_t length_bytes = plan_.lengths[below(plan_.lengths.size())];
    const auto grant = pool_.client(client).take(pool_.class_of(length_bytes));
    if (!grant) {
      return;
    }
    Held held{.client = client, .grant = *grant, .generation = {}, .begun = below(4) != 0};
    if (held.begun) {
      held.generation = pool_.fill(client, *grant, key_of(random_()), length_bytes);
    }
    held_.push_back(held);
  }

  void put(uint32_t client) {
    const uint64_t group = below(plan_.group_count) + 1;
    const uint64_t object = below(2);
    const Key128 key = key_of(group * 10 + object);
    const uint32_t length_bytes = plan_.lengths[(group + object) % plan_.lengths.size()] -
                                  static_cast<uint32_t>(below(20) == 0 ? 8 : 0);
    const auto grant = pool_.client(client).take(pool_.class_of(length_bytes));
    if (!grant) {
      REQUIRE(grant.error().code == Errc::kBusy);
      return;
    }
    const Generation generation = pool_.fill(client, *grant, key, length_bytes);
    read_somewhere();
    REQUIRE(
        pool_.publish(client, *grant, generation, key, length_bytes, place_of(group)).has_value());
    places_[key] = place_of(group);
    parents_[place_of(group).group] = place_of(group).parent;
    ++stored_count_;
    // Found at once, by the rings or by the index.
    LookupResult pending{};
    REQUIRE(pool_.pool().find_pending(&key, &pending, 1) == 1);
    REQUIRE(pool_.read(pending.locations[0]));
    ever_.push_back(pending.locations[0]);
  }

  void turn() {
    const PoolStats before = pool_.stats();
    pool_.step();
    const PoolStats after = pool_.stats();
    if (after.evicted_count > before.evicted_count &&
        after.index_dropped_count == before.index_dropped_count) {
      REQUIRE(after.refills_count > before.refills_count);  // somebody got something for it
    }
    follow();
  }

  // Replays what the listener was told, and holds every eviction against the rules.
  void follow() {
    auto& events = pool_.listener.events;
    for (size_t i = 0; i < events.size(); ++i) {
      const Location& location = events[i].location;
      if (events[i].is_published) {
        REQUIRE_FALSE(resident_.contains(location.key));
        const Key128 group = places_.at(location.key).group;
        resident_[location.key] = Object{.location = location, .group = group};
        ++groups_[group];
        continue;
      }
      const auto at = resident_.find(location.key);
      REQUIRE(at != resident_.end());
      REQUIRE(at->second.location.slot == location.slot);
      REQUIRE(at->second.location.generation == location.generation);
      const Key128 group = at->second.group;
      resident_.erase(at);
      if (--groups_[group] == 0) {
        groups_.erase(group);
      }
      const bool was_replaced = i + 1 < events.size() && events[i + 1].is_published &&
                                events[i + 1].location.key == location.key;
      if (was_replaced || cleared_ || removed_.contains(location.key)) {
        continue;
      }
      // Evicted. All objects of a group together: the next event is about the same group, until it
      // is gone.
      if (groups_.contains(group)) {
        REQUIRE(i + 1 < events.size());
        REQUIRE_FALSE(events[i + 1].is_published);
        REQUIRE(places_.at(events[i + 1].location.key).group == group);
      }
      // Tails before heads: no resident group has it as its parent.
      for (const auto& [child, member_count] : groups_) {
        REQUIRE(parents_.at(child) != group);
      }
      ++evicted_count_;
    }
    events.clear();
    pool_.listener.published.clear();
    pool_.listener.retired.clear();
    removed_.clear();
    cleared_ = false;
    check_residents();
  }

  void check_residents() {
    uint64_t indexed_count = 0;
    pool_.pool().for_each_object([&](const Location& location) {
      ++indexed_count;
      const auto at = resident_.find(location.key);
      REQUIRE(at != resident_.end());
      REQUIRE(at->second.location.slot == location.slot);
      REQUIRE(at->second.location.generation == location.generation);
      REQUIRE(pool_.read(location));
    });
    REQUIRE(indexed_count == resident_.size());
  }

  // Any location that was ever true: if its header still proves it, its bytes are right.
  void read_somewhere() {
    for (int i = 0; i < 4 && !ever_.empty(); ++i) {
      const Location& location = ever_[below(ever_.size())];
      (pool_.read(location) ? proven_count_ : stale_count_) += 1;
    }
  }

  Plan plan_;
  std::mt19937_64 random_;
  PoolHarness pool_;
  std::vector<Held> held_;
  std::map<Key128, GroupPlace> places_;
  std::map<Key128, Object> resident_;
  std::map<Key128, Key128> parents_;
  std::map<Key128, uint32_t> groups_;  // resident, and how many objects
  std::vector<Location> ever_;
  std::set<Key128> removed_;
  bool cleared_ = false;
  uint64_t stored_count_ = 0;
  uint64_t evicted_count_ = 0;
  uint64_t stale_count_ = 0;
  uint64_t proven_count_ = 0;
};

void run(const Plan& plan) {
  const uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  Run one(plan, seed);
  one.go();
  // The test means something only if both happened.
  REQUIRE(one.proven_count() > 0);
  REQUIRE(one.stale_count() > 0);
}

TEST_CASE("pool property: one class, a pool of sixteen", "[unit]") {
  run({.pool_bytes = 65536,
       .client_count = 1,
       .lengths = {4096},
       .group_count = 40,
       .step_count = 6000});
}

TEST_CASE("pool property: three classes, four clients, constant shortage", "[unit]") {
  run({.pool_bytes = 65536,
       .client_count = 4,
       .lengths = {4096, 2048, 1024},
       .group_count = 60,
       .step_count = 6000});
}

TEST_CASE("pool property: sizes that do not divide each other", "[unit]") {
  run({.pool_bytes = 128 * 1024,
       .client_count = 3,
       .lengths = {5000, 3072, 17000},
       .group_count = 60,
       .step_count = 5000});
}

TEST_CASE("pool property: a pool with room", "[unit]") {
  run({.pool_bytes = 1024 * 1024,
       .client_count = 8,
       .lengths = {4096, 1500},
       .group_count = 300,
       .step_count = 4000,
       .has_room = true});
}

}  // namespace
}  // namespace peercache
