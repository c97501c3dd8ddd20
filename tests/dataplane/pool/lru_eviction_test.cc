#include "dataplane/pool/lru_eviction.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

const SizeClassIndex kClass{0};
const SizeClassIndex kOther{1};

Key128 key(uint64_t number) { return number == 0 ? Key128{} : Key128{.low = number, .high = 1}; }

GroupPlace place(uint64_t group, uint64_t parent = 0) {
  return GroupPlace{.group = key(group), .parent = key(parent), .position_index = 0};
}

/// The policy, with slot numbers that say what is in them.
struct Lru {
  explicit Lru(uint64_t slot_count = 256) { REQUIRE(policy.open(slot_count).has_value()); }

  void add(uint32_t slot, uint64_t group, uint64_t parent = 0, SizeClassIndex size_class = kClass) {
    policy.add(SlotIndex(slot), size_class, place(group, parent));
    policy.check_invariants();
  }

  /// Evicts the next group and returns its slots.
  std::vector<uint32_t> evict(SizeClassIndex size_class = kClass) {
    std::vector<uint32_t> slots;
    const GroupIndex group = policy.victim(size_class);
    if (group == kNoGroup) {
      return slots;
    }
    for (uint32_t left = policy.member_count(group); left > 0; --left) {
      const SlotIndex slot = policy.first_member(group);
      policy.remove(slot);
      slots.push_back(slot.value());
      policy.check_invariants();
    }
    std::ranges::sort(slots);
    return slots;
  }

  LruEviction policy;
};

using Slots = std::vector<uint32_t>;

TEST_CASE("lru eviction: the least recently used group goes first", "[unit]") {
  Lru lru;
  for (uint32_t i = 1; i <= 5; ++i) {
    lru.add(i, i);
  }
  lru.policy.touch(SlotIndex(1));
  lru.policy.touch(SlotIndex(3));
  REQUIRE(lru.evict() == Slots{2});
  REQUIRE(lru.evict() == Slots{4});
  REQUIRE(lru.evict() == Slots{5});
  REQUIRE(lru.evict() == Slots{1});
  REQUIRE(lru.evict() == Slots{3});
  REQUIRE(lru.evict().empty());
}

TEST_CASE("lru eviction: all objects of a group go together", "[unit]") {
  Lru lru;
  lru.add(1, 1);
  lru.add(2, 2);
  lru.add(3, 1, 0, kOther);
  REQUIRE(lru.evict() == Slots{2});  // group 1 was used when its second object came
  REQUIRE(lru.evict() == Slots{1, 3});
}

TEST_CASE("lru eviction: tails before heads, whatever the order of use", "[unit]") {
  Lru lru;
  lru.add(1, 1);
  lru.add(2, 2, 1);
  lru.add(3, 3, 2);
  lru.add(9, 9);
  lru.policy.touch(SlotIndex(9));
  lru.policy.touch(SlotIndex(3));  // the tail is the most recent, but nothing before it may go
  REQUIRE(lru.evict() == Slots{9});
  REQUIRE(lru.evict() == Slots{3});
  REQUIRE(lru.evict() == Slots{2});
  REQUIRE(lru.evict() == Slots{1});
}

TEST_CASE("lru eviction: use of a tail keeps the groups before it as recent", "[unit]") {
  Lru lru;
  lru.add(1, 1);
  lru.add(2, 2, 1);
  lru.add(9, 9);
  lru.policy.touch(SlotIndex(2));
  // 2 goes before 1, but 1 was used with it, after 9.
  REQUIRE(lru.evict() == Slots{9});
  lru.add(10, 10);
  REQUIRE(lru.evict() == Slots{2});
  REQUIRE(lru.evict() == Slots{1});
  REQUIRE(lru.evict() == Slots{10});
}

TEST_CASE("lru eviction: a head that was used by others stays when its old tail goes", "[unit]") {
  Lru lru;
  lru.add(1, 1);
  lru.add(2, 2, 1);
  for (uint32_t i = 10; i < 20; ++i) {
    lru.add(i, i);
  }
  lru.policy.touch(SlotIndex(1));  // a system prompt: used without this tail
  REQUIRE(lru.evict() == Slots{2});
  for (uint32_t i = 10; i < 20; ++i) {
    REQUIRE(lru.evict() == Slots{i});
  }
  REQUIRE(lru.evict() == Slots{1});
}

TEST_CASE("lru eviction: children that came before their parent protect it all the same",
          "[unit]") {
  Lru lru;
  lru.add(3, 3, 2);
  REQUIRE(lru.policy.absent_group_count() == 1);
  lru.add(2, 2, 1);
  lru.add(1, 1);
  lru.add(4, 4, 1);
  REQUIRE(lru.policy.absent_group_count() == 0);
  REQUIRE(lru.evict() == Slots{3});
  REQUIRE(lru.evict() == Slots{2});
  REQUIRE(lru.evict() == Slots{4});
  REQUIRE(lru.evict() == Slots{1});
  REQUIRE(lru.policy.absent_group_count() == 0);
}

