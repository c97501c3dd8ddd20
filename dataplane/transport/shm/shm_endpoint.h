#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/counters.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/log.h"
#include "dataplane/base/result.h"
#include "dataplane/base/unique_handle.h"
#include "dataplane/base/units.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/transport/shm/shm_connection.h"
#include "dataplane/transport/shm/shm_copier.h"
#include "dataplane/transport/shm/shm_options.h"
#include "dataplane/transport/shm/shm_peer_table.h"
#include "dataplane/transport/shm/shm_port.h"
#include "dataplane/transport/transport.h"
#include "dataplane/wire/rail_handshake.h"

namespace peercache {

/// What the endpoint tells its owner. Called from poll_once; may call connect and disconnect.
///
/// THREAD:     the conductor.
class ShmListener {
 public:
  virtual ~ShmListener() = default;

  /// A peer passed every check and its regions are mapped. The index returned is where clients will
  /// find it, from then on; an index never changes its meaning. An error refuses the peer.
  virtual Result<PeerIndex> on_peer_up(uint64_t cookie_id,
                                       const Hello& hello,
                                       const ShmPeerMapping& mapping) = 0;

  /// A connect ended without a peer. `reason` is the peer's text where it refused, else empty or
  /// ours.
  virtual void on_peer_refused(uint64_t cookie_id,
                               const Error& error,
                               const std::string& reason) = 0;

  /// The peer's process ended, closed the connection or broke its rules. Reads of it miss from now
  /// on.
  virtual void on_peer_down(PeerIndex peer) = 0;
};

/// Single-writer counts of an endpoint.
///
/// THREAD:     the conductor adds, any reads.
struct ShmCounters {
  Counter mapped_bytes;            ///< gauge: remote memory that clients can read
  Counter unmapping_bytes;         ///< gauge: memory of lost peers that is still mapped
  Counter peers_up, inbound_open;  ///< gauges
  Counter accepted, refused_by_us, refused_by_peer, lost, timeouts, protocol_errors, stale_sockets;
  Counter writes_served, write_bytes_served, writes_refused, writes_sent, writes_flushed;
};

/// The cold half of the shared-memory transport, one per node: it serves own regions to peers of
/// this host, maps theirs, notices their death, and carries WRITEs. Connections have one direction:
/// the connector maps the acceptor's memory.
///
/// THREAD:     the conductor, but for lease_port, release_port, wake, counters, table (reads): any.
/// OWNS:       the listening socket and its name, connections, ports, the peer table with all
/// remote mappings. BORROWS:    the listener and the memory of its own regions; both outlive it.
/// Ports outlive every client. INVARIANTS: (E1) a peer is in the table exactly while its connection
/// is open. (E2) every WRITE taken from a port ends
///             in exactly one completion there. (E3) nothing that a peer sends makes it allocate
///             more than one largest frame and kFdsWaitingMax descriptors per connection, or wait.
/// COST:       a turn without events is one epoll_wait; work per turn is bounded (bytes, accepts,
/// steps).
class ShmEndpoint {
 public:
  /// Prepares the runtime directory, removes sockets of dead processes there, and listens. `mine`
  /// is this node's hello; its region table is made from `regions` (all but kDestination, each with
  /// its descriptor). Errors: of prepare_runtime_dir and listen_unix; kRegistration (a region
  /// without descriptor or memory), kTooManyRegions, and those of check_region_table.
  static Result<std::unique_ptr<ShmEndpoint>> open(const ShmOptions& options,
                                                   const Hello& mine,
                                                   std::span<const MemorySpec> regions,
                                                   ShmListener& listener);
  /// Ends all connections and unmaps everything. REQUIRES: no port is leased.
  ~ShmEndpoint();
  ShmEndpoint(const ShmEndpoint&) = delete;
  ShmEndpoint& operator=(const ShmEndpoint&) = delete;

  /// Begins to connect to the socket `name` in the runtime directory (or a whole path). The
  /// listener hears of the outcome within connect_timeout_ms. Errors: kConnectRefused (nobody
  /// listens), kBadLength, kPermission, kTooManyPeers, kSystem; then the listener hears nothing.
  Result<void> connect(const std::string& name, uint64_t cookie_id, Nanos now);

  /// Drops a peer; its WRITEs end as kPeerLost. The listener hears nothing.
  void disconnect(PeerIndex peer);

  /// Makes own regions readable under an index of their own, for hits in the own pool. REQUIRES:
  /// the index is free.
  void map_self(PeerIndex peer);

  /// One turn; never blocks. Returns the work done. May sleep on epoll_fd() after a turn that
  /// returned 0, at most until next_due().
  int poll_once(Nanos now);

  /// Readable when there is something to do.
  [[nodiscard]] int epoll_fd() const noexcept { return epoll_.get(); }
  /// When poll_once has to run next even if nothing happens.
  [[nodiscard]] Nanos next_due(Nanos now) const noexcept;

