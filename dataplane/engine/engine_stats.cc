#include "dataplane/engine/engine_stats.h"

#include <algorithm>

namespace peercache {

void ClientTotals::add(const ClientCounters& counters) noexcept {
  operations_count += counters.operations.value();
  bytes_count += counters.bytes.value();
  ok_count += counters.ok.value();
  stale_count += counters.stale.value();
  bad_payload_count += counters.bad_payload.value();
  deadline_count += counters.deadline.value();
  cancelled_count += counters.cancelled.value();
  peer_lost_count += counters.peer_lost.value();
  failed_count += counters.failed.value();
  retried_count += counters.retried.value();
  refused_count += counters.refused.value();
  verified_count += counters.verified.value();
  fence_overruns_count += counters.fence_overruns.value();
}

void add(RailStats& sum, const RailStats& stats) noexcept {
  sum.operations_count += stats.operations_count;
  sum.bytes_count += stats.bytes_count;
  sum.completions_count += stats.completions_count;
  sum.stale_count += stats.stale_count;
  sum.timeouts_count += stats.timeouts_count;
  sum.errors_count += stats.errors_count;
  sum.fences_count += stats.fences_count;
  sum.doorbells_count += stats.doorbells_count;
  sum.polls_empty_count += stats.polls_empty_count;
  sum.bytes_in_flight += stats.bytes_in_flight;
  sum.state = std::max(sum.state, stats.state);
}

}  // namespace peercache
