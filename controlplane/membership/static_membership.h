#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controlplane/membership/membership_source.h"
#include "controlplane/membership/view.h"
#include "controlplane/wire/messages.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace peercache {

/// THREAD:     any; a value.
struct StaticMembershipOptions {
  ClusterTerms terms;
  NodeIdentity self;
  std::vector<std::string> members;  ///< "host:port" of every node, this one included; empty: alone
  uint32_t heartbeat_interval_ms = 2000;
  uint32_t member_ttl_ms = 6000;
  uint32_t call_timeout_ms = 1000;  ///< of one hello or heartbeat
  uint32_t retry_ms_min =
      100;  ///< pause before the next hello to a member that does not answer, doubled up to
  uint32_t retry_ms_max = 2000;
  uint64_t seed = 1;  ///< of the jitter of retries
};

/// Membership from a fixed list of control addresses. Every member is greeted until it answers, for
/// ever; then it gets heartbeats. A member is up as long as it answers *our* calls: what it sends
/// us shows that it lives, but not that we reach it; so it only makes us ask sooner.
///
/// This node finds itself in the list by its own control address, or by greeting itself. Alone, or
/// not in the list at all, it stands behind the list as one more member.
///
/// THREAD:     the conductor's.
/// INVARIANTS: (M1) at most one call per member is under way. (M2) an incarnation that was replaced
/// never comes back: its
///             late messages are ignored. (M3) kMemberDown and kMemberReplaced follow a kMemberUp
///             of the same incarnation.
/// COST:       O(members) per step; a new View per change.
class StaticMembership final : public MembershipSource {
 public:
  /// Errors: kBadValue for an address that is none or a duplicate, kOutOfRange for more than
  /// limits::kPeersMax.
  static Result<std::unique_ptr<StaticMembership>> open(StaticMembershipOptions options, Nanos now);

  const HelloMessage& own_hello() const override { return own_hello_; }
  HeartbeatMessage own_heartbeat() const override;

  HelloReplyMessage on_hello(const HelloMessage& hello, Nanos now) override;
  HeartbeatReplyMessage on_heartbeat(const HeartbeatMessage& heartbeat, Nanos now) override;
  void on_leave(const LeaveMessage& leave, Nanos now) override;
  void on_hello_result(uint32_t member_index,
                       const Result<HelloReplyMessage>& result,
                       Nanos now) override;
  void on_heartbeat_result(uint32_t member_index,
                           const Result<HeartbeatReplyMessage>& result,
                           Nanos now) override;
  void on_peer_lost(NodeId node, Incarnation incarnation, Nanos now) override;
  void step(Nanos now, std::vector<MembershipAction>& actions) override;
  Nanos next_due() const override;
  std::shared_ptr<const View> view() const override { return view_; }

  /// True once every member is up, or refused us for good reason: what a starting node waits for.
  bool settled() const;

  void check_invariants() const;

 private:
  struct Entry {
    Member member;
    Nanos next_call_at{0};
    Nanos heard_at{0};  ///< last answer to a call of ours
    Nanos pause{0};     ///< before the next call, as long as calls fail
    bool call_under_way = false;
    bool call_again =
        false;  ///< something happened during the call: call again at once, should it fail
    bool greeted = false;  ///< hello was answered in this incarnation: heartbeats from now on
    std::vector<Incarnation> ended;  ///< the last few dead incarnations (M2)
  };

  StaticMembership(StaticMembershipOptions options, Nanos now);

  Entry* entry_of(NodeId node);
  Entry* entry_at(const std::string& control_address);
  bool is_self(const NodeIdentity& identity) const;
  bool is_up(const Entry& entry) const;
  void adopt_self(Entry& entry);
  void adopt(Entry& entry, const NodeIdentity& identity);
  void end_incarnation(Entry& entry, MembershipAction::Kind kind);
  void set_state(Entry& entry, MemberState state);
  void refuse(Entry& entry, const std::string& text);
  std::string why_refused(const Entry& entry, const HelloReplyMessage& reply);
  void greet(Entry& entry, const HelloMessage& hello, HelloReplyMessage& reply, Nanos now);
  void heard_from(Entry& entry, Nanos now);
  void call_failed(Entry& entry, const Error& error, Nanos now);
  void call_soon(Entry& entry, Nanos now);
  void check_silence(Entry& entry, Nanos now);
  Nanos longer_pause(Entry& entry);
  void emit(MembershipAction::Kind kind, const Entry& entry);
  void publish_view();

  StaticMembershipOptions options_;
  HelloMessage own_hello_;
  std::vector<Entry> entries_;
  bool self_appended_ = false;  ///< the last entry is this node, which the list does not name
  std::vector<MembershipAction> pending_;  ///< events since the last step
  std::shared_ptr<const View> view_;
  Epoch epoch_{0};
  bool changed_ = true;
  uint64_t random_;
};

}  // namespace peercache
