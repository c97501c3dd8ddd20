#include "controlplane/node/conductor.h"

#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>

#include "controlplane/wire/host_port.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/log.h"
#include "dataplane/wire/rail_handshake.h"

namespace peercache {
namespace {

// Below the serving engine's threads, above the idle class: heartbeats live here.
constexpr int kNice = 5;

// After work, so long without sleeping: a put's next message usually follows within this time, and
// a wake-up costs more.
constexpr Nanos kSpin = std::chrono::microseconds(30);

constexpr Nanos kRestMax = std::chrono::milliseconds(100);
constexpr Nanos kStatsEvery = std::chrono::milliseconds(20);

DirectoryClientOptions directory_options(const NodeOptions& options,
                                         const Conductor::Identity& identity) {
  DirectoryClientOptions directory;
  directory.node = identity.node;
  directory.incarnation = identity.incarnation;
  directory.replicas_count = options.directory_replicas;
  return directory;
}

}  // namespace

Result<std::unique_ptr<Conductor>> Conductor::open(const NodeOptions& options,
                                                   Identity identity,
                                                   PeerDirectory& peers,
                                                   RoutesCell& routes) {
  PC_TRY_ASSIGN(auto loop, RpcLoop::open());
  PC_TRY_ASSIGN(auto event, WakeEvent::open());
  // Alone: one place, whatever it is called; the address is known only after listening.
  std::vector<std::string> addresses = options.members;
  if (addresses.empty()) addresses.emplace_back("localhost:0");
  std::vector<std::string> holders;
  for (const uint32_t i : choose_holders(addresses, options.directory_replicas)) {
    holders.push_back(addresses[i]);
  }
  PC_TRY_ASSIGN(HashRing ring, HashRing::make(holders, options.vnodes));
  std::unique_ptr<Conductor> conductor(
      new Conductor(options, std::move(identity), peers, routes, std::move(loop), std::move(event),
                    std::make_shared<const HashRing>(std::move(ring)), std::move(holders)));
  PC_TRY(conductor->listen());
  return conductor;
}

Conductor::Conductor(const NodeOptions& options,
                     Identity identity,
                     PeerDirectory& peers,
                     RoutesCell& routes,
                     std::unique_ptr<RpcLoop> loop,
                     std::unique_ptr<WakeEvent> event,
                     std::shared_ptr<const HashRing> ring,
                     std::vector<std::string> holder_addresses)
    : options_(options),
      identity_(std::move(identity)),
      peers_(peers),
      routes_(routes),
      ring_(std::move(ring)),
      holder_members_(std::move(holder_addresses)),
      loop_(std::move(loop)),
      event_(std::move(event)),
      directory_(directory_options(options, identity_), ring_),
      suspects_(SuspectsOptions{}) {}

Conductor::~Conductor() { stop(); }

Result<void> Conductor::listen() {
  RpcServerOptions server;
  server.bind_host = options_.control_bind_host;
  server.port = options_.control_port;
  PC_TRY_ASSIGN(server_,
                RpcServer::open(*loop_, server, [this](const RpcRequest& request, RpcReply reply) {
                  handle(request, std::move(reply));
                }));
  control_address_ = server_->address();
  if (options_.members.empty()) holder_members_[0] = control_address_;
  const auto own = std::find(holder_members_.begin(), holder_members_.end(), control_address_);
  if (own != holder_members_.end()) {
    own_holder_index_ = static_cast<uint32_t>(own - holder_members_.begin());
  }
  RpcClientOptions client;
  client.connect_timeout_ms = options_.connect_timeout_ms;
  client_ = RpcClient::open(*loop_, client);
  return {};
}

Result<void> Conductor::attach(const Attachments& attachments) {
  parts_ = attachments;
  PC_ASSERT(holds_shard() == (parts_.directory_memory != nullptr));
  if (holds_shard()) {
    PC_TRY_ASSIGN(DirectoryShard shard,
                  DirectoryShard::open(parts_.directory_memory, parts_.directory_length));
    shard_ = std::make_unique<DirectoryShard>(std::move(shard));
  }
  parts_.pool->set_agent_event(event_.get());
  PC_TRY_ASSIGN([[maybe_unused]] const WatchId event_watch,
                loop_->watch_fd(event_->fd(), [this] { event_->consume(); }));
  PC_TRY_ASSIGN([[maybe_unused]] const WatchId endpoint_watch,
                loop_->watch_fd(parts_.endpoint->epoll_fd(), [this] { endpoint_ready_ = true; }));
  return join();
}

Result<void> Conductor::join() {
  StaticMembershipOptions membership;
  membership.terms.cluster_name = identity_.cluster_name;
  membership.terms.wire_version_id = kWireVersion;
  membership.terms.hash_version_id = kHashVersion;
  membership.terms.vnodes_count = options_.vnodes;
  membership.terms.replicas_count = options_.directory_replicas;
  membership.terms.member_ttl_ms = options_.member_ttl_ms;
  membership.self.node_name = identity_.node_name;
  membership.self.node = identity_.node;
  membership.self.incarnation = identity_.incarnation;
  membership.self.host_id = identity_.host_id;
  membership.self.control_address = control_address_;
  if (options_.shm != ShmMode::kOff) membership.self.shm_path = parts_.endpoint->socket_path();
  membership.members = options_.members;
  membership.heartbeat_interval_ms = options_.heartbeat_interval_ms;
  membership.member_ttl_ms = options_.member_ttl_ms;
  membership.seed = identity_.incarnation.value();
  PC_TRY_ASSIGN(membership_, StaticMembership::open(std::move(membership), monotonic_now()));
  if (holds_shard())
    directory_.holder_up(own_holder_index_, identity_.incarnation, monotonic_now());
  rebuild_routes();
  publish_stats();
  return {};
}

Result<void> Conductor::start() {
  thread_ = std::thread([this] { run(); });
  return {};
}

void Conductor::stop() {
  if (!thread_.joinable()) return;
  stop_.store(
      true,
      std::
          memory_order_release);  // H1 release: meets H2 in run(); what led to the stop is visible.
  event_->wake();
  thread_.join();
}

void Conductor::run() {
  // Only this thread: the id 0 means the caller. Not permitted: it runs at the process's level.
  static_cast<void>(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNice));
  Nanos worked_at = fast_now();
  while (!stop_.load(std::memory_order_acquire)) {  // H2 acquire: meets H1 in stop().
    const Nanos now = fast_now();
    if (poll_once(now) > 0) {
      worked_at = now;
    } else if (now - worked_at > kSpin) {
      rest(now);
      worked_at = fast_now() - kSpin;
    }
  }
  if (membership_ != nullptr) {
    const LeaveMessage leave{identity_.node, identity_.incarnation};
    for (const auto& [address, peer] : rpc_peers_) client_->notify(peer, leave);
    // Time for the good-byes to leave; whoever does not get it sees the socket close.
    loop_->run_for(std::chrono::milliseconds(5));
  }
  client_->close();
  server_->close();
  loop_->poll_once();
}