  /// Gives a client its port; null when all limits::kClientsMax are leased.
  [[nodiscard]] ShmPort* lease_port(WakeEvent* client_event) noexcept;
  /// REQUIRES: no WRITE of the port is under way, all its completions are taken.
  void release_port(ShmPort& port) noexcept;
  /// After a push into a port's commands.
  void wake() noexcept { wake_->wake_if_sleeping(); }
  /// Copier threads, or null when there are none; fixed at open.
  [[nodiscard]] ShmCopiers* copiers() const noexcept { return copiers_.get(); }

  [[nodiscard]] const ShmPeerTable& table() const noexcept { return table_; }
  [[nodiscard]] const ShmCounters& counters() const noexcept { return counters_; }
  /// Name of the socket in the runtime directory: what peers connect to.
  [[nodiscard]] const std::string& socket_name() const noexcept { return name_; }
  [[nodiscard]] std::string socket_path() const { return directory_ + "/" + name_; }
  [[nodiscard]] const Hello& hello() const noexcept { return hello_; }

  void check_invariants() const;

 private:
  // Values of epoll_data that are not connections.
  static constexpr uint64_t kListeningId = 1;
  static constexpr uint64_t kWakeId = 2;

  ShmEndpoint(const ShmOptions& options, ShmListener& listener);

  // shm_endpoint.cc
  Result<void> add_regions(std::span<const MemorySpec> regions);
  Result<void> start();
  ShmConnection& add_connection(std::unique_ptr<ShmConnection> connection);
  void set_deadline(ShmConnection& connection, Nanos deadline) noexcept;
  void on_event(ShmConnection& connection, uint32_t events, Nanos now);
  void receive(ShmConnection& connection, Nanos now);
  [[nodiscard]] bool handle_frame(ShmConnection& connection, const ShmFrame& frame, Nanos now);
  void send_pending(ShmConnection& connection, Nanos now);
  void arm(ShmConnection& connection);
  int check_deadlines(Nanos now);
  int work_on_mappings();
  void update_gauges() noexcept;

  // shm_teardown.cc
  void drop_closed();
  void close(ShmConnection& connection);
  /// Says why, then closes. For an outbound connection the listener hears of it.
  void refuse(ShmConnection& connection, const Error& error, const std::string& reason, Nanos now);
  void lose(ShmConnection& connection, const Error& error);

  // shm_accept.cc
  int accept_some(Nanos now);
  void admit(UniqueFd fd, Nanos now);
  void set_accepting(bool accepting) noexcept;
  void on_inbound_frame(ShmConnection& connection, const ShmFrame& frame, Nanos now);
  void answer_hello(ShmConnection& connection, const ShmFrame& frame, Nanos now);
  void serve_chunk(ShmConnection& connection, const ShmFrame& frame, Nanos now);

  // shm_connect.cc
  void retry_connect(ShmConnection& connection, Nanos now);
  void on_outbound_frame(ShmConnection& connection, const ShmFrame& frame, Nanos now);
  void take_hello(ShmConnection& connection, const ShmFrame& frame, Nanos now);
  void take_regions(ShmConnection& connection, const ShmFrame& frame, Nanos now);
  void bring_up(ShmConnection& connection, Nanos now);
  void populate_step(ShmConnection& connection);

  // shm_write.cc
  int take_commands(Nanos now);
  void take_write(ShmPort& port, const ShmCommand& command, Nanos now);
  void take_fence(ShmPort& port, PeerIndex peer, Nanos now);
  void produce_chunks(ShmConnection& connection);
  void finish_write(const ShmOutWrite& write, OpStatus status);
  void take_write_done(ShmConnection& connection, const ShmFrame& frame);
  void end_writes(ShmConnection& connection, OpStatus status);

  // set in open
  const ShmOptions options_;
  ShmListener& listener_;
  int64_t peer_uid_ = 0;
  std::string directory_;
  std::string name_;
  Hello hello_;
  std::vector<int> region_fds_;  // as hello_.regions
  std::array<ShmRegionView, limits::kRegionsPerNodeMax> own_regions_{};

  // conductor_
  UniqueFd epoll_;
  std::unique_ptr<WakeEvent> wake_;
  // Before the table, which looks at their words.
  std::array<ShmPort, limits::kClientsMax> ports_{};
  std::array<ShmEpochWord, ShmPeerTable::kCopiersMax> copier_words_{};
  ShmPeerTable table_;
  std::unique_ptr<ShmCopiers> copiers_;
  UniqueFd listening_;
  Nanos accept_again_at_ = Nanos::max();  // while accepting is paused
  std::vector<std::unique_ptr<ShmConnection>> connections_;
  std::array<ShmConnection*, limits::kPeersMax> by_peer_{};
  uint32_t inbound_count_ = 0;
  uint32_t admitted_count_ = 0;  // of those: past their hello
  uint32_t populating_count_ = 0;
  uint64_t next_request_id_ = 1;
  Nanos next_deadline_ = Nanos::max();
  bool any_closed_ = false;
  ShmCounters counters_;
  LogLimiter refusals_logged_;
};

}  // namespace peercache
