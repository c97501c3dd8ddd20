#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/engine/client.h"
#include "dataplane/rail/rail_handle.h"

namespace peercache::test {

/// A rail whose every step is decided by the test: it holds what it pulled until told how each operation ends.
///
/// THREAD:     the test's.
class FakeRail : public RailHandle {
 public:
  explicit FakeRail(uint16_t index, bool client_driven = false)
      : index_(index), client_driven_(client_driven), event_(WakeEvent::open().value()) {
    reachable_.fill(true);
  }

  int poll_once(Nanos /*now*/) noexcept override {
    ++turns;
    pull();
    if (!automatic) {
      return 0;
    }
    return static_cast<int>(complete_all(automatic_status));
  }

  Result<Lane*> attach_lane(ClientIndex client, WakeEvent* client_event) override {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->client_event = client_event;
    static_cast<void>(client);
    return lanes_.back().get();
  }

  bool reaches(PeerIndex peer) const noexcept override { return reachable_[peer.value()]; }
  RailState state() const noexcept override { return rail_state; }
  RailStats stats() const noexcept override {
    RailStats stats;
    stats.bytes_in_flight = bytes_in_flight;
    return stats;
  }
  TransportKind kind() const noexcept override {
    return client_driven_ ? TransportKind::kShm : TransportKind::kSim;
  }
  RailIndex index() const noexcept override { return RailIndex(index_); }
  bool client_driven() const noexcept override { return client_driven_; }
  WakeEvent* wake_event() noexcept override { return client_driven_ ? nullptr : event_.get(); }

  void set_reaches(PeerIndex peer, bool reaches) { reachable_[peer.value()] = reaches; }

  /// Takes what the clients pushed, up to `max`.
  void pull(size_t max = SIZE_MAX) {
    for (const auto& lane : lanes_) {
      LaneRequest request;
      while (max-- > 0 && lane->requests.pop(request)) {
        if (request.op == nullptr) {
          cancels.push_back(request);
        } else {
          held.push_back(Held{request.op, lane.get()});
          order.push_back(request.op->op_index);
        }
      }
    }
  }

  /// Ends one held operation.
  void complete(size_t at, OpStatus status) {
    const Held item = held.at(at);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    item.record->status = status;
    PC_ASSERT(item.lane->completions.push(item.record));
    item.lane->client_event->wake_if_sleeping();
  }

  size_t complete_all(OpStatus status) {
    const size_t count = held.size();
    while (!held.empty()) {
      complete(0, status);
    }
    return count;
  }

  Lane& lane(size_t at) { return *lanes_.at(at); }

  struct Held {
    OpRecord* record;
    Lane* lane;
  };
  std::vector<Held> held;
  std::vector<LaneRequest> cancels;
  std::vector<uint32_t> order;  ///< op_index of everything pulled
  RailState rail_state = RailState::kUp;
  uint64_t bytes_in_flight = 0;
  bool automatic = false;
  OpStatus automatic_status = OpStatus::kOk;
  uint32_t turns = 0;

 private:
  uint16_t index_;
  bool client_driven_;
  std::unique_ptr<WakeEvent> event_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::array<bool, limits::kPeersMax> reachable_{};
};

/// One client over fake rails, with one peer that has a region of every kind.
///
/// THREAD:     the test's.
class ClientBench {
 public:
  static constexpr uint64_t kRegionBytes = 1 << 20;
  static constexpr RegionIndex kPublished{0};
  static constexpr RegionIndex kHeaders{1};
  static constexpr RegionIndex kDirectory{2};
  static constexpr RegionIndex kWritable{3};

  static PeerInfo peer_info(uint64_t node) {
    PeerInfo info;
    info.node = NodeId(node);
    info.incarnation = Incarnation(static_cast<uint32_t>(node) + 100);
    const auto add = [&info](RegionIndex region, RegionKind kind, uint64_t bytes, uint32_t granule) {
      RegionDescriptor& out = info.regions[info.region_count++];
      out = RegionDescriptor{};
      out.length_bytes = bytes;
      out.region = region;
      out.kind = kind;
      out.headers_region = kHeaders;
      out.granule_bytes = granule;
    };
    add(kPublished, RegionKind::kPublished, kRegionBytes, 4096);
    add(kHeaders, RegionKind::kHeaders, kRegionBytes / 4096 * sizeof(SlotHeader), 0);
    add(kDirectory, RegionKind::kDirectory, 256 * sizeof(Bucket), 0);
    add(kWritable, RegionKind::kWritable, kRegionBytes, 0);
    return info;
  }

  explicit ClientBench(std::vector<FakeRail*> rails_in, EngineOptions options = {})
      : peers(std::make_unique<PeerDirectory>()), clock(Nanos(1'000'000'000)) {
    peer = add_peer(1);
    std::vector<RailHandle*> handles(rails_in.begin(), rails_in.end());
    client = Client::open(ClientIndex(0), options, handles, *peers, clock.clock()).value();
  }

  PeerIndex add_peer(uint64_t node) {
    const PeerIndex index = peers->add(peer_info(node)).value();
    peers->set_state(index, PeerState::kUp);
    return index;
  }

  /// A validated READ of one slot into one piece.
  Op read(uint32_t bytes = 4096, uint32_t slot = 0) {
    pieces.push_back(std::make_unique<LocalPiece>(LocalPiece{buffer.data(), bytes, LocalKey(0)}));
    Op op;
    op.peer = peer;
    op.target.key = Key128{.low = slot + 1, .high = 7};
    op.target.region = kPublished;
    op.target.slot = SlotIndex(slot);
    op.target.offset_bytes = uint64_t{slot} * 4096;
    op.target.length_bytes = bytes;
    op.pieces = {pieces.back().get(), 1};
    return op;
  }

  std::vector<Op> reads(size_t count, uint32_t bytes = 4096) {
    std::vector<Op> ops;
    for (size_t i = 0; i < count; ++i) {
      ops.push_back(read(bytes, static_cast<uint32_t>(i % 16)));
    }
    return ops;
  }

  Nanos later() const { return clock.now() + Nanos(1'000'000'000); }

  std::unique_ptr<PeerDirectory> peers;
  ManualClock clock;
  PeerIndex peer{0};
  std::unique_ptr<Client> client;
  std::vector<std::byte> buffer = std::vector<std::byte>(1 << 20);
  std::vector<std::unique_ptr<LocalPiece>> pieces;
};

/// True if `fn` ends its process by abort: for contracts whose breach is a bug. Runs it in a child.
template <class Fn>
bool aborts(Fn&& fn) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<void>(!std::freopen("/dev/null", "w", stderr));
    ::signal(SIGABRT, SIG_DFL);
    fn();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}  // namespace peercache::test
