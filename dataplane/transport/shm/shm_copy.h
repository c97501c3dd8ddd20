#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/transport/shm/shm_peer_table.h"
#include "dataplane/transport/work_request.h"

namespace peercache {

/// READs of at most this are slot headers and the like: copied word by word, before anything large.
inline constexpr uint32_t kShmSmallBytesMax = 256;

/// Where a request's remote bytes are, or why it ends.
///
/// THREAD:     any; a value. BORROWS: the mapping, for as long as the pin that found it.
struct ShmPlace {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  ///< own writable memory only
  uint64_t region_bytes = 0;
  OpStatus status = OpStatus::kPeerLost;
};

/// Finds and bound-checks what a request names.
ShmPlace resolve_place(const ShmPin& pin, const WorkRequest& request) noexcept;

/// How far a request has come.
///
/// THREAD:     whoever copies; a value.
struct ShmCursor {
  uint32_t done_bytes = 0;
  uint32_t piece_done_bytes = 0;  ///< of pieces[piece_index]
  uint16_t piece_index = 0;
};

/// The cursor at `offset_bytes` of the request. O(pieces).
ShmCursor cursor_at(const WorkRequest& request, uint32_t offset_bytes) noexcept;

/// What will be copied after a request, for the prefetch; null if unknown.
struct ShmNext {
  const std::byte* from = nullptr;
  uint32_t length_bytes = 0;
};

/// Copies remote bytes at `from` (the request's first byte) into its pieces, from the cursor to
/// `end_bytes` or until `bytes_left` is used up. Ends without a fence (base/copy.h).
void copy_out(const WorkRequest& request,
              ShmCursor& cursor,
              const std::byte* from,
              uint32_t end_bytes,
              ShmNext next,
              uint64_t& bytes_left) noexcept;

}  // namespace peercache
