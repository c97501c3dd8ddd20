#pragma once

#include <cstdint>
#include <string>

#include "dataplane/base/limits.h"

namespace peercache {

/// How a segment gets its pages.
enum class HugePageMode : uint8_t {
  kAuto,      ///< huge pages if the host has enough of them, ordinary ones otherwise (visible in
              ///< page_bytes)
  kOff,       ///< ordinary pages
  kRequired,  ///< huge pages or an error
};

/// Options of the shared-memory transport's cold half.
///
/// THREAD:     any; a value.
struct ShmOptions {
  /// Directory of the sockets, mode 0700; containers that share it can share memory. Empty:
  /// /run/peercache if that can be made, else /tmp/peercache-UID.
  std::string runtime_dir;

  /// Effective user id that peers must have; -1: our own.
  int64_t peer_uid_id = -1;

  /// From connect() to the peer's regions mapped, and the same on the accepting side.
  uint32_t connect_timeout_ms = 1000;

  /// An established connection whose peer stopped in the middle of a frame, or does not read its
  /// answers, for so long is closed: it only holds a buffer, so this is generous to a frozen
  /// process that may come back.
  uint32_t stall_timeout_ms = 30000;

  /// Accepted connections beyond this are refused with a reason.
  uint32_t inbound_max_count = limits::kPeersMax;

  /// Threads that help clients with READs of 64 KiB and more; at most 16. For asynchronous callers,
  /// and where one core does not fill the memory's bandwidth.
  uint32_t copier_threads_count = 0;

  /// Remote memory is populated in the page table in steps of this, one step per turn: 16 MiB are
  /// 4,096 entries, some 0.3 ms. The rest is mapped by faults where a client comes first.
  uint32_t populate_step_bytes = 16U << 20;

  /// Memory of lost peers is unmapped in steps of this, one step per turn, so that heartbeats are
  /// not held up.
  uint64_t unmap_step_bytes = 256ULL << 20;
};

}  // namespace peercache
