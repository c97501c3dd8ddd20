#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/transport/work_request.h"
#include "dataplane/wire/rail_handshake.h"
#include "dataplane/wire/region_descriptor.h"

namespace peercache {

/// Local memory to be used by a transport.
struct MemorySpec {
  std::byte* base = nullptr;
  Bytes length{0};
  RegionKind kind = RegionKind::kDestination;
  RegionIndex region{0};          ///< index under which peers name it; for kDestination ignored
  RegionIndex headers_region{0};  ///< for kPublished
  uint32_t granule_bytes = 0;     ///< for kPublished
  int fd = -1;                    ///< memfd behind it, for shm; -1 otherwise
};

/// What a transport has to provide. One object per rail; monomorphised into `Rail<T>`.
///
/// Cold half: called by the conductor or a helper while the rail runs; must not disturb the hot
/// half (new peers and regions become visible to it by a release store). Hot half: called only by
/// the thread that drives the rail; all `noexcept`, no lock, no allocation.
///
/// post   accepts a prefix of the span and returns its length; a request that is wrong in itself
///        (unknown peer, bounds) is accepted and completes with its error. Accepted requests
///        complete exactly once.
/// flush  rings the doorbell for what was posted since the last call.
/// poll   makes progress and writes up to out.size() completions.
/// fence  asks that nothing in flight towards `peer` touches local memory any more; each such
///        request still completes (kFlushed, or its true outcome if that came first). May take a
///        while; poll reports.
/// A completion with any status means that the local memory of that request is quiet.
///
/// What else a rail makes use of where a transport has it (rail/rail.h): `kClientDriven`,
/// `reaches`, `has_work`, `prepare_sleep` with `wait_fd`.
template <class T>
concept Transport = requires(T transport,
                             std::span<const WorkRequest> requests,
                             std::span<Completion> completions,
                             PeerIndex peer,
                             const Hello& hello,
                             const MemorySpec& memory) {
  { T::kKind } -> std::convertible_to<TransportKind>;
  { T::kPostBatchMax } -> std::convertible_to<uint32_t>;
  { T::kPollBatchMax } -> std::convertible_to<uint32_t>;
  // Cold.
  { transport.register_memory(memory) } -> std::same_as<Result<LocalKey>>;
  { transport.disconnect(peer) } -> std::same_as<void>;
  // Hot.
  { transport.post(requests) } noexcept -> std::same_as<uint32_t>;
  { transport.flush() } noexcept -> std::same_as<void>;
  { transport.poll(completions) } noexcept -> std::same_as<uint32_t>;
  { transport.fence(peer) } noexcept -> std::same_as<void>;
};

}  // namespace peercache
