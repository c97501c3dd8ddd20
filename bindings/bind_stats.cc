#include "bindings/bind_node.h"

namespace py = pybind11;

namespace peercache {

py::dict stats_dict(const Node& node) {
  const NodeStats stats = node.stats();
  py::dict out;
  const auto set = [&out](const char* name, const auto& value) { out[name] = py::cast(value); };
#define PC_STAT(field) set(#field, stats.field)
  PC_STAT(node_id);
  PC_STAT(incarnation_id);
  PC_STAT(control_address);
  PC_STAT(members_count);
  PC_STAT(members_up_count);
  PC_STAT(epoch_count);
  PC_STAT(exists_calls_count);
  PC_STAT(exists_keys_count);
  PC_STAT(exists_hits_count);
  PC_STAT(get_calls_count);
  PC_STAT(get_keys_count);
  PC_STAT(get_hits_own_count);
  PC_STAT(get_hits_peer_count);
  PC_STAT(get_misses_count);
  PC_STAT(get_bytes_own);
  PC_STAT(get_bytes_peer);
  PC_STAT(put_calls_count);
  PC_STAT(put_keys_count);
  PC_STAT(put_stored_count);
  PC_STAT(put_held_count);
  PC_STAT(put_failed_count);
  PC_STAT(put_bytes);
  PC_STAT(stale_reads_count);
  PC_STAT(retried_reads_count);
  PC_STAT(bad_payload_count);
  PC_STAT(deadline_misses_count);
  PC_STAT(outlived_count);
  PC_STAT(suspects_count);
  PC_STAT(primed_count);
  PC_STAT(lookups_count);
  PC_STAT(lookup_rounds_count);
  PC_STAT(directory_lag_count);
  PC_STAT(directory_records_count);
  PC_STAT(directory_dropped_count);
  PC_STAT(pool_objects_count);
  PC_STAT(pool_bytes_used);
  PC_STAT(pool_bytes_capacity);
  PC_STAT(pool_evicted_count);
  PC_STAT(pool_starved_count);
  PC_STAT(pool_duplicates_count);
  PC_STAT(exists_p50_us);
  PC_STAT(exists_p99_us);
  PC_STAT(get_p50_us);
  PC_STAT(get_p99_us);
  PC_STAT(put_p50_us);
  PC_STAT(put_p99_us);
  PC_STAT(huge_pages);
#undef PC_STAT
  py::list peers;
  for (const PeerStats& peer : stats.peers) {
    py::dict one;
    one["node_id"] = peer.node_id;
    one["transport"] = peer.transport;
    one["state"] = peer.state;
    one["objects_count"] = peer.objects_count;
    one["bytes_count"] = peer.bytes_count;
    peers.append(one);
  }
  out["peers"] = peers;
  return out;
}

}  // namespace peercache
