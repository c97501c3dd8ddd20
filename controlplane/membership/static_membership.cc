#include "controlplane/membership/static_membership.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "controlplane/wire/host_port.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/limits.h"

namespace peercache {

namespace {

/// Dead incarnations remembered per member: a late message is at most a few restarts old.
constexpr size_t kEndedMax = 8;

Nanos millis(uint32_t ms) { return Nanos(int64_t{ms} * 1'000'000); }

}  // namespace

Result<std::unique_ptr<StaticMembership>> StaticMembership::open(StaticMembershipOptions options,
                                                                 Nanos now) {
  if (options.members.size() >= limits::kPeersMax) {
    return make_error(Errc::kOutOfRange, "{} members, at most {}", options.members.size(),
                      limits::kPeersMax - 1);
  }
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < options.members.size(); ++i) {
    if (!parse_host_port(options.members[i])) {
      return make_error(Errc::kBadValue, "members[{}] is not \"host:port\"", i);
    }
    if (!seen.insert(options.members[i]).second) {
      return make_error(Errc::kBadValue, "members[{}] stands in the list twice", i);
    }
  }
  return std::unique_ptr<StaticMembership>(new StaticMembership(std::move(options), now));
}

StaticMembership::StaticMembership(StaticMembershipOptions options, Nanos now)
    : options_(std::move(options)),
      own_hello_{options_.terms, options_.self},
      random_(options_.seed * 0x9e3779b97f4a7c15ULL + 1) {
  const auto add = [&](const std::string& address) -> Entry& {
    Entry& entry = entries_.emplace_back();
    entry.member.control_address = address;
    const Result<HostPort> parsed = parse_host_port(address);
    entry.member.host_key = parsed ? parsed->host : address;
    entry.next_call_at = now;
    return entry;
  };
  entries_.reserve(options_.members.size() + 1);
  for (const std::string& address : options_.members) add(address);
  Entry* own = entry_at(options_.self.control_address);
  if (own == nullptr) {
    own = &add(options_.self.control_address);
    self_appended_ = true;
  }
  adopt_self(*own);
  publish_view();
}

HeartbeatMessage StaticMembership::own_heartbeat() const {
  return {options_.self.node, options_.self.incarnation};
}

// --- entries -----------------------------------------------------------------------------------

StaticMembership::Entry* StaticMembership::entry_of(NodeId node) {
  for (Entry& entry : entries_) {
    if (entry.member.node == node) return &entry;
  }
  return nullptr;
}

StaticMembership::Entry* StaticMembership::entry_at(const std::string& control_address) {
  for (Entry& entry : entries_) {
    if (entry.member.control_address == control_address) return &entry;
  }
  return nullptr;
}

bool StaticMembership::is_self(const NodeIdentity& identity) const {
  return identity.node == options_.self.node && identity.incarnation == options_.self.incarnation;
}

bool StaticMembership::is_up(const Entry& entry) const {
  return entry.member.state == MemberState::kUp || entry.member.state == MemberState::kSuspect;
}

void StaticMembership::adopt_self(Entry& entry) {
  Member& member = entry.member;
  member.node_name = options_.self.node_name;
  member.node = options_.self.node;
  member.incarnation = options_.self.incarnation;
  member.host_id = options_.self.host_id;
  member.shm_path = options_.self.shm_path;
  member.state = MemberState::kUp;
  member.self = true;
  member.refusal.clear();
  changed_ = true;
}

void StaticMembership::adopt(Entry& entry, const NodeIdentity& identity) {
  Member& member = entry.member;
  if (member.node != identity.node || member.incarnation != identity.incarnation) {
    end_incarnation(entry, MembershipAction::Kind::kMemberReplaced);
    set_state(entry, MemberState::kUnknown);
  }
  member.node_name = identity.node_name;
  member.node = identity.node;
  member.incarnation = identity.incarnation;
  member.host_id = identity.host_id;
  member.shm_path = identity.shm_path;
  changed_ = true;
}

