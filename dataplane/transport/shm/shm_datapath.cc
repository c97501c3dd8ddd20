// The hot half of ShmTransport: queue, copy, search. No lock, no allocation, no system call.

#include <algorithm>

#include "dataplane/base/copy.h"
#include "dataplane/base/ordering.h"
#include "dataplane/transport/access_check.h"
#include "dataplane/transport/shm/shm_transport.h"

namespace peercache {

namespace {

// Bytes copied per poll: some 0.2 ms, so that a cancel, a deadline or a completed header never
// waits longer.
constexpr uint64_t kBytesPerPoll = 2ULL << 20;

// Keys searched per poll: some 50 us with cold buckets.
constexpr uint64_t kKeysPerPoll = 512;

// Whether the pieces hold exactly the bytes of the request (the engine has checked it; a WRITE
// would read past them).
bool pieces_add_up(const WorkRequest& request) noexcept {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < request.piece_count; ++i) {
    sum += request.pieces[i].length_bytes;
  }
  return sum == request.length_bytes;
}

}  // namespace

uint32_t ShmTransport::post(std::span<const WorkRequest> requests) noexcept {
  uint32_t accepted = 0;
  uint32_t smalls = 0;
  for (const WorkRequest& request : requests) {
    if (under_way() == kDepth) {
      break;  // (S1)
    }
    if (request.kind == OpKind::kWrite) {
      if (!accept_write(request)) {
        break;
      }
    } else {
      OpStatus status = OpStatus::kPending;
      if (request.kind == OpKind::kRead && !pieces_add_up(request)) {
        status = OpStatus::kTransportError;
      }
      const bool is_small =
          request.kind == OpKind::kLookup || request.length_bytes <= kShmSmallBytesMax;
      (is_small ? small_ : bulk_).push({request, {}, 0, status});
      smalls += is_small ? 1 : 0;
    }
    ++accepted;
  }
  if (smalls != 0) {
    prefetch_small(std::min(smalls, kPollBatchMax));
  }
  return accepted;
}

// Headers are scattered over a table that no cache holds: their misses are under way while the rail
// prepares its next data requests.
void ShmTransport::prefetch_small(uint32_t count) noexcept {
  const ShmPin pin(endpoint_.table(), port_.word);
  for (uint32_t i = small_.count() - std::min(count, small_.count()); i < small_.count(); ++i) {
    const WorkRequest& request = small_.at(i).request;
    if (request.kind == OpKind::kRead) {
      const ShmPlace place = resolve_place(pin, request);
      if (place.status == OpStatus::kOk) {
        prefetch_bytes(place.from, kCacheLineBytes);
      }
    }
  }
}

bool ShmTransport::accept_write(const WorkRequest& request) noexcept {
  const ShmPin pin(endpoint_.table(), port_.word);
  ShmPlace place = resolve_place(pin, request);
  if (place.status == OpStatus::kOk && !pieces_add_up(request)) {
    place.status = OpStatus::kTransportError;
  }
  if (place.status != OpStatus::kOk) {
    small_.push({request, {}, 0, place.status});
    return true;
  }
  if (place.to != nullptr) {
    bulk_.push({request, {}, 0, OpStatus::kPending});  // own memory: a copy like any other
    return true;
  }
  ShmCommand command{};
  command.cookie_id = request.cookie_id;
  command.offset_bytes = request.remote_offset_bytes;
  command.pieces = request.pieces;
  command.length_bytes = request.length_bytes;
  command.peer = request.peer;
  command.region = request.region;
  command.piece_count = request.piece_count;
  command.kind = ShmCommand::Kind::kWrite;
  if (writes_count_ == ShmPort::kWritesMax || !port_.commands.push(command)) {
    return false;
  }
  ++writes_count_;
  wake_wanted_ = true;
  return true;
}

void ShmTransport::flush() noexcept {
  if (fences_count_ != 0) {
    send_fences();
  }
  if (wake_wanted_) {
    wake_wanted_ = false;
    endpoint_.wake();
  }
}

