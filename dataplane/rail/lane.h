#pragma once

#include <cstdint>

#include "dataplane/base/limits.h"
#include "dataplane/base/units.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/queue/spsc_ring.h"
#include "dataplane/rail/op_record.h"

namespace peercache {

/// What a client pushes: an operation, or the request to cancel all operations of one ticket.
struct LaneRequest {
  OpRecord* op = nullptr;  ///< null for a cancel
  uint32_t cancel_ticket_index = 0;
  uint32_t cancel_ticket_generation_id = 0;
};

/// One client's pair of rings to one rail. Every pushed operation comes back exactly once through
/// `completions`, with its status set and its local memory quiet.
///
/// THREAD:     client pushes `requests` and pops `completions`; the thread that drives the rail
///             does the reverse.
/// INVARIANTS: (L1) completions can hold all operations of a client (limits::kOpsPerClient), so the
///             rail never waits.
class Lane {
 public:
  Lane() : requests(limits::kLaneEntries), completions(limits::kOpsPerClient) {}

  SpscRing<LaneRequest> requests;
  SpscRing<OpRecord*> completions;
  WakeEvent* client_event = nullptr;  ///< BORROWS: the client's event; outlives the lane
  /// Of the client's arena, where headers land; the client sets it before its first push
  LocalKey landing_key{};
};

}  // namespace peercache
