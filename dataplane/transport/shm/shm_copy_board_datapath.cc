// Who copies which chunk: a few atomics, no lock.

#include <bit>

#include "dataplane/base/ordering.h"
#include "dataplane/transport/shm/shm_copy.h"
#include "dataplane/transport/shm/shm_copy_board.h"

namespace peercache {

bool ShmCopyBoard::offer(const WorkRequest& request) noexcept {
  if (running() == kJobsMax) {
    return false;
  }
  const uint32_t index = tail_ % kJobsMax;
  Job& job = jobs_[index];
  job.request = request;  // (B1)
  flushed_[index] = false;
  // Relaxed: published by C1, like the request.
  job.lost.store(false, std::memory_order_relaxed);
  job.done_count.store(0, std::memory_order_relaxed);
  const uint32_t count = (request.length_bytes + kChunkBytes - 1) / kChunkBytes;
  // C1 release: meets C2 in take(); whoever takes a chunk sees the request.
  job.claim.store(claim_of(0, count), std::memory_order_release);
  ++tail_;
  // C3 release: meets C4 in copy_some(); the claim is there when the bit is.
  open_mask_.value.fetch_or(1U << index, std::memory_order_release);
  return true;
}

bool ShmCopyBoard::take(uint32_t index, uint32_t& chunk) noexcept {
  Job& job = jobs_[index];
  uint64_t claim = job.claim.load(std::memory_order_relaxed);  // judged by the exchange below
  for (;;) {
    const auto next = static_cast<uint32_t>(claim);
    const auto count = static_cast<uint32_t>(claim >> 32U);
    if (next >= count) {
      return false;
    }
    // C2 acquire: meets C1 in offer(); the request belongs to this claim.
    if (job.claim.compare_exchange_weak(claim, claim_of(next + 1, count), std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      if (next + 1 == count) {
        // (B3) Relaxed: only a hint; this job cannot end before the chunk just taken has.
        open_mask_.value.fetch_and(~(1U << index), std::memory_order_relaxed);
      }
      chunk = next;
      return true;
    }
  }
}

uint32_t ShmCopyBoard::copy_some(const ShmPeerTable& table,
                                 ShmEpochWord& word,
                                 uint64_t bytes) noexcept {
  uint32_t taken = 0;
  const auto most = static_cast<uint32_t>((bytes + kChunkBytes - 1) / kChunkBytes);
  // C4 acquire: meets C3 in offer().
  uint32_t mask = open_mask_.value.load(std::memory_order_acquire);
  while (mask != 0 && taken < most) {
    const auto index = static_cast<uint32_t>(std::countr_zero(mask));
    uint32_t chunk = 0;
    if (!take(index, chunk)) {
      mask &= mask - 1;
      continue;
    }
    const ShmPin pin(table, word);  // per chunk: a lost peer's memory is not held for longer
    copy_chunk(pin, jobs_[index], chunk);
    ++taken;
  }
  return taken;
}

void ShmCopyBoard::copy_chunk(const ShmPin& pin, Job& job, uint32_t chunk) noexcept {
  const WorkRequest& request = job.request;
  const ShmPlace place = resolve_place(pin, request);
  if (place.status == OpStatus::kOk) {
    const uint32_t begin = chunk * kChunkBytes;
    const uint32_t end =
        request.length_bytes - begin > kChunkBytes ? begin + kChunkBytes : request.length_bytes;
    ShmCursor cursor = cursor_at(request, begin);
    uint64_t bytes_left = end - begin;
    copy_out(request, cursor, place.from, end, {}, bytes_left);
    copy_done_fence();
  } else {
    job.lost.store(true, std::memory_order_relaxed);  // published by C5
  }
  // C5 release: meets C6 in harvest(); the chunk's bytes are complete (B2).
  job.done_count.fetch_add(1, std::memory_order_release);
}

uint32_t ShmCopyBoard::harvest(std::span<Completion> completions) noexcept {
  uint32_t count = 0;
  while (count < completions.size() && head_ != tail_) {
    const uint32_t index = head_ % kJobsMax;
    Job& job = jobs_[index];
    const auto chunks =
        static_cast<uint32_t>(job.claim.load(std::memory_order_relaxed) >> 32U);  // own store
    // C6 acquire: meets C5 in copy_chunk(); the bytes of all chunks are here.
    if (job.done_count.load(std::memory_order_acquire) != chunks) {
      break;
    }
    OpStatus status = OpStatus::kOk;
    if (flushed_[index]) {
      status = OpStatus::kFlushed;
    } else if (job.lost.load(std::memory_order_relaxed)) {  // ordered by C6
      status = OpStatus::kPeerLost;
    }
    completions[count++] = {job.request.cookie_id, status};
    ++head_;
  }
  return count;
}

void ShmCopyBoard::flush(PeerIndex peer) noexcept {
  for (uint32_t at = head_; at != tail_; ++at) {
    const uint32_t index = at % kJobsMax;
    Job& job = jobs_[index];
    if (job.request.peer != peer) {
      continue;
    }
    uint32_t chunk = 0;
    while (take(index, chunk)) {  // takes what is left, and copies none of it
      flushed_[index] = true;
      // Relaxed is enough: nothing was written, and only this thread reads it in harvest().
      job.done_count.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

}  // namespace peercache
