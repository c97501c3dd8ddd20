#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "dataplane/base/cacheline.h"
#include "dataplane/base/counters.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/units.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/queue/spsc_ring.h"
#include "dataplane/rail/rail_handle.h"

namespace peercache {

struct RailLane;  // rail/rail_lane.h

enum class RailCommandKind : uint8_t {
  kAttachLane,
  kConnectPeer,
  kDisconnectPeer,
  kLinkUp,
  kLinkDown,
  kStop,
};

/// 64 bytes of a peer that can always be read: what a probe reads. Without one a suspect peer is
/// tried with the next operation after the back-off.
///
/// THREAD: any; a value.
struct ProbeTarget {
  RegionIndex region{0};
  bool exists = false;
};

/// What the conductor tells a rail.
///
/// THREAD: any; a value.
struct RailCommand {
  RailCommandKind kind = RailCommandKind::kStop;
  PeerIndex peer{0};
  ProbeTarget probe{};
  RailLane* lane = nullptr;
};
static_assert(std::is_trivially_copyable_v<RailCommand>);

enum class RailEventKind : uint8_t {
  kPeerSuspect,
  kPeerRecovered,
  kPeerQuiet,     ///< after a disconnect: nothing is in flight to the peer any more
  kStateChanged,  ///< `state`
  kStopped,       ///< after a stop: nothing is in flight at all
};

/// What a rail tells the conductor. News only: when the ring is full they are dropped and counted;
/// the present state can always be asked for (RailProxy).
///
/// THREAD: any; a value.
struct RailEvent {
  RailEventKind kind = RailEventKind::kStopped;
  RailState state = RailState::kUp;
  PeerIndex peer{0};
};
static_assert(std::is_trivially_copyable_v<RailEvent>);

/// How a rail stands towards one peer, as it shows it to others.
enum class LinkView : uint8_t { kServing = 0, kRefusing = 1, kQuiet = 2 };

/// The rings and flags between a rail and its conductor.
///
/// THREAD:     `commands` and `wanted` are written by the conductor, `events`, `views`, `state` and
///             `stopped` by the rail's driver; everything is read by the other side, the flags by
///             anyone.
/// INVARIANTS: (M1) whoever reads `wanted` as true finds the connect command in the ring or done.
///             (M2) a view is the conductor's to write while it is kQuiet, the rail's from the
///             connect command until it is kQuiet again.
class RailMailbox {
 public:
  /// A connect and a disconnect for each peer, while a client-driven rail is idle.
  static constexpr size_t kCommandsMax = 2 * limits::kPeersMax;
  static constexpr size_t kEventsMax = 1024;

  RailMailbox() : commands(kCommandsMax), events(kEventsMax) {
    for (auto& view : views) {
      view.store(LinkView::kQuiet, std::memory_order_relaxed);  // before anyone else sees it
    }
  }

  SpscRing<RailCommand> commands;
  SpscRing<RailEvent> events;
  Counter events_dropped;

  std::array<std::atomic<bool>, limits::kPeersMax> wanted{};
  std::array<std::atomic<LinkView>, limits::kPeersMax> views{};
  alignas(kFalseSharingBytes) std::atomic<RailState> state{RailState::kUp};
  std::atomic<bool> stopped{false};
  /// Set when the rail's thread starts. BORROWS: the thread's event.
  std::atomic<WakeEvent*> wake_event{nullptr};
};

}  // namespace peercache
