#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "dataplane/base/agent.h"
#include "dataplane/base/counters.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/ordering.h"
#include "dataplane/base/thread_role.h"
#include "dataplane/rail/bounded_fifo.h"
#include "dataplane/rail/inflight_table.h"
#include "dataplane/rail/managed_rail.h"
#include "dataplane/rail/peer_link.h"
#include "dataplane/rail/rail_command.h"
#include "dataplane/rail/rail_health.h"
#include "dataplane/rail/rail_lane.h"
#include "dataplane/rail/rail_options.h"
#include "dataplane/transport/transport.h"

// What runs for each operation is compiled into the loop: left to itself g++ calls most of it.
#define PC_RAIL_INLINE [[gnu::always_inline]] inline

namespace peercache {

namespace detail {
/// Transports that the calling client drives say so; the others have a thread.
template <class T>
constexpr bool client_driven_transport() {
  if constexpr (requires { T::kClientDriven; }) {
    return T::kClientDriven;
  } else {
    return false;
  }
}

/// A transport that knows by itself which peers it reaches (shm: those whose memory is mapped). Its
/// rail needs no connect commands, and leaves it to the transport to say that a peer is lost.
template <class T>
concept KnowsPeers = requires(const T& transport, PeerIndex peer) {
  { transport.reaches(peer) } noexcept -> std::same_as<bool>;
};

/// A transport that may have more to do although a poll completed nothing (shm: a large copy goes
/// on).
template <class T>
concept HasWork = requires(const T& transport) {
  { transport.has_work() } noexcept -> std::same_as<bool>;
};

/// A transport whose events can end a sleep.
template <class T>
concept CanSleep = requires(T& transport) {
  { transport.prepare_sleep() } noexcept -> std::same_as<bool>;
  { transport.wait_fd() } noexcept -> std::same_as<int>;
};
}  // namespace detail

/// One NIC port, TCP endpoint or the like, together with the loop that drives it:
///
///   commands -> poll, complete -> pull from lanes -> post headers, then data -> flush -> timers
///
/// A validated READ is two requests: the bytes, and after their completion, in the same turn, the
/// slot's header. The operation is a hit only if that header still proves the location that the
/// reader held (design 6).
///
/// An operation that must end before its requests do (time-out, deadline, cancel, disconnect) is
/// *doomed*: its peer is fenced, and it ends when its completion has come. What the fence flushes
/// besides is posted again.
///
/// THREAD:     state named rail_ by the one thread that drives it (role_); conductor_ by the
///             conductor.
/// OWNS:       its transport, its lanes, the in-flight table, its thread if it has one.
/// INVARIANTS: (L1) each operation that was pulled is handed back exactly once, when its memory is
///             quiet.
///             (L2) a header READ is posted only after the completion of its data.
///             (L3) nothing is posted to a peer while it is fenced.
///             (L4) bytes_in_flight is the sum over data requests with the transport.
/// COST:       per operation: one line of the in-flight table, one ring entry each way, a few table
///             look-ups; no allocation, lock, system call, virtual or indirect call. Deadlines cost
///             a comparison per turn.
template <Transport T>
class Rail final : public ManagedRail {
  /// Only open() has one.
  struct OpenKey {
    explicit OpenKey() = default;
  };

 public:
  /// Errors: kOutOfRange (an option).
  static Result<std::unique_ptr<Rail>> open(const RailOptions& options,
                                            std::unique_ptr<T> transport);
  Rail(OpenKey, const RailOptions& options, std::unique_ptr<T> transport);
  ~Rail() override;

  // RailHandle.
  int poll_once(Nanos now) noexcept override;
  Result<Lane*> attach_lane(ClientIndex client, WakeEvent* client_event) override;
  bool reaches(PeerIndex peer) const noexcept override;
  RailState state() const noexcept override;
  RailStats stats() const noexcept override;
  TransportKind kind() const noexcept override { return T::kKind; }
  RailIndex index() const noexcept override { return options_.rail; }
  bool client_driven() const noexcept override { return client_driven_; }
  WakeEvent* wake_event() noexcept override;

  // ManagedRail.
  Result<void> start(AgentOptions options) override;
  Result<void> stop(Nanos patience) override;
  RailProxy& proxy() noexcept override { return conductor_.proxy; }
  void check_invariants() const override;

