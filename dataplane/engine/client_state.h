#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dataplane/base/cacheline.h"
#include "dataplane/engine/client.h"
#include "dataplane/engine/op_check.h"

namespace peercache {

/// Where a record is. Only kRail means that somebody else may touch it.
enum class RecordPlace : uint8_t { kFree = 0, kBacklog = 1, kRail = 2, kFinal = 3 };

/// What a client keeps about each record on its own side, where no rail writes.
///
/// THREAD:     the client's.
struct RecordSide {
  static constexpr uint8_t kNoRail = UINT8_MAX;

  uint16_t next = 0;                ///< in the backlog
  uint8_t rail_position = kNoRail;  ///< rail of the client that has it
  uint8_t avoid_position = kNoRail; ///< where an attempt failed, ...
  OpStatus failure = OpStatus::kPending;  ///< ... and how
  OpStatus final_status = OpStatus::kPending;
  RecordPlace place = RecordPlace::kFree;

  [[nodiscard]] bool is_retry() const noexcept { return avoid_position != kNoRail; }
};

/// Inside of a Client: the arena of records, the tickets, and what is known of each rail.
///
/// THREAD:     the client's.
/// OWNS:       records, tickets, the client's event. BORROWS: rails, their lanes, the peer directory, the counters.
/// INVARIANTS: (S1) a record is in exactly one place: free list, backlog, one rail, or final. (S2) `bytes_mine` and
///             `ops_in_flight` of a rail are the sums over its records. (S3) a rail's staged requests are pushed before
///             any public function returns.
/// COST:       1.5 MiB of records and 0.1 MiB of tables, taken at open; the free list is a stack, so that a client that
///             submits small batches stays in the same few records.
struct Client::State {
  static constexpr uint16_t kNoRecord = UINT16_MAX;
  static constexpr uint32_t kStagedMax = 64;  ///< one push, thus one release store, per so many requests
  static constexpr uint32_t kPopMax = 64;
  /// How often other clients' bytes are looked at: the counters lie on lines that the rails' cores write all the time,
  /// and a rail moves 2.5 MB in this time at 400 Gb/s.
  static constexpr Nanos kOthersInterval{50'000};
  /// A walk over the backlog gives up after so many operations in a row found their rails full, ...
  static constexpr uint32_t kBlockedMax = 32;
  /// ... but once in this time it looks at all of them, for deadlines and for rails behind a long run of others.
  static constexpr Nanos kBacklogScanInterval{1'000'000};

  struct RailSlot {
    RailHandle* handle = nullptr;
    Lane* lane = nullptr;
    bool driven = false;        ///< by this client
    uint32_t room = 0;          ///< lower bound of free entries in the lane, staged ones taken off
    uint32_t ops_in_flight = 0;
    uint32_t staged_count = 0;
    RailIndex index{0};
    bool pushed = false;        ///< since the last end_call
    uint64_t bytes_others = 0;  ///< in flight for other clients, as of `others_at`
    std::array<LaneRequest, kStagedMax> staged{};
  };

  /// What the rails and the directory say of a peer, asked once per turn.
  struct Route {
    uint64_t turn = 0;
    const PeerInfo* info = nullptr;
    RailMask reachable = 0;
    PeerState state = PeerState::kAbsent;
  };

  /// Counts of the current call, added to the shared counters at its end.
  struct Tally {
    std::array<uint32_t, 12> by_status{};
    uint64_t ok_bytes = 0;
    uint32_t retried = 0;
  };

  State(const EngineOptions& options_in,
        const PeerDirectory& peers_in,
        const Clock& clock_in,
        std::unique_ptr<WakeEvent> event_in);

  // client_submit_datapath.cc: from operations to lanes.
  void begin_call() noexcept;
  OpFault check_batch(std::span<const Op> ops, uint32_t& bad_index) noexcept;
  void fill(const Op& op, uint16_t number, Ticket ticket, uint32_t op_index, Nanos deadline_at) noexcept;
  void place_batch(Ticket ticket, uint32_t count) noexcept;
  bool place(uint16_t number) noexcept;
  void stage(uint32_t position, uint16_t number, uint64_t bytes) noexcept;
  void push_staged(RailSlot& rail) noexcept;
  void end_call() noexcept;
  void publish_tally() noexcept;
  void refresh_loads() noexcept;
  const Route& route_of(PeerIndex peer) noexcept;

  // client_complete_datapath.cc: from lanes to outcomes.
  uint32_t progress() noexcept;
  uint32_t drain(uint32_t position) noexcept;
  void take_back(OpRecord& record, uint32_t position) noexcept;
  void settle(uint16_t number, OpStatus status) noexcept;
  void finish(uint16_t number, OpStatus status) noexcept;
  void pump_backlog() noexcept;
  void add_to_backlog(uint16_t number) noexcept;
  void cancel_backlog(Ticket ticket) noexcept;
  void cancel_in_rails(Ticket ticket) noexcept;
  void push_owed_cancels() noexcept;
  bool payload_holds(const OpRecord& record) noexcept;  // client_verify_datapath.cc

  // client_wait.cc: sleeping.
  void sleep(Nanos until) noexcept;
  bool completions_waiting() const noexcept;
  bool only_client_driven_work() const noexcept;

  uint16_t number_of(const OpRecord& record) const noexcept {
    return static_cast<uint16_t>(&record - records.get());
  }
  static uint64_t bytes_of(const OpRecord& record) noexcept {
    return moved_bytes(record.kind, record.length_bytes,
                       record.kind == OpKind::kLookup ? record.lookup->key_count : 0);
  }

  const EngineOptions options;
  const PeerDirectory& peers;
  const Clock clock;
  const std::unique_ptr<WakeEvent> event;
  ClientCounters* counters = nullptr;  ///< the client's; set before any use

  std::array<RailSlot, limits::kRailsMax> rails{};
  std::array<RailLoad, limits::kRailsMax> loads{};
  uint32_t rail_count = 0;
  StripingPolicy striping{};

  TicketTable tickets;
  std::unique_ptr<OpRecord[]> records;
  std::array<RecordSide, limits::kOpsPerClient> sides{};
  std::array<uint16_t, limits::kOpsPerClient> free_records{};
  uint32_t free_count = 0;

  uint16_t backlog_head = kNoRecord;
  uint16_t backlog_tail = kNoRecord;
  uint32_t backlog_count = 0;
  Nanos backlog_scan_at{0};
  uint32_t owed_cancels = 0;  ///< tickets that owe a rail their cancel

  std::array<Route, limits::kPeersMax> routes{};
  uint64_t turn = 0;          ///< stamps routes and loads; one per public call
  uint64_t loads_turn = 0;
  Nanos others_at{0};         ///< when the rails were last asked for everybody's bytes
  Nanos now{0};
  Tally tally{};
  uint32_t unreported = 0;    ///< final operations that no poll has returned yet
  uint32_t verify_countdown = 1;
  bool armed = false;
};

}  // namespace peercache
