#pragma once

#include <cstdint>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/rail/lane.h"
#include "dataplane/transport/transport.h"

namespace peercache {

enum class RailState : uint8_t { kUp = 0, kDegraded = 1, kDown = 2 };

/// Snapshot of a rail's single-writer counters.
struct RailStats {
  uint64_t operations_count = 0;
  uint64_t bytes_count = 0;
  uint64_t completions_count = 0;
  uint64_t stale_count = 0;
  uint64_t timeouts_count = 0;
  uint64_t errors_count = 0;
  uint64_t fences_count = 0;
  uint64_t doorbells_count = 0;
  uint64_t polls_empty_count = 0;
  uint64_t bytes_in_flight = 0;
  RailState state = RailState::kUp;
};

/// A rail with its transport type erased: the virtuals run once per turn or a few times per
/// process, never per operation.
///
/// THREAD: `poll_once` by the one thread that drives the rail (its own, or for a client-driven rail
///         the client that owns the lane); `stats` and `state` by anyone; the others by the
///         conductor before or while the rail runs.
class RailHandle {
 public:
  virtual ~RailHandle() = default;

  /// One turn of the loop: pull, post, flush, poll, complete. Returns the work done (0 = idle).
  virtual int poll_once(Nanos now) noexcept = 0;

  /// Gives a client its ring pair. REQUIRES: before the first poll_once, or through the rail's
  /// command ring while running.
  virtual Result<Lane*> attach_lane(ClientIndex client, WakeEvent* client_event) = 0;

  /// Tells whether operations towards the peer can be posted on this rail.
  virtual bool reaches(PeerIndex peer) const noexcept = 0;

  virtual RailState state() const noexcept = 0;
  virtual RailStats stats() const noexcept = 0;
  virtual TransportKind kind() const noexcept = 0;
  virtual RailIndex index() const noexcept = 0;

  /// True for rails without a thread of their own (shm): the client's poll and wait drive them.
  virtual bool client_driven() const noexcept = 0;

  /// Event to wake the rail's thread when it sleeps; null for client-driven rails.
  virtual WakeEvent* wake_event() noexcept = 0;
};

}  // namespace peercache
