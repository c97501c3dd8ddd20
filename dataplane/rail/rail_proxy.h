#pragma once

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/rail/rail_command.h"

namespace peercache {

/// The only way the conductor speaks to a rail. Each call is a command in a ring that the rail
/// drains before its lanes.
///
/// THREAD:     owned by the conductor; the questions (const) by anyone.
/// BORROWS:    the rail's mailbox; the rail outlives it.
/// COST:       a push and at most one wake-up.
class RailProxy {
 public:
  explicit RailProxy(RailMailbox& mailbox) noexcept : mailbox_(mailbox) {}
  RailProxy(const RailProxy&) = delete;
  RailProxy& operator=(const RailProxy&) = delete;

  /// Operations towards the peer may be posted from now on. REQUIRES: the transport has connected
  /// it. Errors: kAlreadyExists, kBusy (a disconnect has not become quiet yet), kRingFull,
  /// kTooManyPeers.
  Result<void> connect_peer(PeerIndex peer, ProbeTarget probe);

  /// Ends all operations towards the peer as kPeerLost, fencing what is in flight. When
  /// `peer_quiet` says so nothing is in flight any more, and the transport may be told to
  /// disconnect. Errors: kNotConnected, kRingFull.
  Result<void> disconnect_peer(PeerIndex peer);
  [[nodiscard]] bool peer_quiet(PeerIndex peer) const noexcept;

  /// What the port reports. Errors: kRingFull.
  Result<void> set_link(bool up);

  /// Ends all operations as kCancelled, fencing what is in flight; `stopped` says when it is done.
  /// Errors: kRingFull.
  Result<void> request_stop();
  [[nodiscard]] bool stopped() const noexcept;

  /// Takes one piece of news. False if there is none.
  bool next_event(RailEvent& event) noexcept { return mailbox_.events.pop(event); }
  [[nodiscard]] uint64_t events_dropped() const noexcept { return mailbox_.events_dropped.value(); }

  /// For Rail::attach_lane. Errors: kRingFull.
  Result<void> send(const RailCommand& command);

 private:
  RailMailbox& mailbox_;
};

}  // namespace peercache
