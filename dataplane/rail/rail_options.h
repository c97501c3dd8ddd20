#pragma once

#include <cstdint>

#include "dataplane/base/clock.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/units.h"

namespace peercache {

/// How one rail behaves. What changes outcomes comes first, what only changes speed after it.
///
/// THREAD: any; a value. Read by Rail::open.
struct RailOptions {
  RailIndex rail{0};

  /// One operation, from its posting (design 4); 1 to 60,000. Then its destination is fenced and it
  /// ends as kDeadline.
  uint32_t operation_timeout_ms = 500;
  /// An operation that its batch's deadline ends after at least this long, while nothing at all
  /// came back from the peer, makes the peer suspect as a time-out would: deadlines of lookups are
  /// shorter than operation_timeout_ms.
  uint32_t suspect_after_ms = 200;
  /// A probe of a suspect peer, or of a rail that is down.
  uint32_t probe_timeout_ms = 100;
  /// Pause between probes: doubles from the first to the second.
  uint32_t probe_backoff_ms_min = 100;
  uint32_t probe_backoff_ms_max = 2'000;
  /// A rail is down after this many errors without a success between them, towards two peers if it
  /// has two.
  uint32_t down_after_errors_count = 3;
  /// A degraded rail is up after this many successes without an error between them.
  uint32_t up_after_successes_count = 32;
  /// How often an operation is posted again that its transport flushed without having been asked to
  /// fence.
  uint32_t repost_max_count = 3;

  /// True: the rail has no thread; the client that owns its lane runs it. Always so for transports
  /// that say kClientDriven.
  bool client_driven = false;

  /// Operations posted and not yet completed; 1 to limits::kInflightPerRail.
  uint32_t inflight_max_count = limits::kInflightPerRail;
  /// Their bytes. One operation is always let through. 64 MiB is 1.3 ms of a 400 Gb/s rail, far
  /// beyond its bandwidth-delay product, and still bounds what a silent peer can hold.
  uint64_t inflight_bytes_max = 64ULL << 20;
  /// Requests taken from one lane per turn, 1 to 64: 32 keep a turn below 2 us and use whole cache
  /// lines of the ring.
  uint32_t pull_max_count = 32;

  /// What stop() measures its patience with; poll_once is told the time.
  Clock clock{};
};

}  // namespace peercache
