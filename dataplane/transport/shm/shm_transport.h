#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/transport/shm/shm_copy.h"
#include "dataplane/transport/shm/shm_endpoint.h"
#include "dataplane/transport/shm/shm_peer_table.h"
#include "dataplane/transport/shm/shm_port.h"
#include "dataplane/transport/transport.h"
#include "dataplane/transport/work_request.h"

namespace peercache {

/// The hot half of shared memory, one per client: READs are copies out of mapped regions and
/// LOOKUPs searches in them, done by the client itself inside poll, a bounded share per call.
/// WRITEs go to the endpoint, which carries them to the owner. Small requests (slot headers,
/// lookups) overtake large copies.
///
/// THREAD:     open: any; disconnect: the conductor; the rest: the client, which polls until its
/// requests have completed. OWNS:       the requests under way, in fixed arrays; a leased port.
/// BORROWS:    the endpoint and the client's event; both outlive it.
/// INVARIANTS: (S1) at most kDepth requests are accepted and not completed. (S2) memory is touched
/// only inside a ShmPin
///             that found it. (S3) bytes are complete (copy_done_fence) before poll reports them.
/// COST:       no allocation, lock or system call (a WRITE that finds the conductor asleep
/// excepted: flush wakes it); one
///             locked instruction per poll; the copy itself.
class ShmTransport {
 public:
  static constexpr TransportKind kKind = TransportKind::kShm;
  static constexpr bool kClientDriven = true;
  static constexpr uint32_t kPostBatchMax = 32;
  static constexpr uint32_t kPollBatchMax = 32;

  /// `client_event` (may be null) is signalled when WRITEs have completed: a client may sleep while
  /// only those are under way. Errors: kNoClient (all ports are leased).
  static Result<std::unique_ptr<ShmTransport>> open(ShmEndpoint& endpoint, WakeEvent* client_event);
  /// REQUIRES: nothing is under way.
  ~ShmTransport();
  ShmTransport(const ShmTransport&) = delete;
  ShmTransport& operator=(const ShmTransport&) = delete;

  // Cold half of the concept.
  /// Nothing to do: own regions belong to the endpoint, and destinations are plain memory here.
  Result<LocalKey> register_memory(const MemorySpec& memory);
  void disconnect(PeerIndex peer) { endpoint_.disconnect(peer); }

  /// Whether the peer's memory is mapped.
  [[nodiscard]] bool reaches(PeerIndex peer) const noexcept {
    return endpoint_.table().reaches(peer);
  }

  // Hot half of the concept, in shm_datapath.cc.
  [[nodiscard]] uint32_t post(std::span<const WorkRequest> requests) noexcept;
  void flush() noexcept;
  [[nodiscard]] uint32_t poll(std::span<Completion> completions) noexcept;
  void fence(PeerIndex peer) noexcept;

  /// True while a further poll does work, also if the last one completed nothing (a large copy goes
  /// on): do not sleep.
  [[nodiscard]] bool has_work() const noexcept {
    return small_.count() != 0 || bulk_.count() != 0 || port_.board.running() != 0;
  }

  void check_invariants() const;

 private:
  static constexpr uint32_t kDepth = limits::kInflightPerRail;

  [[nodiscard]] uint32_t under_way() const noexcept {
    return small_.count() + bulk_.count() + port_.board.running() + writes_count_;
  }

  /// A request and how far it has come.
  struct Pending {
    WorkRequest request;
    ShmCursor cursor;
    uint32_t keys_done_count;  // of a LOOKUP
    OpStatus status;           // kPending, or how it ends without having run
  };

  /// First in, first out; bounded by kDepth (S1).
  class Fifo {
   public:
    [[nodiscard]] uint32_t count() const noexcept { return tail_ - head_; }
    [[nodiscard]] Pending& at(uint32_t i) noexcept { return entries_[(head_ + i) % kDepth]; }
    void push(const Pending& entry) noexcept { entries_[tail_++ % kDepth] = entry; }
    void pop() noexcept { ++head_; }

   private:
    std::array<Pending, kDepth> entries_;
    uint32_t head_ = 0;  // both count up and wrap
    uint32_t tail_ = 0;
  };

  ShmTransport(ShmEndpoint& endpoint, ShmPort& port) noexcept : endpoint_(endpoint), port_(port) {}

  [[nodiscard]] bool accept_write(const WorkRequest& request) noexcept;
  void prefetch_small(uint32_t count) noexcept;
  [[nodiscard]] uint32_t take_written(std::span<Completion> completions) noexcept;
  [[nodiscard]] uint32_t run_small(const ShmPin& pin, std::span<Completion> completions) noexcept;
  [[nodiscard]] uint32_t run_bulk(const ShmPin& pin, std::span<Completion> completions) noexcept;
  void send_fences() noexcept;
  [[nodiscard]] uint32_t run_shared(std::span<Completion> completions) noexcept;
  void offer_bulk() noexcept;
  static bool run_lookup(Pending& pending, const ShmPlace& place, uint64_t& keys_left) noexcept;
  static void copy_small(const WorkRequest& request, const std::byte* from) noexcept;
  static void copy_in(Pending& pending, const ShmPlace& place, uint64_t& bytes_left) noexcept;

  ShmEndpoint& endpoint_;
  ShmPort& port_;
  Fifo small_;
  Fifo bulk_;
  uint32_t writes_count_ = 0;  // with the endpoint
  bool wake_wanted_ = false;   // commands pushed since the last flush
  uint32_t fences_count_ = 0;  // bits set in fences_
  std::array<uint64_t, limits::kPeersMax / 64>
      fences_{};  // peers whose fence the command ring had no room for yet
};

}  // namespace peercache
