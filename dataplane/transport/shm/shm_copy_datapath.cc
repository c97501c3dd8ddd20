// The copy itself: from mapped memory into pieces, with the prefetch running ahead.

#include <algorithm>

#include "dataplane/base/copy.h"
#include "dataplane/transport/access_check.h"
#include "dataplane/transport/shm/shm_copy.h"

namespace peercache {

namespace {

// A copy is cut into steps of this, so that each knows what to prefetch. One page, as far as the
// prefetch runs ahead.
constexpr uint32_t kStepBytes = kPrefetchAheadBytes;

void advance(const WorkRequest& request, ShmCursor& cursor, uint32_t bytes) noexcept {
  cursor.done_bytes += bytes;
  cursor.piece_done_bytes += bytes;
  if (cursor.piece_done_bytes == request.pieces[cursor.piece_index].length_bytes) {
    ++cursor.piece_index;
    cursor.piece_done_bytes = 0;
  }
}

}  // namespace

ShmPlace resolve_place(const ShmPin& pin, const WorkRequest& request) noexcept {
  ShmPlace place;
  const ShmPeerMapping* mapping = pin.find(request.peer);
  if (mapping == nullptr) {
    return place;
  }
  const ShmRegionView* view = mapping->find(request.region);
  place.status = view == nullptr ? OpStatus::kOutOfBounds : check_access(view->descriptor, request);
  if (place.status == OpStatus::kOk) {
    place.from = view->data + request.remote_offset_bytes;
    place.to = view->writable == nullptr ? nullptr : view->writable + request.remote_offset_bytes;
    place.region_bytes = view->descriptor.length_bytes;
  }
  return place;
}

ShmCursor cursor_at(const WorkRequest& request, uint32_t offset_bytes) noexcept {
  ShmCursor cursor;
  cursor.done_bytes = offset_bytes;
  uint32_t left = offset_bytes;
  while (left != 0 && left >= request.pieces[cursor.piece_index].length_bytes) {
    left -= request.pieces[cursor.piece_index].length_bytes;
    ++cursor.piece_index;
  }
  cursor.piece_done_bytes = left;
  return cursor;
}

void copy_out(const WorkRequest& request,
              ShmCursor& cursor,
              const std::byte* from,
              uint32_t end_bytes,
              ShmNext next,
              uint64_t& bytes_left) noexcept {
  const uint32_t length = request.length_bytes;
  const bool streams = length >= kStreamingBytesMin;
  while (cursor.done_bytes != end_bytes && bytes_left != 0) {
    const LocalPiece& piece = request.pieces[cursor.piece_index];
    const uint64_t piece_left = piece.length_bytes - cursor.piece_done_bytes;
    const auto step = static_cast<uint32_t>(std::min(
        {piece_left, uint64_t{end_bytes - cursor.done_bytes}, uint64_t{kStepBytes}, bytes_left}));
    const std::byte* source = from + cursor.done_bytes;
    std::byte* to = piece.address + cursor.piece_done_bytes;
    // What is read kPrefetchAheadBytes later: this object further on, or the front of the next one.
    const uint64_t ahead_at = uint64_t{cursor.done_bytes} + kPrefetchAheadBytes;
    const std::byte* ahead = source;
    if (ahead_at < length) {
      ahead = from + ahead_at;
    } else if (next.from != nullptr && ahead_at - length + step <= next.length_bytes) {
      ahead = next.from + (ahead_at - length);
    }
    if (streams) {
      copy_bytes_ahead(to, source, step, ahead);
    } else {
      prefetch_bytes(ahead, step);
      copy_bytes_cached(to, source, step);
    }
    bytes_left -= step;
    advance(request, cursor, step);
  }
}

}  // namespace peercache
