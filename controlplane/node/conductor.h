#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "controlplane/directory/directory_client.h"
#include "controlplane/directory/directory_shard.h"
#include "controlplane/membership/static_membership.h"
#include "controlplane/node/call_shared.h"
#include "controlplane/node/node_notice.h"
#include "controlplane/node/node_options.h"
#include "controlplane/rpc/rpc_client.h"
#include "controlplane/rpc/rpc_loop.h"
#include "controlplane/rpc/rpc_server.h"
#include "controlplane/suspects.h"
#include "dataplane/base/thread_role.h"
#include "dataplane/engine/peer_directory.h"
#include "dataplane/pool/published_pool.h"
#include "dataplane/queue/spsc_ring.h"
#include "dataplane/transport/shm/shm_endpoint.h"

namespace peercache {

/// Figures that only the conductor's thread knows; copied out for Node::stats.
struct ConductorStats {
  uint32_t members_count = 0;
  uint32_t members_up_count = 0;
  uint64_t epoch_count = 0;
  uint64_t suspects_count = 0;
  uint64_t directory_lag_count = 0;
  uint64_t directory_records_count = 0;
  uint64_t directory_dropped_count = 0;
  uint64_t messages_count = 0;
  struct PeerName {
    PeerIndex peer{0};
    std::string node_name;
  };
  std::vector<PeerName> peers;
};

/// The control thread of a node: RPC, membership, directory shard and updates, shm handshakes,
/// suspects, and the pool agent's
/// turns. Decisions are in the pure classes it owns; this is their shell.
///
/// THREAD:     conductor, from start() on; `ask`, `wake`, `request_flush`, `stats`, `ready` any;
///             open, attach, start, stop the
///             thread that owns the node.
/// OWNS:       event loop, RPC server and client, the pure cores. BORROWS: endpoint, pool, peers,
///             routes, notice rings.
/// INVARIANTS: (K1) nothing here blocks but the loop's bounded sleep. (K2) routes are rebuilt
///             before the next call sees a
///             member or connection change that the conductor has seen.
class Conductor final : public ConductorDoor, public ShmListener {
 public:
  struct Identity {
    std::string node_name;
    NodeId node{};
    Incarnation incarnation{};
    std::string host_id;
    std::string cluster_name;
  };

  /// Listens on the control address. Errors: kSystem (address in use), kBadValue (members).
  static Result<std::unique_ptr<Conductor>> open(const NodeOptions& options,
                                                 Identity identity,
                                                 PeerDirectory& peers,
                                                 RoutesCell& routes);
  ~Conductor() override;

  /// True if this node's place in the ring holds a shard, and thus needs a directory table.
  bool holds_shard() const { return own_holder_index_ != kNotHolder; }
  uint32_t holder_count() const { return static_cast<uint32_t>(holder_members_.size()); }
  PoolListener* pool_listener() { return &directory_; }

  struct Attachments {
    ShmEndpoint* endpoint = nullptr;
    PublishedPool* pool = nullptr;
    PoolClient* pool_client =
        nullptr;  ///< the conductor's own: touches and removals that peers ask for
    std::byte* directory_memory = nullptr;
    Bytes directory_length{0};
    PeerIndex self{0};
    RegionIndex directory_region{0};
    std::vector<SpscRing<NodeNotice>*> notices;
  };
  /// Hands over what could be built only after open. REQUIRES: before start.
  Result<void> attach(const Attachments& attachments);

  Result<void> start();
  /// Says good-bye and ends the thread; at most about a second.
  void stop();

  /// One turn; for the thread and for tests that step.
  int poll_once(Nanos now);

  void ask(std::shared_ptr<RpcLookup> lookup) override;
  void wake() override { event_->wake_if_sleeping(); }

  /// Completes `waiter` once every live holder has acknowledged all that was published before.
  struct FlushWaiter {
    std::atomic<bool> done{false};  // E1 release by the conductor: meets E2 in Node::flush.
    uint64_t target = 0;
  };
  void request_flush(std::shared_ptr<FlushWaiter> waiter);

  /// Every member is up (or refused us), and connected where shm can.
  bool ready() const {
    return ready_.load(std::memory_order_acquire);
  }  // G1 acquire: meets G2 in update_ready().
  /// Why a member refused this node, if one did.
  std::string refusal() const PC_EXCLUDES(stats_mutex_);
  ConductorStats stats() const PC_EXCLUDES(stats_mutex_);
  const std::string& control_address() const { return control_address_; }

