#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "dataplane/base/cacheline.h"
#include "dataplane/transport/shm/shm_peer_table.h"
#include "dataplane/transport/work_request.h"

namespace peercache {

/// Large READs of one client, cut into chunks that the client and the copiers take.
///
/// THREAD:     offer, harvest, flush, running: the client; copy_some: the client and any copier.
/// INVARIANTS: (B1) a job's request is written only while nobody can hold one of its chunks: all
///             are done and the client has harvested it. (B2) a chunk is taken by exactly one
///             thread, by the exchange of `claim`; whoever takes it adds it to `done_count`, after
///             its bytes are complete. (B3) `open_mask` has a job's bit while it may have chunks to
///             take; the last taker clears it before it copies, so never that of a later job in the
///             same place.
/// COST:       two locked instructions per chunk; no lock, allocation or system call.
class ShmCopyBoard {
 public:
  static constexpr uint32_t kJobsMax = 32;

  /// A chunk: some 12 us of copying, long beside the two locked instructions and the pin it costs.
  static constexpr uint32_t kChunkBytes = 128 * 1024;
  /// Below this a READ is not worth the lines that travel between cores.
  static constexpr uint32_t kOfferBytesMin = 64 * 1024;

  ShmCopyBoard() = default;
  ShmCopyBoard(const ShmCopyBoard&) = delete;
  ShmCopyBoard& operator=(const ShmCopyBoard&) = delete;

  /// False if all places are taken. REQUIRES: a READ whose pieces add up; length > 0.
  [[nodiscard]] bool offer(const WorkRequest& request) noexcept;

  /// Takes chunks of any job until about `bytes` are copied. Returns the chunks taken.
  uint32_t copy_some(const ShmPeerTable& table, ShmEpochWord& word, uint64_t bytes) noexcept;

  /// Reports jobs that have ended, oldest first. Their bytes are complete.
  [[nodiscard]] uint32_t harvest(std::span<Completion> completions) noexcept;

  /// Nobody takes another chunk of the peer's jobs; those taken are finished and then harvested.
  void flush(PeerIndex peer) noexcept;

  /// Jobs offered and not harvested.
  [[nodiscard]] uint32_t running() const noexcept { return tail_ - head_; }

  /// Whether there is a chunk to take; a hint.
  [[nodiscard]] bool has_chunks() const noexcept {
    // Relaxed is enough: copy_some looks again.
    return open_mask_.value.load(std::memory_order_relaxed) != 0;
  }

 private:
  struct alignas(kFalseSharingBytes) Job {
    std::atomic<uint64_t> claim{0};  // next chunk (low half), count of chunks (high half)
    std::atomic<uint32_t> done_count{0};
    std::atomic<bool> lost{false};  // a chunk found its peer gone
    WorkRequest request{};
  };

  static uint64_t claim_of(uint32_t next, uint32_t count) noexcept {
    return uint64_t{count} << 32U | next;
  }
  [[nodiscard]] bool take(uint32_t index, uint32_t& chunk) noexcept;
  void copy_chunk(const ShmPin& pin, Job& job, uint32_t chunk) noexcept;

  std::array<Job, kJobsMax> jobs_{};
  Padded<std::atomic<uint32_t>> open_mask_{};

  // client_
  std::array<bool, kJobsMax> flushed_{};
  uint32_t head_ = 0;  // both count up and wrap
  uint32_t tail_ = 0;
};

}  // namespace peercache