void Conductor::rest(Nanos now) {
  event_->announce_sleep();
  // The second look, after the announcement: a push before it would not wake us.
  if (poll_once(now) == 0) {
    const Nanos longest = std::min(kRestMax, next_due(now) - now);
    if (longest > Nanos(0)) loop_->run_for(longest);
  }
  event_->cancel_sleep();
}

Nanos Conductor::next_due(Nanos now) const {
  Nanos due = std::min(membership_->next_due(), directory_.next_due());
  due = std::min({due, suspects_.next_due(), parts_.endpoint->next_due(now)});
  if (!touches_.empty() || !missing_.empty() || !bad_payloads_.empty()) {
    due = std::min(due, notices_due_);
  }
  if (!ready_.load(std::memory_order_relaxed)) due = std::min(due, retry_due_);  // own value
  return std::max(due, now);
}

int Conductor::poll_once(Nanos now) {
  int work = parts_.pool->poll_once(now);
  work += drain_notices(now);
  const int events = loop_->poll_once();
  messages_count_ += static_cast<uint64_t>(events);
  work += events;
  if (endpoint_ready_ || parts_.endpoint->next_due(now) <= now) {
    endpoint_ready_ = false;
    work += parts_.endpoint->poll_once(now);
    admit_peers();
  }
  step_members(now);
  work += step_directory(now);
  step_suspects(now);
  retry_connections(now);
  if (routes_dirty_) rebuild_routes();
  check_flushes();
  if (now >= stats_due_) {
    stats_due_ = now + kStatsEvery;
    publish_stats();
  }
  return work;
}

void Conductor::request_flush(std::shared_ptr<FlushWaiter> waiter) {
  loop_->post([this, waiter = std::move(waiter)] {
    // What clients have queued comes first: bounded, since they may go on publishing.
    for (int turn = 0; turn < 1000 && parts_.pool->poll_once(fast_now()) > 0; ++turn) {
    }
    waiter->target = directory_.flush_target();
    flushes_.push_back(waiter);
  });
  event_->wake();
}

void Conductor::check_flushes() {
  std::erase_if(flushes_, [this](const std::shared_ptr<FlushWaiter>& waiter) {
    if (!directory_.flushed(waiter->target)) return false;
    waiter->done.store(true, std::memory_order_release);  // E1 release: meets E2 in Node::flush.
    return true;
  });
}

void Conductor::publish_stats() {
  ConductorStats stats;
  const std::shared_ptr<const View> view = membership_->view();
  stats.members_count = static_cast<uint32_t>(view->members().size());
  stats.members_up_count = view->up_count();
  stats.epoch_count = view->epoch().value();
  stats.suspects_count = suspects_.marked_count();
  stats.directory_lag_count = directory_.lag();
  if (shard_ != nullptr) {
    const ShardStats shard = shard_->stats();
    stats.directory_records_count = shard.records_count;
    stats.directory_dropped_count = shard.dropped_count;
  }
  stats.messages_count = messages_count_;
  for (const Member& member : view->members()) {
    const PeerIndex peer = peers_.find(member.node, member.incarnation);
    if (peer != PeerDirectory::kNone) stats.peers.push_back({peer, member.node_name});
  }
  const MutexLock lock(stats_mutex_);
  stats_ = std::move(stats);
}

ConductorStats Conductor::stats() const {
  const MutexLock lock(stats_mutex_);
  return stats_;
}

std::string Conductor::refusal() const {
  const MutexLock lock(stats_mutex_);
  return refusal_;
}

}  // namespace peercache
