#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/transport/sim/sim_fabric.h"
#include "dataplane/transport/transport.h"
#include "dataplane/transport/work_request.h"

namespace peercache {

/// THREAD: any; a value.
struct SimTransportOptions {
  /// Requests in flight; beyond it post accepts less
  uint32_t depth_count = limits::kInflightPerRail;
};

/// One rail's device on the simulated fabric. A request is executed in chunks: each chunk reads or
/// writes the peer's memory as it is at that virtual time, the completion comes after the last one.
/// Requests on one link complete in the order of posting unless `reorder_ppm` says otherwise.
///
/// THREAD:     the fabric's.
/// OWNS:       its request slots and completions, taken at open.
/// BORROWS:    the fabric (outlives it); pieces and lookups of requests in flight.
/// INVARIANTS: (T1) free + in flight = depth, and in flight + completed but not polled <= depth.
///             (T2) each accepted request completes once.
class SimTransport {
 public:
  static constexpr TransportKind kKind = TransportKind::kSim;
  static constexpr uint32_t kPostBatchMax = 16;
  static constexpr uint32_t kPollBatchMax = 32;

  /// Attaches to the fabric. Errors: kOutOfRange (depth, or more transports than the fabric's
  /// options allow).
  static Result<std::unique_ptr<SimTransport>> open(SimFabric& fabric, SimTransportOptions options);
  SimTransport(const SimTransport&) = delete;
  SimTransport& operator=(const SimTransport&) = delete;
  ~SimTransport();

  /// Makes `peer` mean `node`. Errors: kTooManyPeers, kAlreadyExists, kNotFound (no such node).
  Result<void> connect(PeerIndex peer, SimNode node);

  // Cold half of the concept. Requests in flight to a disconnected peer end as kPeerLost at once.
  Result<LocalKey> register_memory(const MemorySpec& memory);
  void disconnect(PeerIndex peer);

  // Hot half of the concept, in sim_datapath.cc.
  [[nodiscard]] uint32_t post(std::span<const WorkRequest> requests) noexcept;
  void flush() noexcept {}
  [[nodiscard]] uint32_t poll(std::span<Completion> completions) noexcept;
  void fence(PeerIndex peer) noexcept;

  [[nodiscard]] uint32_t in_flight_count() const noexcept { return in_flight_count_; }
  [[nodiscard]] uint64_t torn_count() const noexcept { return torn_count_; }
  [[nodiscard]] uint64_t fences_count() const noexcept { return fences_count_; }
  [[nodiscard]] uint64_t posts_count() const noexcept { return next_posting_; }
  void check_invariants() const;

 private:
  friend class SimFabric;

  struct Operation {
    WorkRequest request;
    uint64_t posting = 0;    // number of this post; identifies the life of the slot
    int64_t started_ns = 0;  // when the first chunk could be executed
    int64_t complete_ns = 0;
    std::array<uint32_t, kSimChunksMax> chunk_after_ns{};  // ascending, from started_ns
    std::array<uint8_t, kSimChunksMax> chunk_order{};
    uint8_t parts_count = 1;  // chunks that the whole request would have
    uint8_t chunk_count = 0;  // those of them that will be executed
    uint8_t chunks_done = 0;
    bool late = false;  // by reordering: may be overtaken
    OpStatus outcome = OpStatus::kOk;
    bool in_flight = false;
    bool lost = false;
  };
  static constexpr uint16_t kNoNode = UINT16_MAX;

  [[nodiscard]] bool is_in_flight(uint16_t slot, uint64_t posting) const noexcept {
    return operations_[slot].in_flight && operations_[slot].posting == posting;
  }

  SimTransport(SimFabric& fabric, SimTransportOptions options);
  void start(const WorkRequest& request) noexcept;
  OpStatus judge(const WorkRequest& request) const noexcept;
  void plan_times(Operation& operation, const SimFaults& faults) noexcept;
  void plan_chunks(Operation& operation, const SimFaults& faults) noexcept;
  void schedule_next(uint16_t slot) noexcept;
  void on_operation(uint16_t slot, uint64_t posting) noexcept;
  void on_fence(PeerIndex peer, uint64_t posted_before) noexcept;
  void execute_chunk(const Operation& operation) const noexcept;
  void break_link(uint16_t slot, const SimFaults& faults) noexcept;
  void finish(uint16_t slot, OpStatus status) noexcept;

  SimFabric& fabric_;
  const SimTransportOptions options_;
  uint16_t index_ = 0;
  uint32_t in_flight_count_ = 0;
  uint64_t next_posting_ = 0;
  uint64_t torn_count_ = 0;
  uint64_t fences_count_ = 0;
  int64_t wire_busy_until_ns_ = 0;

  std::array<uint16_t, limits::kPeersMax> node_of_{};
  // per link, for the order of completions
  std::array<int64_t, limits::kPeersMax> last_complete_ns_{};
  std::vector<Operation> operations_;
  std::vector<uint16_t> free_;
  std::vector<Completion> completed_;  // a ring of depth entries
  size_t completed_head_ = 0;
  size_t completed_count_ = 0;
};

static_assert(Transport<SimTransport>);

}  // namespace peercache