/// The incarnation that stands in the entry is dead, and is never taken for alive again.
void StaticMembership::end_incarnation(Entry& entry, MembershipAction::Kind kind) {
  if (is_up(entry)) emit(kind, entry);
  if (entry.member.node != NodeId{}) {
    if (entry.ended.size() == kEndedMax) entry.ended.erase(entry.ended.begin());
    entry.ended.push_back(entry.member.incarnation);
  }
  entry.greeted = false;
  set_state(entry, MemberState::kDown);
}

void StaticMembership::set_state(Entry& entry, MemberState state) {
  if (entry.member.state == state) return;
  entry.member.state = state;
  changed_ = true;
}

void StaticMembership::refuse(Entry& entry, const std::string& text) {
  if (is_up(entry)) emit(MembershipAction::Kind::kMemberDown, entry);
  if (is_up(entry)) set_state(entry, MemberState::kDown);
  entry.greeted = false;
  if (entry.member.refusal == text) return;
  entry.member.refusal = text;
  changed_ = true;
  emit(MembershipAction::Kind::kMemberRefused, entry);
}

void StaticMembership::emit(MembershipAction::Kind kind, const Entry& entry) {
  pending_.push_back({kind, narrow<uint32_t>(&entry - entries_.data()), Nanos(0), entry.member.node,
                      entry.member.incarnation});
}

void StaticMembership::publish_view() {
  if (!changed_) return;
  changed_ = false;
  epoch_ = next(epoch_);
  std::vector<Member> members;
  members.reserve(entries_.size());
  for (const Entry& entry : entries_) members.push_back(entry.member);
  view_ = std::make_shared<const View>(epoch_, std::move(members));
}

// --- what peers say ----------------------------------------------------------------------------

HelloReplyMessage StaticMembership::on_hello(const HelloMessage& hello, Nanos now) {
  HelloReplyMessage reply{options_.terms, options_.self, {}};
  const NodeIdentity& from = hello.identity;
  reply.refusal = check_terms(options_.terms, hello.terms);
  if (!reply.refusal.empty() || is_self(from)) return reply;
  if (from.node == NodeId{}) {
    reply.refusal = "the hello has no node id";
  } else if (from.node == options_.self.node) {
    reply.refusal = "node id " + options_.self.node_name + " is this node's; it is used twice";
  } else {
    Entry* entry = entry_of(from.node);
    if (entry == nullptr) entry = entry_at(from.control_address);
    if (entry != nullptr && !entry->member.self) {
      greet(*entry, hello, reply, now);
    } else {
      // Perhaps a member whose address we write differently: whoever is missing is asked again.
      for (Entry& other : entries_) {
        if (!other.member.self && !is_up(other)) call_soon(other, now);
      }
    }
  }
  publish_view();
  return reply;
}

/// A member that we know by its address or node id greets us.
void StaticMembership::greet(Entry& entry,
                             const HelloMessage& hello,
                             HelloReplyMessage& reply,
                             Nanos now) {
  const NodeIdentity& from = hello.identity;
  if (std::find(entry.ended.begin(), entry.ended.end(), from.incarnation) != entry.ended.end()) {
    reply.refusal = "incarnation " + std::to_string(from.incarnation.value()) + " of node " +
                    from.node_name + " was replaced by another; is the node id used twice?";
    return;
  }
  if (entry.member.node != from.node || entry.member.incarnation != from.incarnation) {
    adopt(entry,
          from);  // the old incarnation is dead at once; the new one is up when it has answered us
  }
  if (entry.member.state != MemberState::kUp) call_soon(entry, now);
}

HeartbeatReplyMessage StaticMembership::on_heartbeat(const HeartbeatMessage& heartbeat, Nanos now) {
  HeartbeatReplyMessage reply{options_.self.node, options_.self.incarnation, false, 0};
  Entry* entry = entry_of(heartbeat.node);
  if (entry == nullptr || entry->member.self ||
      entry->member.incarnation != heartbeat.incarnation) {
    return reply;
  }
  reply.known = true;
  if (entry->member.state != MemberState::kUp) call_soon(*entry, now);
  return reply;
}

void StaticMembership::on_leave(const LeaveMessage& leave, Nanos now) {
  Entry* entry = entry_of(leave.node);
  if (entry == nullptr || entry->member.self || entry->member.incarnation != leave.incarnation) {
    return;
  }
  end_incarnation(*entry, MembershipAction::Kind::kMemberDown);
  entry->pause = millis(options_.retry_ms_max) / 2;
  entry->next_call_at = now + longer_pause(*entry);
  publish_view();
}

