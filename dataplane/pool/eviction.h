#pragma once

#include <concepts>
#include <cstdint>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/pool/group_place.h"

namespace peercache {

/// Names a group inside an eviction policy; zero is none.
using GroupIndex = StrongId<struct GroupIndexTag, uint32_t>;
inline constexpr GroupIndex kNoGroup{0};

/// What the pool asks of an eviction policy. The pool decides that space is needed and of which
/// class; the policy says which group goes next. It learns of every object that comes, is used, and
/// goes. Another policy is another type with these functions: `EvictionOf` in
/// published_pool_state.h names the one in use.
///
/// - add: an object is now resident, as a member of its group. REQUIRES: the slot is not a member.
/// - remove: the object is gone, for whatever reason.
/// - touch: the object was used; its group and the groups before it in the prefix are at least as
/// recent as now.
/// - victim: the group to evict next so that, after enough calls, a slot of the class becomes free.
/// It has no resident
///   children; it may itself have no object of the class, when it stands in the way of one that
///   has.
/// - group_of, parent_of, tail_under: a resident object's group; the group before it, if resident;
/// a group without resident
///   children among a group and its descendants. By them the pool evicts a given group, tails
///   first.
/// - first_member: the pool evicts a group by retiring its first member until none is left.
/// - count_with: how many objects would go if this slot's group were evicted, descendants included.
/// Groups that were counted
///   in the same round are not counted again; stops counting beyond `limit_count`.
template <class Policy>
concept EvictionPolicy = requires(Policy policy,
                                  const Policy& view,
                                  SlotIndex slot,
                                  SizeClassIndex size_class,
                                  const GroupPlace& place,
                                  GroupIndex group,
                                  uint32_t number) {
  { policy.open(uint64_t{}) } -> std::same_as<Result<void>>;
  policy.add(slot, size_class, place);
  policy.remove(slot);
  policy.touch(slot);
  { policy.victim(size_class) } -> std::same_as<GroupIndex>;
  { view.group_of(slot) } -> std::same_as<GroupIndex>;
  { view.parent_of(group) } -> std::same_as<GroupIndex>;
  { view.tail_under(group) } -> std::same_as<GroupIndex>;
  { view.member_count(group) } -> std::same_as<uint32_t>;
  { view.first_member(group) } -> std::same_as<SlotIndex>;
  policy.begin_count();
  { policy.count_with(slot, number) } -> std::same_as<uint32_t>;
  view.check_invariants();
};

}  // namespace peercache
