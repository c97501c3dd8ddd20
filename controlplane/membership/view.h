#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/wire/wire_types.h"

namespace peercache {

enum class MemberState : uint8_t {
  kUnknown = 0,  ///< never answered (or came back as a new incarnation and has not answered yet)
  kUp = 1,
  kSuspect = 2,  ///< silent for half its TTL, or its connection broke; its records still count
  kDown = 3,     ///< dead until it answers again
};
const char* to_string(MemberState state) noexcept;

/// One place of the cluster, and who was met there last.
///
/// THREAD:     any; a value.
struct Member {
  std::string control_address;  ///< as configured: the member's place in the ring
  std::string host_key;         ///< host part of it: members with equal ones count as one host
  std::string node_name;        ///< this and the following: empty or zero until met
  NodeId node{};
  Incarnation incarnation{};
  std::string host_id;
  std::string shm_path;
  MemberState state = MemberState::kUnknown;
  bool self = false;
  std::string refusal;  ///< why it does not talk to us, or we not to it; empty otherwise
};

/// What a node thinks of an incarnation that a record names.
enum class Liveness : uint8_t {
  kUnknown = 0,  ///< node never met
  kLive = 1,     ///< up, or this node itself
  kSuspect = 2,
  kDead = 3,  ///< another incarnation is known for the node, or it is down
};

/// The membership list as one node sees it, at one moment. Members stand in the order of their
/// configuration.
///
/// THREAD:     immutable after construction; readers get it from a SnapshotCell.
/// INVARIANTS: (V1) at most one member per node id.
/// COST:       liveness and find are one or two probes of a small table.
class View {
 public:
  View() = default;
  View(Epoch epoch, std::vector<Member> members);

  Epoch epoch() const noexcept { return epoch_; }
  const std::vector<Member>& members() const noexcept { return members_; }

  Liveness liveness(NodeId node, Incarnation incarnation) const noexcept;
  /// Null if the node was never met.
  const Member* find(NodeId node) const noexcept;
  /// Of members(); nullopt as long as this node has not found itself in the list.
  std::optional<uint32_t> self_index() const noexcept { return self_index_; }
  /// Members that are up, this node included.
  uint32_t up_count() const noexcept { return up_count_; }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;
  uint32_t index_of(NodeId node) const noexcept;

  Epoch epoch_{};
  std::vector<Member> members_;
  std::vector<uint32_t> table_;  ///< open addressing by node id; a power of two, at most half full
  std::optional<uint32_t> self_index_;
  uint32_t up_count_ = 0;
};

}  // namespace peercache
