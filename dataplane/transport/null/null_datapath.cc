#include <algorithm>

#include "dataplane/base/ordering.h"
#include "dataplane/transport/access_check.h"
#include "dataplane/transport/null/null_transport.h"

namespace peercache {

namespace {

void scatter_few(const WorkRequest& request, const std::byte* from) noexcept {
  for (uint16_t i = 0; i < request.piece_count; ++i) {
    const LocalPiece& piece = request.pieces[i];
    racy_copy(piece.address, from, piece.length_bytes);
    from += piece.length_bytes;
  }
}

void gather(const WorkRequest& request, std::byte* to) noexcept {
  for (uint16_t i = 0; i < request.piece_count; ++i) {
    const LocalPiece& piece = request.pieces[i];
    racy_copy(to, piece.address, piece.length_bytes);
    to += piece.length_bytes;
  }
  copy_done_fence();
}

}  // namespace

OpStatus NullTransport::execute(const WorkRequest& request) const noexcept {
  PC_DASSERT(request.peer.value() < limits::kPeersMax, request.peer);
  // N3 acquire: meets N2 in add_peer; the table is complete.
  const PeerTable* table = peers_[request.peer.value()].load(std::memory_order_acquire);
  if (table == nullptr) {
    return OpStatus::kPeerLost;
  }
  if (request.region.value() >= limits::kRegionsPerNodeMax) {
    return OpStatus::kOutOfBounds;
  }
  const NullRegion& region = table->regions[request.region.value()];
  const OpStatus access = check_access(region.descriptor, request);
  if (access != OpStatus::kOk) {
    return access;
  }
  std::byte* const remote = region.memory + request.remote_offset_bytes;
  if (request.kind == OpKind::kRead) {
    if (request.length_bytes <= kCopyBytesMax) {
      scatter_few(request, remote);
    }
  } else if (request.kind == OpKind::kLookup) {
    const LookupBatch& batch = *request.lookup;
    lookup_buckets(reinterpret_cast<const Bucket*>(remote),
                   region.descriptor.length_bytes / sizeof(Bucket), batch.keys, batch.results,
                   batch.key_count);
  } else if (options_.copy_writes) {
    gather(request, remote);
  }
  return OpStatus::kOk;
}

uint32_t NullTransport::post(std::span<const WorkRequest> requests) noexcept {
  const uint32_t room = kDepth - (tail_ - head_);  // (N1)
  const uint32_t count = std::min(room, static_cast<uint32_t>(requests.size()));
  for (uint32_t i = 0; i < count; ++i) {
    ring_[tail_++ & (kDepth - 1)] = Completion{requests[i].cookie_id, execute(requests[i])};
  }
  return count;
}

uint32_t NullTransport::poll(std::span<Completion> completions) noexcept {
  const uint32_t count = std::min(tail_ - head_, static_cast<uint32_t>(completions.size()));
  for (uint32_t i = 0; i < count; ++i) {
    completions[i] = ring_[head_++ & (kDepth - 1)];
  }
  return count;
}

}  // namespace peercache