uint32_t ShmTransport::poll(std::span<Completion> completions) noexcept {
  uint32_t count = 0;
  if (writes_count_ != 0) {
    count = take_written(completions);
  }
  if (fences_count_ != 0) {
    flush();
  }
  if (small_.count() != 0 && count != completions.size()) {
    const ShmPin pin(endpoint_.table(), port_.word);
    // The rail has fenced between a READ's completion and the post of its header; this covers the
    // turn in between.
    validation_fence();
    count += run_small(pin, completions.subspan(count));
  }
  if (endpoint_.copiers() != nullptr) {
    count += run_shared(completions.subspan(count));
  }
  // What is shared was posted first; the rest waits for its turn.
  if (bulk_.count() != 0 && port_.board.running() == 0 && count != completions.size()) {
    const ShmPin pin(endpoint_.table(), port_.word);
    count += run_bulk(pin, completions.subspan(count));
  }
  if (count != 0) {
    copy_done_fence();  // (S3)
  }
  return count;
}

uint32_t ShmTransport::take_written(std::span<Completion> completions) noexcept {
  const auto count = static_cast<uint32_t>(port_.done.pop_many(completions));
  writes_count_ -= count;
  return count;
}

uint32_t ShmTransport::run_small(const ShmPin& pin, std::span<Completion> completions) noexcept {
  // All misses of the batch are under way before the first copy waits for one.
  std::array<ShmPlace, kPollBatchMax> places;
  const uint32_t ready =
      std::min({small_.count(), kPollBatchMax, static_cast<uint32_t>(completions.size())});
  for (uint32_t i = 0; i < ready; ++i) {
    places[i] = resolve_place(pin, small_.at(i).request);
    if (places[i].status == OpStatus::kOk && small_.at(i).request.kind == OpKind::kRead) {
      prefetch_bytes(places[i].from, kCacheLineBytes);
    }
  }
  uint64_t keys_left = kKeysPerPoll;
  for (uint32_t i = 0; i < ready; ++i) {
    Pending& pending = small_.at(0);
    OpStatus status = pending.status != OpStatus::kPending ? pending.status : places[i].status;
    if (status == OpStatus::kOk) {
      if (pending.request.kind == OpKind::kRead) {
        copy_small(pending.request, places[i].from);
      } else if (!run_lookup(pending, places[i], keys_left)) {
        return i;
      }
    }
    completions[i] = {pending.request.cookie_id, status};
    small_.pop();
  }
  return ready;
}

bool ShmTransport::run_lookup(Pending& pending,
                              const ShmPlace& place,
                              uint64_t& keys_left) noexcept {
  const LookupBatch& batch = *pending.request.lookup;
  const uint32_t done = pending.keys_done_count;
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(batch.key_count - done, keys_left));
  lookup_buckets(reinterpret_cast<const Bucket*>(place.from), place.region_bytes / sizeof(Bucket),
                 batch.keys + done, batch.results + done, count);
  pending.keys_done_count += count;
  keys_left -= count;
  return pending.keys_done_count == batch.key_count;
}

void ShmTransport::copy_small(const WorkRequest& request, const std::byte* from) noexcept {
  for (uint32_t i = 0; i < request.piece_count; ++i) {
    const LocalPiece& piece = request.pieces[i];
    racy_copy(piece.address, from, piece.length_bytes);
    from += piece.length_bytes;
  }
}

uint32_t ShmTransport::run_bulk(const ShmPin& pin, std::span<Completion> completions) noexcept {
  uint64_t bytes_left = kBytesPerPoll;
  uint32_t count = 0;
  ShmPlace place = resolve_place(pin, bulk_.at(0).request);
  while (count < completions.size() && bytes_left != 0) {
    Pending& pending = bulk_.at(0);
    ShmPlace next;
    uint32_t next_bytes = 0;
    if (bulk_.count() > 1) {
      next = resolve_place(pin, bulk_.at(1).request);
      next_bytes = bulk_.at(1).request.length_bytes;
    }
    const OpStatus status = pending.status != OpStatus::kPending ? pending.status : place.status;
    if (status == OpStatus::kOk) {
      if (pending.request.kind == OpKind::kRead) {
        copy_out(pending.request, pending.cursor, place.from, pending.request.length_bytes,
                 {next.from, next_bytes}, bytes_left);
      } else {
        copy_in(pending, place, bytes_left);
      }
      if (pending.cursor.done_bytes != pending.request.length_bytes) {
        break;
      }
    }
    completions[count++] = {pending.request.cookie_id, status};
    bulk_.pop();
    if (bulk_.count() == 0) {
      break;
    }
    place = next;
  }
  return count;
}

