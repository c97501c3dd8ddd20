#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace peercache {

/// Bytes and objects read from one peer, by the transport that moved them.
struct PeerStats {
  std::string node_id;
  std::string transport;
  std::string state;  ///< "up", "suspect" or "gone"
  uint64_t objects_count = 0;
  uint64_t bytes_count = 0;
};

/// Snapshot of a node's counters since its start. Latencies are of whole calls.
struct NodeStats {
  std::string node_id;
  uint64_t incarnation_id = 0;
  std::string control_address;
  uint32_t members_count = 0;
  uint32_t members_up_count = 0;
  uint64_t epoch_count = 0;

  uint64_t exists_calls_count = 0, exists_keys_count = 0, exists_hits_count = 0;
  uint64_t get_calls_count = 0, get_keys_count = 0, get_hits_own_count = 0, get_hits_peer_count = 0,
           get_misses_count = 0;
  uint64_t get_bytes_own = 0, get_bytes_peer = 0;
  uint64_t put_calls_count = 0, put_keys_count = 0, put_stored_count = 0, put_held_count = 0,
           put_failed_count = 0;
  uint64_t put_bytes = 0;

  uint64_t stale_reads_count =
      0;  ///< validations that failed: a miss or a retry, never wrong bytes
  uint64_t retried_reads_count = 0;
  uint64_t bad_payload_count = 0;
  uint64_t deadline_misses_count = 0;  ///< calls that ended by their deadline
  uint64_t outlived_count = 0;         ///< calls that returned more than 250 ms after it
  uint64_t suspects_count = 0;         ///< times a peer became suspect
  uint64_t primed_count = 0;           ///< lookups saved by a preceding exists

  uint64_t lookups_count = 0;  ///< keys asked at shards
  uint64_t lookup_rounds_count = 0;
  uint64_t directory_lag_count = 0;      ///< published but not acknowledged yet
  uint64_t directory_records_count = 0;  ///< in this node's shard
  uint64_t directory_dropped_count = 0;  ///< records lost to full buckets

  uint64_t pool_objects_count = 0, pool_bytes_used = 0, pool_bytes_capacity = 0;
  uint64_t pool_evicted_count = 0, pool_starved_count = 0, pool_duplicates_count = 0;

  double exists_p50_us = 0, exists_p99_us = 0, get_p50_us = 0, get_p99_us = 0, put_p50_us = 0,
         put_p99_us = 0;

  std::string huge_pages;  ///< what was got: "2 MiB" or "4 KiB"
  std::vector<PeerStats> peers;
};

}  // namespace peercache