void StaticMembership::on_peer_lost(NodeId node, Incarnation incarnation, Nanos now) {
  Entry* entry = entry_of(node);
  if (entry == nullptr || entry->member.self || entry->member.incarnation != incarnation) return;
  if (entry->member.state == MemberState::kUp) {
    set_state(*entry, MemberState::kSuspect);
    emit(MembershipAction::Kind::kMemberSuspect, *entry);
  }
  call_soon(*entry, now);
  publish_view();
}

// --- what our calls bring ----------------------------------------------------------------------

/// Empty if the member may be adopted.
std::string StaticMembership::why_refused(const Entry& entry, const HelloReplyMessage& reply) {
  const NodeIdentity& from = reply.identity;
  if (!reply.refusal.empty()) return "it says: " + reply.refusal;
  if (std::string text = check_terms(options_.terms, reply.terms); !text.empty()) return text;
  if (from.node == NodeId{}) return "its hello has no node id";
  if (from.node == options_.self.node) {
    return "node id " + options_.self.node_name + " is used by this node as well";
  }
  const Entry* other = entry_of(from.node);
  if (other != nullptr && other != &entry) {
    return "node id " + from.node_name + " is used by member " + other->member.control_address +
           " as well";
  }
  return {};
}

void StaticMembership::on_hello_result(uint32_t member_index,
                                       const Result<HelloReplyMessage>& result,
                                       Nanos now) {
  if (member_index >= entries_.size()) return;  // an appended self that found its place meanwhile
  Entry& entry = entries_[member_index];
  entry.call_under_way = false;
  if (!result) {
    call_failed(entry, result.error(), now);
  } else if (is_self(result->identity)) {
    adopt_self(entry);
    if (self_appended_) {
      self_appended_ = false;
      entries_.pop_back();
    }
  } else if (const std::string text = why_refused(entry, *result); !text.empty()) {
    refuse(entry, text);
    entry.pause = millis(options_.retry_ms_max);
    entry.next_call_at = now + longer_pause(entry);
  } else if (std::find(entry.ended.begin(), entry.ended.end(), result->identity.incarnation) !=
             entry.ended.end()) {
    entry.next_call_at = now + longer_pause(entry);  // (M2) the last words of an old process
  } else {
    adopt(entry, result->identity);
    entry.greeted = true;
    entry.member.refusal.clear();
    heard_from(entry, now);
  }
  publish_view();
}

void StaticMembership::on_heartbeat_result(uint32_t member_index,
                                           const Result<HeartbeatReplyMessage>& result,
                                           Nanos now) {
  if (member_index >= entries_.size()) return;
  Entry& entry = entries_[member_index];
  entry.call_under_way = false;
  if (!result) {
    call_failed(entry, result.error(), now);
  } else if (result->node != entry.member.node || result->incarnation != entry.member.incarnation) {
    // Another process answers at the address; who it is, a hello will say. If a hello of its own
    // has told us during the call, the reply is of the incarnation before, and a hello does no
    // harm.
    if (std::find(entry.ended.begin(), entry.ended.end(), result->incarnation) ==
        entry.ended.end()) {
      end_incarnation(entry, MembershipAction::Kind::kMemberReplaced);
    }
    entry.greeted = false;
    entry.next_call_at = now;
  } else {
    heard_from(entry, now);
    if (!result->known) {
      entry.greeted = false;
      entry.next_call_at = now;
    }
  }
  publish_view();
}

void StaticMembership::heard_from(Entry& entry, Nanos now) {
  entry.heard_at = now;
  entry.pause = Nanos(0);
  entry.call_again = false;
  entry.next_call_at = now + millis(options_.heartbeat_interval_ms);
  if (entry.member.state == MemberState::kUp) return;
  set_state(entry, MemberState::kUp);
  emit(MembershipAction::Kind::kMemberUp, entry);
}

