#include "controlplane/membership/view.h"

#include <bit>
#include <utility>

#include "dataplane/base/assert.h"

namespace peercache {

const char* to_string(MemberState state) noexcept {
  switch (state) {
    case MemberState::kUnknown:
      return "unknown";
    case MemberState::kUp:
      return "up";
    case MemberState::kSuspect:
      return "suspect";
    case MemberState::kDown:
      return "down";
  }
  return "invalid";
}

View::View(Epoch epoch, std::vector<Member> members) : epoch_(epoch), members_(std::move(members)) {
  table_.assign(std::bit_ceil(2 * members_.size() + 1), kNobody);
  const size_t mask = table_.size() - 1;
  for (uint32_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (member.state == MemberState::kUp) ++up_count_;
    // A node may find itself at two addresses of the list; the first is its place.
    if (member.self && !self_index_) self_index_ = i;
    if (member.node == NodeId{}) continue;
    size_t at = member.node.value() & mask;  // node ids are hashes
    while (table_[at] != kNobody && members_[table_[at]].node != member.node) at = (at + 1) & mask;
    if (table_[at] == kNobody) {
      table_[at] = i;
    } else {
      PC_ASSERT(member.self, member.node);  // (V1)
    }
  }
}

uint32_t View::index_of(NodeId node) const noexcept {
  if (table_.empty() || node == NodeId{}) return kNobody;
  const size_t mask = table_.size() - 1;
  size_t at = node.value() & mask;
  while (table_[at] != kNobody && members_[table_[at]].node != node) at = (at + 1) & mask;
  return table_[at];
}

const Member* View::find(NodeId node) const noexcept {
  const uint32_t index = index_of(node);
  return index == kNobody ? nullptr : &members_[index];
}

Liveness View::liveness(NodeId node, Incarnation incarnation) const noexcept {
  const Member* member = find(node);
  if (member == nullptr) return Liveness::kUnknown;
  if (member->incarnation != incarnation) return Liveness::kDead;
  switch (member->state) {
    case MemberState::kUnknown:
      return Liveness::kUnknown;
    case MemberState::kUp:
      return Liveness::kLive;
    case MemberState::kSuspect:
      return Liveness::kSuspect;
    case MemberState::kDown:
      return Liveness::kDead;
  }
  return Liveness::kUnknown;
}

}  // namespace peercache
