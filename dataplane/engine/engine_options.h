#pragma once

#include <cstdint>

#include "dataplane/base/idle.h"

namespace peercache {

/// Whether the payload hash of a slot's header is compared on top of the header itself (design 6).
enum class VerifyReads : uint8_t { kOff = 0, kSampled = 1, kFull = 2 };

/// What an engine and its clients need to know.
///
/// THREAD:     any; a value.
struct EngineOptions {
  uint32_t client_count = 8;  ///< handles in the pool of leases; at most limits::kClientsMax

  VerifyReads verify = VerifyReads::kOff;
  uint32_t verify_sample_reads_count = 64;  ///< kSampled: one validated READ in so many

  /// Bytes that one client keeps in one rail's lane while other rails could carry the rest: what is bound late goes to
  /// the rail that drained first. 32 MiB are 0.7 ms of a 400 Gb/s rail, more than the gap between two polls of a
  /// waiting client. At least one operation is in the lane whatever its size.
  uint32_t lane_window_bytes = 32U << 20;

  IdleOptions wait_idle{};           ///< phases of Client::wait before it sleeps
  uint32_t wait_sleep_ms_max = 20;   ///< one sleep of wait ends after this; a lost peer's rail wakes it much earlier
  /// The same while only client-driven rails have work: nobody wakes the client for those, so it only dozes.
  uint32_t wait_doze_us = 50;
  uint32_t fence_grace_ms = 250;     ///< from the end of a wait to quiet memory; longer is counted, never cut short
};

}  // namespace peercache
