#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_handle.h"
#include "dataplane/base/units.h"
#include "dataplane/transport/shm/shm_frame.h"
#include "dataplane/transport/shm/shm_peer_table.h"
#include "dataplane/transport/shm/shm_port.h"
#include "dataplane/transport/shm/shm_socket.h"
#include "dataplane/wire/rail_handshake.h"

namespace peercache {

/// Frames in and out of one non-blocking Unix socket, with descriptors. Knows nothing of their
/// meaning.
///
/// THREAD:     the conductor.
/// OWNS:       socket, buffers, descriptors received and not yet taken.
/// INVARIANTS: (I1) the input buffer never exceeds the largest frame, whatever the peer declares.
///             (I2) at most kFdsWaitingMax descriptors of the peer are held.
/// COST:       buffers start empty and grow to the largest frame seen.
class ShmStream {
 public:
  static constexpr size_t kFdsWaitingMax = size_t{2} * kShmFdsPerFrame;
  /// No more is produced while this much is unsent: two chunks.
  static constexpr size_t kOutBytesWanted = size_t{2} * kShmPayloadBytesMax;

  explicit ShmStream(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void close() noexcept { fd_.reset(); }

  /// Receives once. kEnded also for a broken rule about descriptors.
  IoOutcome fill();

  /// The next whole frame, which stays valid until consume; nothing if more must arrive. Errors: of
  /// parse_shm_frame.
  Result<std::optional<ShmFrame>> next_frame();
  void consume(const ShmFrame& frame) noexcept { in_begin_ += frame.frame_bytes; }
  /// True while a part of a frame waits for its rest.
  [[nodiscard]] bool has_partial() const noexcept { return in_end_ != in_begin_; }

  /// Moves the next descriptors out; false if fewer have arrived.
  bool take_fds(size_t count, std::vector<UniqueFd>& fds);
  [[nodiscard]] size_t fds_waiting() const noexcept { return fds_.size(); }

  /// Buffer to append frames to.
  [[nodiscard]] std::vector<std::byte>& out() noexcept { return out_; }
  /// Appends a kRegionFds frame with its descriptors (borrowed until sent).
  void append_fds(uint32_t first_index, std::span<const int> fds);

  [[nodiscard]] size_t unsent_bytes() const noexcept { return out_.size() - out_begin_; }
  /// Sends what fits. kBlocked when something is left, kProgress when all is out.
  IoOutcome drain();

 private:
  struct FdMark {
    uint64_t position;  // in out_, of the frame that they belong to
    std::vector<int> fds;
  };

  void drop_sent();

  UniqueFd fd_;
  std::vector<std::byte> in_;
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  size_t need_bytes_ = sizeof(ShmFrameHeader);
  std::deque<UniqueFd> fds_;
  bool fds_lost_ = false;
  std::vector<std::byte> out_;
  size_t out_begin_ = 0;
  std::deque<FdMark> marks_;
};

/// A WRITE of one of our clients on its way to its owner.
struct ShmOutWrite {
  ShmPort* port = nullptr;
  ShmCommand command{};
  uint64_t request_id = 0;
  uint32_t sent_bytes = 0;
  uint32_t piece_done_bytes = 0;
  uint16_t piece_index = 0;
};

enum class ShmSide : uint8_t { kInbound, kOutbound };

enum class ShmState : uint8_t {
  kConnecting,  ///< outbound: the peer's queue was full, we try again
  kHello,       ///< waiting for the peer's hello
  kFds,         ///< outbound: waiting for descriptors
  kAnswer,      ///< inbound: waiting for kAccepted
  kOpen,
  kClosing,  ///< a refusal is being sent
  kClosed,   ///< to be destroyed at the end of the turn
};

/// One connection with what each side keeps of it.
///
/// THREAD:     the conductor.
struct ShmConnection {
  ShmConnection(ShmSide side_wanted, UniqueFd fd) : side(side_wanted), stream(std::move(fd)) {}

  /// Chunks have still to be produced; WRITEs are streamed in order, so the last one tells.
  [[nodiscard]] bool has_unsent_writes() const noexcept {
    return !writes.empty() && writes.back().sent_bytes != writes.back().command.length_bytes;
  }

  const ShmSide side;
  ShmState state = ShmState::kHello;
  ShmStream stream;
  Nanos deadline_at = Nanos::max();  ///< of the handshake, or of a stall
  bool wants_out = false;            ///< EPOLLOUT is armed

  // outbound_
  std::string path;
  uint64_t cookie_id = 0;
  Hello hello;                              ///< the acceptor's
  std::unique_ptr<ShmPeerMapping> mapping;  ///< until it is published
  uint32_t mapped_count = 0;                ///< regions that have their memory
  PeerIndex peer{};                         ///< valid in kOpen
  std::deque<ShmOutWrite> writes;  ///< oldest first; the first unsent one is being streamed
  const ShmPeerMapping* published = nullptr;  ///< the table's, in kOpen
  bool populating = false;                    ///< its page table is being filled, from here on
  size_t populate_index = 0;
  uint64_t populate_bytes = 0;

  // inbound_
  bool admitted = false;  ///< counts against the cap
  std::string peer_name;
  uint64_t write_request_id = 0;  ///< WRITE whose chunks arrive
  OpStatus write_status = OpStatus::kOk;
};

}  // namespace peercache