TEST_CASE("lru eviction: a group that was removed from the middle is found by its children again",
          "[unit]") {
  Lru lru;
  lru.add(1, 1);
  lru.add(2, 2, 1);
  lru.add(3, 3, 2);
  lru.policy.remove(SlotIndex(2));
  lru.policy.check_invariants();
  REQUIRE(lru.policy.absent_group_count() == 1);
  lru.add(22, 2, 1);
  REQUIRE(lru.policy.absent_group_count() == 0);
  REQUIRE(lru.evict() == Slots{3});
  REQUIRE(lru.evict() == Slots{22});
  REQUIRE(lru.evict() == Slots{1});
}

TEST_CASE("lru eviction: parents in a circle do no harm", "[unit]") {
  Lru lru;
  lru.add(1, 1, 1);
  lru.add(2, 2, 3);
  lru.add(3, 3, 4);
  lru.add(4, 4, 2);
  uint32_t evicted_count = 0;
  while (!lru.evict().empty()) {
    ++evicted_count;
  }
  REQUIRE(evicted_count == 4);
}

TEST_CASE("lru eviction: a victim for a class leads to a slot of the class", "[unit]") {
  Lru lru;
  lru.add(1, 1, 0, kClass);
  lru.add(2, 2, 0, kOther);
  lru.add(3, 3, 0, kClass);
  REQUIRE(lru.evict(kOther) == Slots{2});
  REQUIRE(lru.evict(kOther).empty());
  lru.add(4, 1, 0, kOther);  // group 1 is at home in kClass and has an object of kOther
  REQUIRE(lru.evict(kOther) == Slots{1, 4});
}

TEST_CASE("lru eviction: the count of what would go counts descendants, once per round", "[unit]") {
  Lru lru;
  lru.add(1, 1);
  lru.add(2, 2, 1);
  lru.add(12, 2, 1, kOther);
  lru.add(3, 3, 2);
  lru.add(4, 4, 1);
  lru.add(9, 9);
  lru.policy.begin_count();
  REQUIRE(lru.policy.count_with(SlotIndex(3), 100) == 1);
  REQUIRE(lru.policy.count_with(SlotIndex(1), 100) == 4);
  REQUIRE(lru.policy.count_with(SlotIndex(4), 100) == 0);
  REQUIRE(lru.policy.count_with(SlotIndex(9), 100) == 1);
  lru.policy.begin_count();
  REQUIRE(lru.policy.count_with(SlotIndex(1), 100) == 5);
  lru.policy.begin_count();
  REQUIRE(lru.policy.count_with(SlotIndex(1), 2) > 2);
}

// The same rules without any cleverness.
struct Model {
  struct Group {
    uint64_t parent = 0;
    uint64_t used = 0;
    std::set<uint32_t> slots;
  };
  std::map<uint64_t, Group> groups;
  uint64_t now = 0;

  bool has_children(uint64_t group) const {
    return std::ranges::any_of(groups,
                               [&](const auto& entry) { return entry.second.parent == group; });
  }
  void touch(uint64_t group) {
    ++now;
    for (std::set<uint64_t> seen; group != 0 && groups.contains(group) && seen.insert(group).second;
         group = groups[group].parent) {
      groups[group].used = now;
    }
  }
};

TEST_CASE("lru eviction: random use obeys the rules and keeps near to exact order", "[unit]") {
  const uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  constexpr uint32_t kSlots =
      24;  // below 32 groups every touch is an epoch: exact order up to 64 touches back
  Lru lru(kSlots);
  Model model;
  std::set<uint32_t> unused;
  for (uint32_t i = 0; i < kSlots; ++i) {
    unused.insert(i);
  }
  for (int step = 0; step < 30000; ++step) {
    const uint64_t what = random() % 4;
    if (what <= 1 && !unused.empty()) {
      // Chains of eight: group n follows n - 1, unless n is 1 modulo 8.
      const uint64_t group = random() % 40 + 1;
      const uint64_t parent = group % 8 == 1 ? 0 : group - 1;
      const uint32_t slot = *unused.begin();
      unused.erase(unused.begin());
      model.groups[group].slots.insert(slot);
      model.groups[group].parent = parent;
      model.touch(group);
      lru.add(slot, group, parent);
    } else if (what == 2 && !model.groups.empty()) {
      const auto chosen =
          std::next(model.groups.begin(), static_cast<ptrdiff_t>(random() % model.groups.size()));
      model.touch(chosen->first);
      lru.policy.touch(SlotIndex(*chosen->second.slots.begin()));
    } else {
      const Slots slots = lru.evict();
      if (model.groups.empty()) {
        REQUIRE(slots.empty());
        continue;
      }
      REQUIRE_FALSE(slots.empty());
      const auto victim = std::ranges::find_if(
          model.groups, [&](const auto& entry) { return entry.second.slots.contains(slots[0]); });
      REQUIRE(victim != model.groups.end());
      REQUIRE(std::equal(slots.begin(), slots.end(), victim->second.slots.begin(),
                         victim->second.slots.end()));
      REQUIRE_FALSE(model.has_children(victim->first));
      uint64_t oldest = UINT64_MAX;
      for (const auto& [group, entry] : model.groups) {
        if (!model.has_children(group)) {
          oldest = std::min(oldest, entry.used);
        }
      }
      // Exactly the oldest leaf, unless it is so old that ages are no longer told apart.
      REQUIRE((victim->second.used == oldest || model.now - victim->second.used >= 60));
      unused.insert(slots.begin(), slots.end());
      model.groups.erase(victim);
    }
  }
}

}  // namespace
}  // namespace peercache
