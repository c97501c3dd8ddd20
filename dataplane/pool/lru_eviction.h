#pragma once

#include <array>
#include <cstdint>

#include "dataplane/base/key.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/pool/eviction.h"
#include "dataplane/pool/zeroed_array.h"

namespace peercache {

/// Least recently used group first, among the groups without resident children.
///
/// Only those *leaves* are listed; a group joins the list when its last resident child goes, and is
/// then at least as recent as that child was. So a touch of a tail keeps its whole prefix without
/// walking it. Recency is an epoch: epochs advance after a 32nd of the resident groups were
/// touched, and each (home class, epoch) has its own list, so that a group that joins late is put
/// among its contemporaries in O(1). The last kEpochs are told apart; all older ones share a list.
///
/// A parent that is not resident but has resident children is kept as an *absent* group, so that it
/// finds them when it comes.
///
/// THREAD:     its owner (the pool agent).
/// OWNS:       nodes, a map from group key to node, and a link pair per slot; sized in open.
/// INVARIANTS: (L1) a group is listed if and only if it has members and no resident children. (L2)
/// a group exists if and only
///             if it has members or resident children. (L3) the parent relation has no cycle. (L4)
///             a listed group is in the list of its home class, which is the class of one of its
///             members, and of its epoch.
/// COST:       O(1) amortised for add, remove, touch; victim is O(1) unless no leaf is at home in
/// the class (then a bounded
///             scan); no allocation after open.
class LruEviction {
 public:
  /// Errors: kNoMemory.
  Result<void> open(uint64_t slot_count);

  void add(SlotIndex slot, SizeClassIndex size_class, const GroupPlace& place);
  void remove(SlotIndex slot);
  void touch(SlotIndex slot) { touch_group(members_[slot.value()].group); }
  [[nodiscard]] GroupIndex victim(SizeClassIndex size_class);
  [[nodiscard]] GroupIndex group_of(SlotIndex slot) const {
    return GroupIndex(members_[slot.value()].group);
  }
  [[nodiscard]] GroupIndex parent_of(GroupIndex group) const;
  [[nodiscard]] GroupIndex tail_under(GroupIndex group) const;
  [[nodiscard]] uint32_t member_count(GroupIndex group) const {
    return nodes_[group.value()].member_count;
  }
  [[nodiscard]] SlotIndex first_member(GroupIndex group) const;
  void begin_count() { ++count_round_; }
  [[nodiscard]] uint32_t count_with(SlotIndex slot, uint32_t limit_count);

  [[nodiscard]] uint64_t resident_group_count() const { return resident_count_; }
  [[nodiscard]] uint64_t absent_group_count() const { return group_count_ - resident_count_; }

  void check_invariants() const;

  /// The group of a key, or kNoGroup.
  [[nodiscard]] GroupIndex test_find(const Key128& group) const { return GroupIndex(find(group)); }

 private:
  static constexpr uint32_t kEpochs = 64;  // one bit each in a 64-bit set

  // Indices of nodes; 0 is none.
  struct Node {
    Key128 key;
    uint64_t epoch;
    uint32_t parent;
    uint32_t first_child;
    uint32_t next_sibling;
    uint32_t previous_sibling;
    uint32_t child_count;
    uint32_t first_member;  // slot index + 1
    uint32_t member_count;
    uint32_t list_next;  // towards older; also the list of unused nodes
    uint32_t list_previous;
    uint32_t class_mask;
    uint32_t count_round;
    uint8_t home_class;
    bool listed;
  };

  // A slot's place in its group.
  struct Member {
    uint32_t group;
    uint32_t next;  // slot index + 1
    uint32_t previous;
    uint8_t size_class;
  };

  struct List {
    uint32_t newest = 0;
    uint32_t oldest = 0;
  };

  struct HomeLists {
    std::array<List, kEpochs> lists{};
    uint64_t filled_set = 0;  // bit i: lists[i] is not empty
  };

  // groups
  uint32_t find(const Key128& key) const;
  uint32_t find_or_make(const Key128& key);
  void drop(uint32_t index);
  void touch_group(uint32_t index);
  void set_parent(uint32_t index, const Key128& parent_key);
  void leave_parent(uint32_t index);
  bool is_ancestor(uint32_t maybe_ancestor, uint32_t of) const;
  void settle(uint32_t index);
  void update_classes(Node& node);

  // recency
  void advance_epoch();
  [[nodiscard]] uint64_t oldest_epoch() const {
    return epoch_ < kEpochs ? 0 : epoch_ - kEpochs + 1;
  }
  List& list_of(const Node& node, uint32_t& bit);
  void enlist(uint32_t index, bool newest_end);
  void delist(uint32_t index);
  [[nodiscard]] uint32_t oldest_at_home(uint32_t home_class) const;
  [[nodiscard]] uint32_t oldest_with(uint32_t size_class) const;

  // map
  [[nodiscard]] uint64_t bucket_of(const Key128& key) const {
    return (key.low ^ (key.high * 31)) & map_mask_;
  }
  void map_erase(const Key128& key);

  ZeroedArray<Node> nodes_;
  ZeroedArray<Member> members_;
  ZeroedArray<uint32_t> map_;  // open addressing, linear; 0 is empty
  uint64_t map_mask_ = 0;
  uint32_t first_unused_ = 0;   // list of nodes that were used before
  uint32_t touched_nodes_ = 1;  // nodes from here on were never used
  uint64_t group_count_ = 0;
  uint64_t resident_count_ = 0;
  uint64_t epoch_ = 0;
  uint64_t epoch_touch_count_ = 0;
  uint32_t count_round_ = 0;
  std::array<HomeLists, limits::kSizeClassesMax> homes_{};
};

static_assert(EvictionPolicy<LruEviction>);

}  // namespace peercache