  // ShmListener.
  Result<PeerIndex> on_peer_up(uint64_t cookie_id,
                               const Hello& hello,
                               const ShmPeerMapping& mapping) override;
  void on_peer_refused(uint64_t cookie_id, const Error& error, const std::string& reason) override;
  void on_peer_down(PeerIndex peer) override;

 private:
  static constexpr uint32_t kNotHolder = UINT32_MAX;

  Conductor(const NodeOptions& options,
            Identity identity,
            PeerDirectory& peers,
            RoutesCell& routes,
            std::unique_ptr<RpcLoop> loop,
            std::unique_ptr<WakeEvent> event,
            std::shared_ptr<const HashRing> ring,
            std::vector<std::string> holder_addresses);
  Result<void> listen();
  Result<void> join();
  void run();
  void rest(Nanos now);
  Nanos next_due(Nanos now) const;

  // conductor_members.cc
  void step_members(Nanos now);
  void act(const MembershipAction& action, Nanos now);
  void send_hello(const MembershipAction& action);
  void send_heartbeat(const MembershipAction& action);
  void member_up(const MembershipAction& action, Nanos now);
  void member_gone(const MembershipAction& action);
  void connect_shm(const Member& member);
  void retry_connections(Nanos now);
  void admit_peers();
  RpcPeerId rpc_peer_of(const std::string& address);
  uint32_t holder_of_member(uint32_t member_index) const;
  void rebuild_routes();
  void update_ready();
  bool shm_possible(const Member& member) const;

  // conductor_directory.cc
  int step_directory(Nanos now);
  void send_update(const OutgoingUpdate& outgoing);
  void answer_lookup(const std::shared_ptr<RpcLookup>& lookup);
  void ask_chunk(const std::shared_ptr<RpcLookup>& lookup, RpcPeerId peer, size_t from);
  int drain_notices(Nanos now);
  void send_notices();
  void report_missing(const std::vector<Location>& locations);
  void step_suspects(Nanos now);
  void check_flushes();

  // conductor_server.cc
  void handle(const RpcRequest& request, RpcReply reply);
  Message answer(const Message& message);

  void publish_stats();

  // Immutable after attach.
  const NodeOptions& options_;
  Identity identity_;
  std::string control_address_;
  PeerDirectory& peers_;
  RoutesCell& routes_;
  Attachments parts_;
  std::shared_ptr<const HashRing> ring_;
  std::vector<std::string> holder_members_;  // control address of holder i
  uint32_t own_holder_index_ = kNotHolder;

  // conductor_: only the conductor's thread, once started.
  std::unique_ptr<RpcLoop> loop_;
  std::unique_ptr<WakeEvent> event_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<RpcClient> client_;
  std::unique_ptr<StaticMembership> membership_;
  std::unique_ptr<DirectoryShard> shard_;
  DirectoryClient directory_;
  Suspects suspects_;
  std::unordered_map<std::string, RpcPeerId> rpc_peers_;
  std::unordered_map<NodeId, Nanos> connecting_since_;
  std::vector<MembershipAction> actions_;
  std::vector<OutgoingUpdate> outgoing_;
  std::vector<SuspectAction> suspect_actions_;
  std::unordered_map<NodeId, std::vector<Key128>> touches_;
  std::unordered_map<NodeId, std::vector<Location>> bad_payloads_;
  std::vector<Location> missing_;
  std::vector<std::shared_ptr<FlushWaiter>> flushes_;
  Nanos notices_due_{0};
  Nanos retry_due_{0};
  Nanos stats_due_{0};
  uint64_t messages_count_ = 0;
  std::vector<PeerIndex>
      newly_up_;  ///< checked; clients see them once the endpoint has published their mappings
  bool routes_dirty_ = true;
  bool endpoint_ready_ = false;

  std::atomic<bool> ready_{false};
  std::atomic<bool> stop_{false};
  mutable Mutex
      stats_mutex_;  // a mutex, not a ring: a snapshot with strings, read a few times a second
  ConductorStats stats_ PC_GUARDED_BY(stats_mutex_);
  std::string refusal_ PC_GUARDED_BY(stats_mutex_);
  std::thread thread_;
};

}  // namespace peercache
