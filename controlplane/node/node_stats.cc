#include "controlplane/node/node_stats.h"

#include "controlplane/node/node_state.h"
#include "dataplane/base/histogram.h"

namespace peercache {
namespace {

double microseconds(Nanos time) { return static_cast<double>(time.count()) / 1000.0; }

void add_calls(NodeStats& stats, const CallCounters& calls) {
  stats.exists_calls_count += calls.exists_calls.value();
  stats.exists_keys_count += calls.exists_keys.value();
  stats.exists_hits_count += calls.exists_hits.value();
  stats.get_calls_count += calls.get_calls.value();
  stats.get_keys_count += calls.get_keys.value();
  stats.get_hits_own_count += calls.get_hits_own.value();
  stats.get_hits_peer_count += calls.get_hits_peer.value();
  stats.get_misses_count += calls.get_misses.value();
  stats.get_bytes_own += calls.get_bytes_own.value();
  stats.get_bytes_peer += calls.get_bytes_peer.value();
  stats.put_calls_count += calls.put_calls.value();
  stats.put_keys_count += calls.put_keys.value();
  stats.put_stored_count += calls.put_stored.value();
  stats.put_held_count += calls.put_held.value();
  stats.put_failed_count += calls.put_failed.value();
  stats.put_bytes += calls.put_bytes.value();
  stats.stale_reads_count += calls.stale_reads.value();
  stats.retried_reads_count += calls.retried_reads.value();
  stats.bad_payload_count += calls.bad_payload.value();
  stats.deadline_misses_count += calls.deadline_misses.value();
  stats.outlived_count += calls.outlived.value();
  stats.primed_count += calls.primed.value();
  stats.lookups_count += calls.lookup_keys.value();
  stats.lookup_rounds_count += calls.lookup_rounds.value();
}

const char* state_name(PeerState state) {
  switch (state) {
    case PeerState::kUp:
      return "up";
    case PeerState::kSuspect:
      return "suspect";
    case PeerState::kAbsent:
    case PeerState::kGone:
      return "gone";
  }
  return "gone";
}

}  // namespace

NodeStats Node::stats() const {
  const State& state = *state_;
  NodeStats stats;
  stats.node_id = state.identity.node_name;
  stats.incarnation_id = state.identity.incarnation.value();
  stats.control_address = state.conductor->control_address();

  histogram::Snapshot exists_latency;
  histogram::Snapshot get_latency;
  histogram::Snapshot put_latency;
  for (const auto& runner : state.runners) {
    const CallCounters& calls = runner->counters();
    add_calls(stats, calls);
    exists_latency.merge(calls.exists_latency.snapshot());
    get_latency.merge(calls.get_latency.snapshot());
    put_latency.merge(calls.put_latency.snapshot());
  }
  stats.exists_p50_us = microseconds(exists_latency.percentile(50));
  stats.exists_p99_us = microseconds(exists_latency.percentile(99));
  stats.get_p50_us = microseconds(get_latency.percentile(50));
  stats.get_p99_us = microseconds(get_latency.percentile(99));
  stats.put_p50_us = microseconds(put_latency.percentile(50));
  stats.put_p99_us = microseconds(put_latency.percentile(99));

  const PoolStats pool = state.pool->stats();
  stats.pool_objects_count = pool.objects_count;
  stats.pool_bytes_used = pool.bytes_used;
  stats.pool_bytes_capacity = pool.bytes_capacity;
  stats.pool_evicted_count = pool.evicted_count;
  stats.pool_starved_count = pool.starved_count;
  stats.pool_duplicates_count = pool.duplicates_count;
  stats.huge_pages = state.pool_segment->page_bytes() > Bytes(4096) ? "2 MiB" : "4 KiB";

  const ConductorStats conductor = state.conductor->stats();
  stats.members_count = conductor.members_count;
  stats.members_up_count = conductor.members_up_count;
  stats.epoch_count = conductor.epoch_count;
  stats.suspects_count = conductor.suspects_count;
  stats.directory_lag_count = conductor.directory_lag_count;
  stats.directory_records_count = conductor.directory_records_count;
  stats.directory_dropped_count = conductor.directory_dropped_count;
  for (const ConductorStats::PeerName& name : conductor.peers) {
    PeerStats peer;
    peer.node_id = name.node_name;
    peer.transport = "shm";
    peer.state = state_name(state.peers->state(name.peer));
    for (const auto& runner : state.runners) {
      peer.objects_count += runner->peer_counters(name.peer).objects.value();
      peer.bytes_count += runner->peer_counters(name.peer).bytes.value();
    }
    stats.peers.push_back(std::move(peer));
  }
  return stats;
}

}  // namespace peercache