  /// For its cold half (register memory, connect).
  T& transport() noexcept { return *transport_; }

 private:
  static constexpr uint32_t kProbesMax = 8;
  static constexpr uint32_t kPullMax = 64;
  static constexpr uint32_t kLanesMax = limits::kClientsMax;
  /// Timers look at the whole table (some 2 us): at most this often.
  static constexpr Nanos kTimerPause{50'000};

  /// The rail as its thread sees it.
  class Loop final : public Agent {
   public:
    explicit Loop(Rail& rail) : rail_(rail) {}
    int poll_once(Nanos now) noexcept override { return rail_.poll_once(now); }
    bool prepare_sleep() noexcept override { return rail_.prepare_sleep(); }
    int wait_fd() const noexcept override { return rail_.wait_fd(); }
    Nanos next_due(Nanos now) const noexcept override { return rail_.next_due(now); }

   private:
    Rail& rail_;
  };

  /// Sums of one turn, added to the counters at its end.
  struct Turn {
    Nanos now{0};
    uint32_t operations = 0;
    uint32_t completions = 0;
    uint32_t successes = 0;
    uint32_t stale = 0;
    uint64_t bytes = 0;
  };

  struct Stats {
    Counter operations, bytes, completions, stale, timeouts, errors, fences, doorbells, polls_empty,
        bytes_in_flight;
  };

  enum class Admission : uint8_t { kPost, kNotNow };
  enum class ProbeOutcome : uint8_t { kOk, kFailed, kUndecided };

  // rail_submit_impl.h: from the lanes to the transport.
  int pull() noexcept PC_REQUIRES(role_);
  int pull_lane(RailLane& lane) noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE bool can_start() const noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE void start_op(RailLane& lane, OpRecord* op) noexcept PC_REQUIRES(role_);
  int post_ready() noexcept PC_REQUIRES(role_);
  template <bool kHeaders>
  int post_from(BoundedFifo<uint16_t>& queue) noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE Admission admit(uint16_t index, bool header) noexcept PC_REQUIRES(role_);
  Admission admit_slowly(uint16_t index, bool header) noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE bool over_budget(const InflightSlot& slot) const noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE WorkRequest data_request(uint16_t index) noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE WorkRequest header_request(uint16_t index) noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE void note_posted(uint16_t index, InflightPhase phase) noexcept PC_REQUIRES(role_);
  void undo_posted(uint16_t index, InflightPhase phase) noexcept PC_REQUIRES(role_);

  // rail_complete_impl.h: from the transport to the lanes.
  int reap() noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE void complete(const Completion& completion) noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE void complete_ok(uint16_t index) noexcept PC_REQUIRES(role_);
  void complete_failed(uint16_t index, OpStatus status) noexcept PC_REQUIRES(role_);
  void requeue_flushed(uint16_t index, bool asked_for) noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE void finish(uint16_t index, OpStatus status) noexcept PC_REQUIRES(role_);
  PC_RAIL_INLINE void hand_back(RailLane& lane, OpRecord* op, OpStatus status) noexcept
      PC_REQUIRES(role_);
  void push_done(RailLane& lane) noexcept PC_REQUIRES(role_);
  void push_all_done() noexcept PC_REQUIRES(role_);
  void end_turn(int work) noexcept PC_REQUIRES(role_);

  // rail_trouble_impl.h: deadlines, cancels, fences.
  int run_timers() noexcept PC_REQUIRES(role_);
  Nanos expire_slots() noexcept PC_REQUIRES(role_);
  Nanos expire_backlogs() noexcept PC_REQUIRES(role_);
  void expire_posted(uint16_t index) noexcept PC_REQUIRES(role_);
  void cancel(RailLane& lane, const LaneRequest& request) noexcept PC_REQUIRES(role_);
  void end_early(uint16_t index, OpStatus status) noexcept PC_REQUIRES(role_);
  void fence(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void fence_done(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void release_held(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void arm_timer(Nanos at) noexcept PC_REQUIRES(role_) {
    rail_.timers_due_at = at < rail_.timers_due_at ? at : rail_.timers_due_at;
  }

  // rail_probe_impl.h: errors, suspects, probes.
  void note_error(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void suspect(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void try_link(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void recover(PeerIndex peer) noexcept PC_REQUIRES(role_);
  bool post_probe(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void probe_ended(uint16_t index, ProbeOutcome outcome) noexcept PC_REQUIRES(role_);
  bool probe_rail() noexcept PC_REQUIRES(role_);
  Nanos probe_link(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void add_trouble(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void note_state() noexcept PC_REQUIRES(role_);
  Nanos probe_where_due() noexcept PC_REQUIRES(role_);
  void give_up_posted() noexcept PC_REQUIRES(role_);

  // rail_command_impl.h: what the conductor asks for, and the thread.
  int take_commands() noexcept PC_REQUIRES(role_);
  void take(const RailCommand& command) noexcept PC_REQUIRES(role_);
  void connect(const RailCommand& command) noexcept PC_REQUIRES(role_);
  void leave(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void note_quiet(PeerIndex peer) noexcept PC_REQUIRES(role_);
  void stop_all() noexcept PC_REQUIRES(role_);
  void look_for_stopped() noexcept PC_REQUIRES(role_);
  void show(PeerIndex peer, LinkView view) noexcept PC_REQUIRES(role_);
  void tell(RailEventKind kind, PeerIndex peer) noexcept PC_REQUIRES(role_);
  bool prepare_sleep() noexcept;
  int wait_fd() const noexcept;
  Nanos next_due(Nanos now) const noexcept;

  // Immutable after open.
  const RailOptions options_;
  const bool client_driven_;
  const Nanos operation_timeout_;
  const std::unique_ptr<T> transport_;

  ThreadRole role_;

  /// Written by the rail's driver only.
  struct DriverState {
    explicit DriverState(const RailOptions& options)
        : table(options.inflight_max_count + kProbesMax),
          headers_ready(limits::kInflightPerRail),
          data_ready(limits::kInflightPerRail),
          health(options) {}

    // Each turn.
    Nanos timers_due_at = Nanos::max();
    uint64_t bytes_in_flight = 0;
    uint32_t lanes_count = 0;
    uint32_t next_lane = 0;
    uint32_t dirty_lanes_mask = 0;  // lanes with something in `done`, or pushed
    uint32_t posted_count = 0;      // requests with the transport
    bool refuses_all = false;       // down or stopping: admit looks closer
    bool stopping = false;
    Turn turn{};
    std::array<RailLane*, kLanesMax> lanes{};
    std::array<LaneRequest, kPullMax> pulled{};
    std::array<WorkRequest, T::kPostBatchMax> batch{};
    std::array<uint16_t, T::kPostBatchMax> batch_slots{};
    std::array<Completion, T::kPollBatchMax> completions{};
    InflightTable table;
    BoundedFifo<uint16_t> headers_ready;
    BoundedFifo<uint16_t> data_ready;
    std::array<PeerLink, limits::kPeersMax> links{};

    // In trouble only.
    RailHealth health;
    RailState shown_state = RailState::kUp;
    uint32_t connected_count = 0;
    uint32_t probes_count = 0;
    uint32_t troubled_count = 0;
    uint16_t probe_cursor = 0;
    std::array<PeerIndex, limits::kPeersMax> troubled{};
    std::array<SlotHeader, kProbesMax> probe_landings{};
    uint32_t landings_used_mask = 0;
    LocalKey probe_key{};
  };
  alignas(kFalseSharingBytes) DriverState rail_ PC_GUARDED_BY(role_);

  /// Single writer: the driver. Read by anyone.
  alignas(kFalseSharingBytes) Stats stats_;

  RailMailbox mailbox_;

  /// Written by the conductor only.
  struct Conductor {
    explicit Conductor(RailMailbox& mailbox) : proxy(mailbox) {}
    RailProxy proxy;
    std::vector<std::unique_ptr<RailLane>> lanes;
  };
  alignas(kFalseSharingBytes) Conductor conductor_;
  Loop loop_{*this};
  std::unique_ptr<AgentThread> thread_;
};

}  // namespace peercache

#include "dataplane/rail/rail_command_impl.h"
#include "dataplane/rail/rail_complete_impl.h"
#include "dataplane/rail/rail_probe_impl.h"
#include "dataplane/rail/rail_submit_impl.h"
#include "dataplane/rail/rail_trouble_impl.h"