void ShmTransport::copy_in(Pending& pending, const ShmPlace& place, uint64_t& bytes_left) noexcept {
  ShmCursor& cursor = pending.cursor;
  while (cursor.done_bytes != pending.request.length_bytes && bytes_left != 0) {
    const LocalPiece& piece = pending.request.pieces[cursor.piece_index];
    const uint64_t left = piece.length_bytes - cursor.piece_done_bytes;
    const auto step = static_cast<uint32_t>(std::min(left, bytes_left));
    copy_bytes(place.to + cursor.done_bytes, piece.address + cursor.piece_done_bytes, step);
    bytes_left -= step;
    cursor.done_bytes += step;
    cursor.piece_done_bytes += step;
    if (cursor.piece_done_bytes == piece.length_bytes) {
      ++cursor.piece_index;
      cursor.piece_done_bytes = 0;
    }
  }
}

uint32_t ShmTransport::run_shared(std::span<Completion> completions) noexcept {
  offer_bulk();
  if (port_.board.has_chunks()) {
    static_cast<void>(port_.board.copy_some(endpoint_.table(), port_.word, kBytesPerPoll));
  }
  return port_.board.running() == 0 ? 0 : port_.board.harvest(completions);
}

void ShmTransport::offer_bulk() noexcept {
  uint32_t chunks = 0;
  while (bulk_.count() != 0) {
    const Pending& pending = bulk_.at(0);
    const WorkRequest& request = pending.request;
    const bool suits = request.kind == OpKind::kRead && pending.status == OpStatus::kPending &&
                       pending.cursor.done_bytes == 0 &&
                       request.length_bytes >= ShmCopyBoard::kOfferBytesMin;
    if (!suits) {
      break;
    }
    const ShmPin pin(endpoint_.table(), port_.word);
    if (resolve_place(pin, request).status != OpStatus::kOk || !port_.board.offer(request)) {
      break;  // its error is run_bulk's to report; a full board empties itself
    }
    chunks += (request.length_bytes + ShmCopyBoard::kChunkBytes - 1) / ShmCopyBoard::kChunkBytes;
    bulk_.pop();
  }
  if (chunks > 1) {
    endpoint_.copiers()->wake(chunks - 1);  // one is for this thread
  }
}

void ShmTransport::fence(PeerIndex peer) noexcept {
  // Own copies happen only inside poll: what waits is not begun, and what has begun does not go on.
  // Copiers finish the chunks that they hold.
  port_.board.flush(peer);
  for (Fifo* fifo : {&small_, &bulk_}) {
    for (uint32_t i = 0; i < fifo->count(); ++i) {
      Pending& pending = fifo->at(i);
      if (pending.request.peer == peer && pending.status == OpStatus::kPending) {
        pending.status = OpStatus::kFlushed;
      }
    }
  }
  if (writes_count_ == 0 || peer.value() >= limits::kPeersMax) {
    return;
  }
  uint64_t& word = fences_[peer.value() / 64];
  const uint64_t bit = 1ULL << (peer.value() % 64);
  fences_count_ += (word & bit) == 0 ? 1 : 0;
  word |= bit;
  flush();
}

void ShmTransport::send_fences() noexcept {
  for (size_t i = 0; i < fences_.size() && fences_count_ != 0; ++i) {
    for (uint64_t& word = fences_[i]; word != 0;) {
      ShmCommand command{};
      command.peer =
          PeerIndex(static_cast<uint16_t>(i * 64 + static_cast<size_t>(__builtin_ctzll(word))));
      command.kind = ShmCommand::Kind::kFence;
      if (!port_.commands.push(command)) {
        return;  // the next poll tries again
      }
      word &= word - 1;
      --fences_count_;
      wake_wanted_ = true;
    }
  }
}

}  // namespace peercache
