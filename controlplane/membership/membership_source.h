#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "controlplane/membership/view.h"
#include "controlplane/wire/messages.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace peercache {

/// What a membership source wants done, or wants known.
///
/// THREAD:     any; a value.
struct MembershipAction {
  enum class Kind : uint8_t {
    kSendHello,      ///< send own_hello() to the member; answer with on_hello_result
    kSendHeartbeat,  ///< send own_heartbeat() to the member; answer with on_heartbeat_result
    kMemberUp,       ///< `node`, `incarnation` answered; also after kDown and kSuspect
    kMemberSuspect,  ///< silent, or its connection broke
    kMemberDown,  ///< `node`, `incarnation` is dead (it left, its process is gone, or its TTL has
                  ///< passed)
    kMemberReplaced,  ///< `node`, `incarnation` is dead for good: another incarnation took its
                      ///< place
    kMemberRefused,   ///< a new text stands in the member's `refusal`: log it
  };
  Kind kind;
  uint32_t member_index;  ///< of view().members()
  Nanos timeout{0};       ///< of a call
  NodeId node{};
  Incarnation incarnation{};
};

/// Where the membership list comes from: the seam between the conductor and a static list,
/// discovery by masters, or etcd. Sources are pure state machines: messages and time in, messages
/// and events out.
///
/// THREAD:     the conductor's.
class MembershipSource {
 public:
  MembershipSource() = default;
  MembershipSource(const MembershipSource&) = delete;
  MembershipSource& operator=(const MembershipSource&) = delete;
  virtual ~MembershipSource() = default;

  virtual const HelloMessage& own_hello() const = 0;
  virtual HeartbeatMessage own_heartbeat() const = 0;

  /// A peer's message, and the reply to it. The caller fills in
  /// HeartbeatReplyMessage::purged_count.
  virtual HelloReplyMessage on_hello(const HelloMessage& hello, Nanos now) = 0;
  virtual HeartbeatReplyMessage on_heartbeat(const HeartbeatMessage& heartbeat, Nanos now) = 0;
  virtual void on_leave(const LeaveMessage& leave, Nanos now) = 0;

  /// How a call of kSendHello or kSendHeartbeat ended.
  virtual void on_hello_result(uint32_t member_index,
                               const Result<HelloReplyMessage>& result,
                               Nanos now) = 0;
  virtual void on_heartbeat_result(uint32_t member_index,
                                   const Result<HeartbeatReplyMessage>& result,
                                   Nanos now) = 0;
  /// The data path saw the peer's process end (its Unix socket closed, say).
  virtual void on_peer_lost(NodeId node, Incarnation incarnation, Nanos now) = 0;

  /// Does what is due; appends to `actions`.
  virtual void step(Nanos now, std::vector<MembershipAction>& actions) = 0;
  /// When step should be called next, at the latest.
  virtual Nanos next_due() const = 0;

  /// The present view; a new epoch and a new object at each change that anybody could care about.
  virtual std::shared_ptr<const View> view() const = 0;
};

}  // namespace peercache
