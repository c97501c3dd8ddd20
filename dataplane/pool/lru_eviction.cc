#include "dataplane/pool/lru_eviction.h"

#include <algorithm>
#include <bit>

#include "dataplane/base/assert.h"

namespace peercache {

Result<void> LruEviction::open(uint64_t slot_count) {
  PC_ASSERT(slot_count > 0 && slot_count < UINT32_MAX / 4, slot_count);
  // Each group has a member or is the absent parent of one that has: at most two groups per slot.
  PC_TRY(nodes_.open(2 * slot_count + 2));
  PC_TRY(members_.open(slot_count));
  const uint64_t map_count = std::bit_ceil(4 * slot_count + 4);
  PC_TRY(map_.open(map_count));
  map_mask_ = map_count - 1;
  return {};
}

void LruEviction::add(SlotIndex slot, SizeClassIndex size_class, const GroupPlace& place) {
  Member& member = members_[slot.value()];
  PC_ASSERT(member.group == 0, slot, member.group);
  const uint32_t index = find_or_make(place.group);
  Node& node = nodes_[index];
  if (node.listed) {
    delist(index);
  }
  resident_count_ += node.member_count == 0 ? 1 : 0;
  member = Member{
      .group = index, .next = node.first_member, .previous = 0, .size_class = size_class.value()};
  if (node.first_member != 0) {
    members_[node.first_member - 1].previous = slot.value() + 1;
  }
  node.first_member = slot.value() + 1;
  ++node.member_count;
  update_classes(node);
  if (node.parent == 0 && place.parent != Key128{} && place.parent != place.group) {
    set_parent(index, place.parent);
  }
  settle(index);
  touch_group(index);
}

void LruEviction::remove(SlotIndex slot) {
  Member& member = members_[slot.value()];
  const uint32_t index = member.group;
  PC_ASSERT(index != 0, slot);
  Node& node = nodes_[index];
  if (node.listed) {
    delist(index);
  }
  (member.previous != 0 ? members_[member.previous - 1].next : node.first_member) = member.next;
  if (member.next != 0) {
    members_[member.next - 1].previous = member.previous;
  }
  member = Member{};
  --node.member_count;
  update_classes(node);
  if (node.member_count == 0) {
    --resident_count_;
    if (node.parent != 0) {
      leave_parent(index);
    }
  }
  settle(index);
}

GroupIndex LruEviction::victim(SizeClassIndex size_class) {
  const uint32_t index = oldest_at_home(size_class.value());
  return GroupIndex(index != 0 ? index : oldest_with(size_class.value()));
}

GroupIndex LruEviction::parent_of(GroupIndex group) const {
  const uint32_t parent = nodes_[group.value()].parent;
  return parent != 0 && nodes_[parent].member_count != 0 ? GroupIndex(parent) : kNoGroup;
}

GroupIndex LruEviction::tail_under(GroupIndex group) const {
  uint32_t at = group.value();
  PC_ASSERT(at != 0);
  while (nodes_[at].first_child != 0) {
    at = nodes_[at].first_child;
  }
  return GroupIndex(at);
}

SlotIndex LruEviction::first_member(GroupIndex group) const {
  const Node& node = nodes_[group.value()];
  PC_ASSERT(node.first_member != 0, group);
  return SlotIndex(node.first_member - 1);
}

uint32_t LruEviction::count_with(SlotIndex slot, uint32_t limit_count) {
  const uint32_t root = members_[slot.value()].group;
  PC_ASSERT(root != 0, slot);
  uint32_t count = 0;
  uint32_t at = root;
  while (true) {
    Node& node = nodes_[at];
    if (node.count_round != count_round_) {
      node.count_round = count_round_;
      count += node.member_count;
      if (count > limit_count) {
        return count;
      }
      if (node.first_child != 0) {
        at = node.first_child;
        continue;
      }
    }
    // Counted, with all below it: on to a sibling, or up until there is one.
    while (at != root && nodes_[at].next_sibling == 0) {
      at = nodes_[at].parent;
    }
    if (at == root) {
      return count;
    }
    at = nodes_[at].next_sibling;
  }
}

uint32_t LruEviction::find(const Key128& key) const {
  for (uint64_t at = bucket_of(key); map_[at] != 0; at = (at + 1) & map_mask_) {
    if (nodes_[map_[at]].key == key) {
      return map_[at];
    }
  }
  return 0;
}

uint32_t LruEviction::find_or_make(const Key128& key) {
  uint64_t at = bucket_of(key);
  for (; map_[at] != 0; at = (at + 1) & map_mask_) {
    if (nodes_[map_[at]].key == key) {
      return map_[at];
    }
  }
  uint32_t index = first_unused_;
  if (index != 0) {
    first_unused_ = nodes_[index].list_next;
  } else {
    index = touched_nodes_++;
    PC_ASSERT(index < nodes_.size(), index, nodes_.size());
  }
  nodes_[index] = Node{};
  nodes_[index].key = key;
  map_[at] = index;
  ++group_count_;
  return index;
}

void LruEviction::drop(uint32_t index) {
  Node& node = nodes_[index];
  PC_ASSERT(!node.listed && node.parent == 0, index);
  PC_ASSERT(node.member_count == 0 && node.child_count == 0, index);
  map_erase(node.key);
  node = Node{};
  node.list_next = first_unused_;
  first_unused_ = index;
  --group_count_;
}

// Linear probing without tombstones: entries behind the gap move up if their own place allows it.
void LruEviction::map_erase(const Key128& key) {
  uint64_t gap = bucket_of(key);
  while (nodes_[map_[gap]].key != key) {
    gap = (gap + 1) & map_mask_;
    PC_ASSERT(map_[gap] != 0, gap);
  }
  for (uint64_t at = (gap + 1) & map_mask_; map_[at] != 0; at = (at + 1) & map_mask_) {
    const uint64_t home = bucket_of(nodes_[map_[at]].key);
    if (((at - home) & map_mask_) >= ((at - gap) & map_mask_)) {
      map_[gap] = map_[at];
      gap = at;
    }
  }
  map_[gap] = 0;
}

void LruEviction::touch_group(uint32_t index) {
  PC_ASSERT(index != 0);
  Node& node = nodes_[index];
  const bool listed = node.listed;
  if (listed) {
    delist(index);
  }
  node.epoch = epoch_;
  if (listed) {
    enlist(index, /*newest_end=*/true);
  }
  if (++epoch_touch_count_ > resident_count_ / 32) {
    advance_epoch();
  }
}

void LruEviction::set_parent(uint32_t index, const Key128& parent_key) {
  const uint32_t parent = find_or_make(parent_key);
  Node& node = nodes_[index];
  // (L3): only a group that has children already can close a circle, as a client with wrong parents
  // might ask for.
  if (node.child_count != 0 && is_ancestor(index, parent)) {
    return;
  }
  Node& above = nodes_[parent];
  node.parent = parent;
  node.next_sibling = above.first_child;
  node.previous_sibling = 0;
  if (above.first_child != 0) {
    nodes_[above.first_child].previous_sibling = index;
  }
  above.first_child = index;
  ++above.child_count;
  settle(parent);
}

void LruEviction::leave_parent(uint32_t index) {
  Node& node = nodes_[index];
  const uint32_t parent = node.parent;
  Node& above = nodes_[parent];
  (node.previous_sibling != 0 ? nodes_[node.previous_sibling].next_sibling : above.first_child) =
      node.next_sibling;
  if (node.next_sibling != 0) {
    nodes_[node.next_sibling].previous_sibling = node.previous_sibling;
  }
  node.parent = node.next_sibling = node.previous_sibling = 0;
  --above.child_count;
  // Whoever used the child used its prefix.
  above.epoch = std::max(above.epoch, node.epoch);
  settle(parent);
}

bool LruEviction::is_ancestor(uint32_t maybe_ancestor, uint32_t of) const {
  for (uint32_t at = of; at != 0; at = nodes_[at].parent) {
    if (at == maybe_ancestor) {
      return true;
    }
  }
  return false;
}

// Restores (L1) and (L2) for one group after a change of its members or children.
void LruEviction::settle(uint32_t index) {
  Node& node = nodes_[index];
  const bool is_leaf = node.member_count != 0 && node.child_count == 0;
  if (is_leaf && !node.listed) {
    enlist(index, /*newest_end=*/false);
  } else if (!is_leaf && node.listed) {
    delist(index);
  }
  if (node.member_count == 0 && node.child_count == 0) {
    drop(index);
  }
}

void LruEviction::update_classes(Node& node) {
  node.class_mask = 0;
  for (uint32_t at = node.first_member; at != 0; at = members_[at - 1].next) {
    node.class_mask |= 1U << members_[at - 1].size_class;
  }
  if (node.class_mask != 0 && (node.class_mask & (1U << node.home_class)) == 0) {
    node.home_class = static_cast<uint8_t>(std::countr_zero(node.class_mask));
  }
}

void LruEviction::check_invariants() const {
  uint64_t group_count = 0;
  uint64_t resident_count = 0;
  uint64_t listed_count = 0;
  for (uint32_t index = 1; index < touched_nodes_; ++index) {
    const Node& node = nodes_[index];
    if (node.member_count == 0 && node.child_count == 0) {
      PC_ASSERT(!node.listed && node.parent == 0, index);  // (L2): an unused node
      continue;
    }
    ++group_count;
    resident_count += node.member_count != 0 ? 1 : 0;
    listed_count += node.listed ? 1 : 0;
    PC_ASSERT(find(node.key) == index, index);
    PC_ASSERT(node.listed == (node.member_count != 0 && node.child_count == 0), index);  // (L1)
    PC_ASSERT(node.epoch <= epoch_, node.epoch, epoch_);
    uint32_t child_count = 0;
    for (uint32_t child = node.first_child; child != 0; child = nodes_[child].next_sibling) {
      ++child_count;
      PC_ASSERT(nodes_[child].parent == index && nodes_[child].member_count != 0, child, index);
    }
    PC_ASSERT(child_count == node.child_count, child_count, node.child_count);
    uint32_t member_count = 0;
    for (uint32_t at = node.first_member; at != 0; at = members_[at - 1].next) {
      ++member_count;
      PC_ASSERT(members_[at - 1].group == index, at, index);
    }
    PC_ASSERT(member_count == node.member_count, member_count, node.member_count);
    PC_ASSERT(member_count == 0 || (node.class_mask & (1U << node.home_class)) != 0,
              index);                                                        // (L4)
    PC_ASSERT(node.parent == 0 || !is_ancestor(index, node.parent), index);  // (L3)
  }
  PC_ASSERT(group_count == group_count_, group_count, group_count_);
  PC_ASSERT(resident_count == resident_count_, resident_count, resident_count_);
  for (uint32_t home_class = 0; home_class < homes_.size(); ++home_class) {
    const HomeLists& home = homes_[home_class];
    for (uint32_t bit = 0; bit < kEpochs; ++bit) {
      PC_ASSERT((home.lists[bit].newest != 0) == ((home.filled_set >> bit & 1U) != 0), bit);
      for (uint32_t at = home.lists[bit].newest; at != 0; at = nodes_[at].list_next) {
        --listed_count;
        PC_ASSERT(nodes_[at].listed && nodes_[at].home_class == home_class, at);          // (L4)
        PC_ASSERT(std::max(nodes_[at].epoch, oldest_epoch()) % kEpochs == bit, at, bit);  // (L4)
      }
    }
  }
  PC_ASSERT(listed_count == 0, listed_count);
}

}  // namespace peercache
