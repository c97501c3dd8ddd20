#pragma once

#include "dataplane/base/counters.h"
#include "dataplane/base/histogram.h"

namespace peercache {

/// What the calls of one client did; summed by Node::stats.
///
/// THREAD:     written by the client's call; read by anyone.
struct CallCounters {
  Counter exists_calls, exists_keys, exists_hits;
  Counter get_calls, get_keys, get_hits_own, get_hits_peer, get_misses, get_bytes_own,
      get_bytes_peer;
  Counter put_calls, put_keys, put_stored, put_held, put_failed, put_bytes;
  Counter stale_reads, retried_reads, bad_payload, deadline_misses, outlived, primed;
  Counter lookup_keys, lookup_rounds, rpc_lookups, starved;
  LatencyHistogram exists_latency, get_latency, put_latency;
};

}  // namespace peercache
