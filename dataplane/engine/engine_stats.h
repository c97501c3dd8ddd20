#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dataplane/base/limits.h"
#include "dataplane/engine/client.h"
#include "dataplane/rail/rail_handle.h"

namespace peercache {

/// Snapshot of what all clients of an engine did, by outcome.
///
/// THREAD:     any; a value.
struct ClientTotals {
  uint64_t operations_count = 0;
  uint64_t bytes_count = 0;
  uint64_t ok_count = 0;
  uint64_t stale_count = 0;
  uint64_t bad_payload_count = 0;
  uint64_t deadline_count = 0;
  uint64_t cancelled_count = 0;
  uint64_t peer_lost_count = 0;
  uint64_t failed_count = 0;
  uint64_t retried_count = 0;
  uint64_t refused_count = 0;  ///< batches
  uint64_t verified_count = 0;
  uint64_t fence_overruns_count = 0;

  /// Adds one client's counters, as of now.
  void add(const ClientCounters& counters) noexcept;
};

/// One rail of the snapshot.
///
/// THREAD:     any; a value.
struct RailSnapshot {
  RailIndex rail{0};
  TransportKind kind = TransportKind::kNull;
  RailStats stats{};
};

/// Snapshot of an engine. Its counters are read one after the other while they move on.
///
/// THREAD:     any; a value.
struct EngineStats {
  ClientTotals clients;
  std::array<RailSnapshot, limits::kRailsMax> rails{};  ///< shared rails, in order
  uint32_t rail_count = 0;
  /// Sum over the clients' own rails (shm).
  RailStats client_rails{};
  uint32_t leased_count = 0;       ///< clients in use now
  uint64_t leases_count = 0;       ///< ever
  uint64_t lease_waits_count = 0;  ///< leases that found no client free
  uint64_t lease_busy_count = 0;   ///< of those, how many gave up
};

/// Adds the counters of one rail to a sum; the state is the worse of both.
void add(RailStats& sum, const RailStats& stats) noexcept;

}  // namespace peercache