void StaticMembership::call_failed(Entry& entry, const Error& error, Nanos now) {
  const bool again = std::exchange(entry.call_again, false);
  if (entry.member.self) return;
  if (is_up(entry) && error.code == Errc::kConnectRefused) {
    // The host answers and nobody listens: the process is gone. (A frozen one still accepts.)
    emit(MembershipAction::Kind::kMemberDown, entry);
    set_state(entry, MemberState::kDown);
    entry.greeted = false;
  } else if (entry.member.state == MemberState::kUp && error.code == Errc::kPeerLost) {
    emit(MembershipAction::Kind::kMemberSuspect, entry);
    set_state(entry, MemberState::kSuspect);
    entry.next_call_at = now;
    return;
  }
  entry.next_call_at = again ? now : now + longer_pause(entry);
}

/// Doubled, between the limits, and up to a quarter shorter, so that a cluster does not beat in
/// time.
Nanos StaticMembership::longer_pause(Entry& entry) {
  entry.pause =
      std::clamp(entry.pause * 2, millis(options_.retry_ms_min), millis(options_.retry_ms_max));
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return entry.pause - entry.pause / 4 * static_cast<int64_t>(random_ % 1024) / 1024;
}

void StaticMembership::call_soon(Entry& entry, Nanos now) {
  if (entry.call_under_way) {
    entry.call_again = true;
  } else {
    entry.next_call_at = now;
  }
}

// --- time --------------------------------------------------------------------------------------

void StaticMembership::check_silence(Entry& entry, Nanos now) {
  if (!is_up(entry)) return;
  const Nanos ttl = millis(options_.member_ttl_ms);
  const Nanos silent = now - entry.heard_at;
  if (silent >= ttl) {
    emit(MembershipAction::Kind::kMemberDown, entry);
    set_state(entry, MemberState::kDown);
    entry.greeted = false;
  } else if (silent >= ttl / 2 && entry.member.state == MemberState::kUp) {
    emit(MembershipAction::Kind::kMemberSuspect, entry);
    set_state(entry, MemberState::kSuspect);
  }
}

void StaticMembership::step(Nanos now, std::vector<MembershipAction>& actions) {
  for (Entry& entry : entries_) {
    if (!entry.member.self) check_silence(entry, now);
  }
  publish_view();  // events below speak of this view
  actions.insert(actions.end(), pending_.begin(), pending_.end());
  pending_.clear();
  for (Entry& entry : entries_) {
    if (entry.member.self || entry.call_under_way || entry.next_call_at > now) continue;
    entry.call_under_way = true;  // (M1)
    actions.push_back({entry.greeted ? MembershipAction::Kind::kSendHeartbeat
                                     : MembershipAction::Kind::kSendHello,
                       narrow<uint32_t>(&entry - entries_.data()), millis(options_.call_timeout_ms),
                       entry.member.node, entry.member.incarnation});
  }
}

Nanos StaticMembership::next_due() const {
  if (!pending_.empty()) return Nanos(0);
  const Nanos ttl = millis(options_.member_ttl_ms);
  Nanos due = Nanos::max();
  for (const Entry& entry : entries_) {
    if (entry.member.self) continue;
    if (!entry.call_under_way) due = std::min(due, entry.next_call_at);
    if (entry.member.state == MemberState::kUp) due = std::min(due, entry.heard_at + ttl / 2);
    if (entry.member.state == MemberState::kSuspect) due = std::min(due, entry.heard_at + ttl);
  }
  return due;
}

bool StaticMembership::settled() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.member.state == MemberState::kUp || !entry.member.refusal.empty();
  });
}

void StaticMembership::check_invariants() const {
  uint32_t self_count = 0;
  for (const Entry& entry : entries_) {
    if (entry.member.self) ++self_count;
    PC_ASSERT(!is_up(entry) || entry.member.node != NodeId{});
    PC_ASSERT(!entry.greeted || entry.member.node != NodeId{});
    PC_ASSERT(entry.ended.size() <= kEndedMax, entry.ended.size());
    if (is_up(entry) && !entry.member.self) {  // (M2)
      PC_ASSERT(std::find(entry.ended.begin(), entry.ended.end(), entry.member.incarnation) ==
                entry.ended.end());
    }
  }
  PC_ASSERT(self_count >= 1, self_count);
  PC_ASSERT(view_ != nullptr);
}

}  // namespace peercache
