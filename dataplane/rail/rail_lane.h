#pragma once

#include <array>
#include <cstdint>

#include "dataplane/base/limits.h"
#include "dataplane/base/units.h"
#include "dataplane/rail/bounded_fifo.h"
#include "dataplane/rail/lane.h"
#include "dataplane/rail/op_record.h"

namespace peercache {

/// The rail's side of one lane: the rings, what was pulled and cannot be started yet, and what is
/// to be handed back.
///
/// THREAD:     made by the conductor (attach_lane); from its attach command on, all but the rings
///             is the rail's.
/// OWNS:       the rings, a backlog that holds all operations of the client.
/// INVARIANTS: (R1) an operation is in one place at a time (ring, backlog, in-flight table, done,
///             completions ring), so neither backlog nor completions ring can overflow. (R2) what
///             is in the backlog came before what is still in the ring.
struct RailLane {
  static constexpr uint32_t kDoneMax = 64;  ///< twice what one poll completes

  explicit RailLane(ClientIndex owner, uint8_t lane_index)
      : client(owner), index(lane_index), backlog(limits::kOpsPerClient) {}

  Lane lane;
  const ClientIndex client;
  const uint8_t index;

  // The rail's.
  BoundedFifo<OpRecord*> backlog;
  Nanos backlog_due_at = Nanos::max();  ///< no operation in the backlog expires before
  uint32_t done_count = 0;
  bool pushed = false;  ///< completions went out in this turn
  std::array<OpRecord*, kDoneMax> done{};
};

}  // namespace peercache
