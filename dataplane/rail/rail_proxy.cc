#include "dataplane/rail/rail_proxy.h"

namespace peercache {

Result<void> RailProxy::send(const RailCommand& command) {
  if (!mailbox_.commands.push(command)) {
    return make_error(Errc::kRingFull, "rail: {} commands wait already",
                      mailbox_.commands.capacity());
  }
  // M3 acquire: meets M4 in Rail::start; the event is open.
  WakeEvent* event = mailbox_.wake_event.load(std::memory_order_acquire);
  if (event != nullptr) {
    event->wake_if_sleeping();
  }
  return {};
}

Result<void> RailProxy::connect_peer(PeerIndex peer, ProbeTarget probe) {
  if (peer.value() >= limits::kPeersMax) {
    return make_error(Errc::kTooManyPeers, "rail: peer {} of at most {}", peer, limits::kPeersMax);
  }
  std::atomic<bool>& wanted = mailbox_.wanted[peer.value()];
  if (wanted.load(std::memory_order_relaxed)) {  // its own store
    return make_error(Errc::kAlreadyExists, "rail: peer {} is connected", peer);
  }
  if (!peer_quiet(peer)) {
    return make_error(Errc::kBusy, "rail: peer {} is not quiet yet", peer);
  }
  // The view is the conductor's to write while the peer is quiet, and the rail's from the command
  // on. Relaxed is enough: the command's push publishes it.
  std::atomic<LinkView>& view = mailbox_.views[peer.value()];
  view.store(LinkView::kServing, std::memory_order_relaxed);
  auto sent =
      send(RailCommand{.kind = RailCommandKind::kConnectPeer, .peer = peer, .probe = probe});
  if (!sent) {
    view.store(LinkView::kQuiet, std::memory_order_relaxed);  // as above
    return sent;
  }
  // M1 release: meets M2 in Rail::reaches; the command is in the ring.
  wanted.store(true, std::memory_order_release);
  return {};
}

Result<void> RailProxy::disconnect_peer(PeerIndex peer) {
  if (peer.value() >= limits::kPeersMax ||
      !mailbox_.wanted[peer.value()].load(std::memory_order_relaxed)) {  // its own store
    return make_error(Errc::kNotConnected, "rail: peer {} is not connected", peer);
  }
  PC_TRY(send(RailCommand{.kind = RailCommandKind::kDisconnectPeer, .peer = peer}));
  // Relaxed is enough: whoever still sees true pushes an operation that the rail refuses.
  mailbox_.wanted[peer.value()].store(false, std::memory_order_relaxed);
  return {};
}

bool RailProxy::peer_quiet(PeerIndex peer) const noexcept {
  // M5 acquire: meets M6 in Rail::show; all completions towards the peer have been handed back.
  return mailbox_.views[peer.value()].load(std::memory_order_acquire) == LinkView::kQuiet;
}

Result<void> RailProxy::set_link(bool up) {
  return send(RailCommand{.kind = up ? RailCommandKind::kLinkUp : RailCommandKind::kLinkDown});
}

Result<void> RailProxy::request_stop() { return send(RailCommand{.kind = RailCommandKind::kStop}); }

bool RailProxy::stopped() const noexcept {
  // M7 acquire: meets M8 in Rail::note_stopped; all completions have been handed back.
  return mailbox_.stopped.load(std::memory_order_acquire);
}

}  // namespace peercache
