#pragma once

#include <cstdint>

namespace peercache {

/// How one link (a rail towards a peer) of the simulated fabric behaves. Plain numbers, so that a
/// test names exactly the faults it wants; probabilities are in parts per million of requests. The
/// defaults are a healthy link.
///
/// THREAD: any; a value. Changed values apply to requests posted, and to steps taken, from then on.
struct SimFaults {
  // Speed.

  /// From posting to completion of a request without bytes.
  uint64_t latency_ns = 2'000;
  /// A uniform extra of up to this; never changes the order on a link.
  uint64_t jitter_ns = 0;
  /// Of the whole rail: its requests queue behind each other. 0: unlimited.
  uint64_t bandwidth_bytes_per_s = 0;
  /// 400: this link takes four times as long for everything.
  uint32_t slow_percent = 100;

  // Order and atomicity.

  /// Requests that take up to reorder_ns longer and may be overtaken.
  uint32_t reorder_ppm = 0;
  uint64_t reorder_ns = 20'000;
  /// Requests that are executed in several chunks, in random order, at random times.
  uint32_t torn_ppm = 0;
  /// At least 2, at most kSimChunksMax.
  uint32_t torn_chunks_max_count = 8;
  /// The chunks lie within this time, added to the latency.
  uint64_t torn_spread_ns = 5'000;

  // Loss.

  /// Requests never complete by themselves; only a fence ends them.
  bool lost = false;
  /// With `lost`: bytes still arrive, at random times up to this after posting.
  uint64_t lost_write_ns = 0;
  /// Requests that end as kTransportError after some of their bytes have moved.
  uint32_t error_ppm = 0;
  /// From fence() until nothing in flight touches local memory any more.
  uint64_t fence_ns = 1'000;

  // Flaps: down during [0, flap_down_ns) of each period, counted from flap_from_ns. While down,
  // requests end as kTransportError error_after_ns after their next step.

  /// 0: the link never flaps.
  uint64_t flap_period_ns = 0;
  uint64_t flap_down_ns = 0;
  uint64_t flap_from_ns = 0;
  uint64_t error_after_ns = 1'000;

  [[nodiscard]] constexpr bool link_down_at(uint64_t now_ns) const noexcept {
    return flap_period_ns != 0 && now_ns >= flap_from_ns &&
           (now_ns - flap_from_ns) % flap_period_ns < flap_down_ns;
  }
};

inline constexpr uint32_t kSimChunksMax = 8;

}  // namespace peercache
