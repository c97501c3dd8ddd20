// Who is there: greetings and heartbeats, shm connections to members of the same host, and the routes that follow.

#include <algorithm>

#include "controlplane/node/conductor.h"
#include "dataplane/base/log.h"

namespace peercache {
namespace {

// An shm connection that was refused or lost is tried again after this, as long as the member is up.
constexpr Nanos kReconnectEvery = std::chrono::milliseconds(200);

}  // namespace

void Conductor::step_members(Nanos now) {
  if (now < membership_->next_due()) return;
  actions_.clear();
  const Epoch before = membership_->view()->epoch();
  membership_->step(now, actions_);
  for (const MembershipAction& action : actions_) act(action, now);
  if (membership_->view()->epoch() != before || !actions_.empty()) routes_dirty_ = true;
}

void Conductor::act(const MembershipAction& action, Nanos now) {
  switch (action.kind) {
    case MembershipAction::Kind::kSendHello:
      send_hello(action);
      break;
    case MembershipAction::Kind::kSendHeartbeat:
      send_heartbeat(action);
      break;
    case MembershipAction::Kind::kMemberUp:
      member_up(action, now);
      break;
    case MembershipAction::Kind::kMemberSuspect:
      break;  // what it published stays readable: over shm its code does not run
    case MembershipAction::Kind::kMemberDown:
    case MembershipAction::Kind::kMemberReplaced:
      member_gone(action);
      break;
    case MembershipAction::Kind::kMemberRefused: {
      const std::shared_ptr<const View> view = membership_->view();
      const Member& member = view->members()[action.member_index];
      PC_LOG_WARN("member {} refused: {}", member.control_address, member.refusal);
      const MutexLock lock(stats_mutex_);
      refusal_ = member.control_address + ": " + member.refusal;
      break;
    }
  }
}

RpcPeerId Conductor::rpc_peer_of(const std::string& address) {
  const auto known = rpc_peers_.find(address);
  if (known != rpc_peers_.end()) return known->second;
  const Result<RpcPeerId> peer = client_->add_peer(address);
  PC_ASSERT(peer.has_value());  // the membership has checked its addresses
  rpc_peers_.emplace(address, *peer);
  return *peer;
}

void Conductor::send_hello(const MembershipAction& action) {
  const std::shared_ptr<const View> view = membership_->view();
  const Member& member = view->members()[action.member_index];
  client_->call(rpc_peer_of(member.control_address), membership_->own_hello(), action.timeout,
                [this, index = action.member_index](Result<Message> reply) {
                  Result<HelloReplyMessage> result =
                      make_error(Errc::kUnsupported, "not a hello reply");
                  if (!reply) {
                    result = reply.error();
                  } else if (auto* hello = std::get_if<HelloReplyMessage>(&*reply)) {
                    result = std::move(*hello);
                  }
                  membership_->on_hello_result(index, result, fast_now());
                });
}

void Conductor::send_heartbeat(const MembershipAction& action) {
  const std::shared_ptr<const View> view = membership_->view();
  const Member& member = view->members()[action.member_index];
  client_->call(rpc_peer_of(member.control_address), membership_->own_heartbeat(), action.timeout,
                [this, index = action.member_index](Result<Message> reply) {
                  Result<HeartbeatReplyMessage> result =
                      make_error(Errc::kUnsupported, "not a heartbeat reply");
                  if (!reply) {
                    result = reply.error();
                  } else if (auto* beat = std::get_if<HeartbeatReplyMessage>(&*reply)) {
                    result = *beat;
                  }
                  const Nanos now = fast_now();
                  membership_->on_heartbeat_result(index, result, now);
                  const uint32_t holder = holder_of_member(index);
                  if (result && result->known && holder != kNotHolder) {
                    directory_.holder_purged(holder, result->purged_count, now);
                  }
                });
}

uint32_t Conductor::holder_of_member(uint32_t member_index) const {
  const std::shared_ptr<const View> view = membership_->view();
  const std::string& address = view->members()[member_index].control_address;
  const auto holder = std::find(holder_members_.begin(), holder_members_.end(), address);
  if (holder == holder_members_.end()) return kNotHolder;
  return static_cast<uint32_t>(holder - holder_members_.begin());
}

bool Conductor::shm_possible(const Member& member) const {
  return options_.shm != ShmMode::kOff && !member.self && !member.shm_path.empty() &&
         member.host_id == identity_.host_id;
}

void Conductor::member_up(const MembershipAction& action, Nanos now) {
  const std::shared_ptr<const View> view = membership_->view();
  const Member& member = view->members()[action.member_index];
  PC_LOG_INFO("member {} up, node {}, incarnation {}", member.control_address, member.node_name,
              member.incarnation.value());
  const uint32_t holder = holder_of_member(action.member_index);
  if (holder != kNotHolder) directory_.holder_up(holder, member.incarnation, now);
  const PeerIndex peer = peers_.find(member.node, member.incarnation);
  if (peer != PeerDirectory::kNone && peers_.state(peer) == PeerState::kSuspect) {
    peers_.set_state(peer, PeerState::kUp);  // it was silent, its memory stayed mapped
  }
  if (shm_possible(member)) connect_shm(member);
}

void Conductor::member_gone(const MembershipAction& action) {
  const std::shared_ptr<const View> view = membership_->view();
  const Member& member = view->members()[action.member_index];
  PC_LOG_WARN("member {} down, node {}, incarnation {}", member.control_address, member.node_name,
              action.incarnation.value());
  const uint32_t holder = holder_of_member(action.member_index);
  if (holder != kNotHolder) directory_.holder_down(holder);
  if (shard_ != nullptr) shard_->purge(action.node, action.incarnation);
  connecting_since_.erase(action.node);
}

void Conductor::connect_shm(const Member& member) {
  if (peers_.find(member.node, member.incarnation) != PeerDirectory::kNone) return;
  if (connecting_since_.contains(member.node)) return;
  connecting_since_[member.node] = fast_now();
  const Result<void> begun =
      parts_.endpoint->connect(member.shm_path, member.node.value(), fast_now());
  if (!begun) {
    PC_LOG_WARN("shm connection to node {}: {}", member.node_name, to_string(begun.error()));
    connecting_since_.erase(member.node);
  }
}

/// Members that are up and not connected: a connection was lost while its member lived on, or it was refused.
void Conductor::retry_connections(Nanos now) {
  if (now < retry_due_) return;
  retry_due_ = now + kReconnectEvery;
  const std::shared_ptr<const View> view = membership_->view();
  for (const Member& member : view->members()) {
    if (member.state == MemberState::kUp && shm_possible(member)) connect_shm(member);
  }
  update_ready();
}

Result<PeerIndex> Conductor::on_peer_up(uint64_t cookie_id,
                                        const Hello& hello,
                                        const ShmPeerMapping& /*mapping*/) {
  connecting_since_.erase(NodeId(cookie_id));
  const std::shared_ptr<const View> view = membership_->view();
  const Member* member = view->find(hello.node);
  if (hello.node.value() != cookie_id || member == nullptr ||
      member->incarnation != hello.incarnation) {
    return make_error(Errc::kUnknownMember, "shm hello of node {} where node {} was expected",
                      hello.node.value(), cookie_id);
  }
  PeerInfo info;
  info.node = hello.node;
  info.incarnation = hello.incarnation;
  info.region_count = narrow<uint32_t>(hello.regions.size());
  std::copy(hello.regions.begin(), hello.regions.end(), info.regions.begin());
  PC_TRY_ASSIGN(const PeerIndex peer, peers_.add(info));
  newly_up_.push_back(peer);
  PC_LOG_INFO("shm connection to node {} up, {} regions", hello.node_name, hello.regions.size());
  return peer;
}

void Conductor::admit_peers() {
  for (const PeerIndex peer : newly_up_) {
    peers_.set_state(peer, PeerState::kUp);
    routes_dirty_ = true;
  }
  newly_up_.clear();
}

void Conductor::on_peer_refused(uint64_t cookie_id, const Error& error, const std::string& reason) {
  connecting_since_.erase(NodeId(cookie_id));
  const std::shared_ptr<const View> view = membership_->view();
  const Member* member = view->find(NodeId(cookie_id));
  const std::string& name = member != nullptr ? member->node_name : reason;
  PC_LOG_WARN("shm connection to node {} failed: {} {}", name, to_string(error), reason);
}

void Conductor::on_peer_down(PeerIndex peer) {
  peers_.set_state(peer, PeerState::kGone);
  suspects_.forget(peer);
  const PeerInfo* info = peers_.info(peer);
  if (info != nullptr) membership_->on_peer_lost(info->node, info->incarnation, fast_now());
  routes_dirty_ = true;
}

void Conductor::rebuild_routes() {
  routes_dirty_ = false;
  auto routes = std::make_shared<DirectoryRoutes>();
  const std::shared_ptr<const View> view = membership_->view();
  routes->epoch = view->epoch();
  routes->ring = ring_;
  routes->replicas_count = options_.directory_replicas;
  routes->holders.resize(holder_members_.size());
  for (uint32_t h = 0; h < holder_members_.size(); ++h) {
    DirectoryRoutes::Holder& holder = routes->holders[h];
    for (uint32_t m = 0; m < view->members().size(); ++m) {
      const Member& member = view->members()[m];
      if (member.control_address != holder_members_[h]) continue;
      holder.member_index = m;
      holder.live =
          member.self || member.state == MemberState::kUp || member.state == MemberState::kSuspect;
      holder.peer = member.self ? parts_.self : peers_.find(member.node, member.incarnation);
    }
    if (h == own_holder_index_) {
      holder.live = true;
      holder.peer = parts_.self;
    }
    if (holder.peer == PeerDirectory::kNone) continue;
    // A silent holder's table stays readable while it is mapped; one whose process ended is gone.
    const PeerState state = peers_.state(holder.peer);
    holder.live = state == PeerState::kUp || (holder.live && state == PeerState::kSuspect);
    const PeerInfo* info = peers_.info(holder.peer);
    const auto regions = info->region_table();
    const auto table = std::find_if(regions.begin(), regions.end(), [](const RegionDescriptor& r) {
      return r.kind == RegionKind::kDirectory;
    });
    if (table != regions.end()) {
      holder.table = table->region;
    } else {
      holder.peer = PeerDirectory::kNone;
    }
  }
  routes_.set(std::move(routes));
  update_ready();
}

void Conductor::update_ready() {
  bool ready = membership_->settled();
  const std::shared_ptr<const View> view = membership_->view();
  for (const Member& member : view->members()) {
    if (member.state != MemberState::kUp || !shm_possible(member)) continue;
    const PeerIndex peer = peers_.find(member.node, member.incarnation);
    ready = ready && peer != PeerDirectory::kNone && peers_.state(peer) != PeerState::kAbsent;
  }
  ready_.store(ready,
               std::memory_order_release);  // G2 release: meets G1 in ready(); the routes are set.
}

}  // namespace peercache
