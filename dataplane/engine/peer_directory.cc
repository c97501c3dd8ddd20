#include "dataplane/engine/peer_directory.h"

#include "dataplane/base/error.h"

namespace peercache {

Result<PeerIndex> PeerDirectory::add(const PeerInfo& info) {
  // Relaxed is enough: only this thread, the conductor, changes the count.
  const uint32_t index = count_.load(std::memory_order_relaxed);
  if (index >= limits::kPeersMax) {
    return make_error(Errc::kOutOfRange, "no room for another peer: {} indices have been used", index);
  }
  PC_ASSERT(info.region_count <= limits::kRegionsPerNodeMax, info.region_count);
  Entry& entry = entries_[index];
  entry.info = std::make_unique<PeerInfo>(info);
  // D1 release: meets D2 in info(); the info is complete (P1).
  entry.published.store(entry.info.get(), std::memory_order_release);
  // D3 release: meets D4 in count() and find(); entries below the count can be looked at.
  count_.store(index + 1, std::memory_order_release);
  return PeerIndex(static_cast<uint16_t>(index));
}

void PeerDirectory::set_state(PeerIndex peer, PeerState state) noexcept {
  PC_ASSERT(peer.value() < count_.load(std::memory_order_relaxed), peer);  // its own count
  // D5 release: meets D6 in state(); whoever sees kUp sees the info.
  entries_[peer.value()].state.store(state, std::memory_order_release);
}

PeerState PeerDirectory::state(PeerIndex peer) const noexcept {
  if (peer.value() >= limits::kPeersMax) {
    return PeerState::kAbsent;
  }
  // D6 acquire: meets D5 in set_state(); the info of a peer that is up is readable.
  return entries_[peer.value()].state.load(std::memory_order_acquire);
}

const PeerInfo* PeerDirectory::info(PeerIndex peer) const noexcept {
  if (peer.value() >= limits::kPeersMax) {
    return nullptr;
  }
  // D2 acquire: meets D1 in add(); the info is complete.
  return entries_[peer.value()].published.load(std::memory_order_acquire);
}

PeerIndex PeerDirectory::find(NodeId node, Incarnation incarnation) const noexcept {
  const uint32_t used = count();
  // Newest first: a node that came back is looked for in its latest incarnation.
  for (uint32_t i = used; i-- > 0;) {
    const PeerIndex index(static_cast<uint16_t>(i));
    const PeerInfo* known = info(index);
    if (known != nullptr && known->node == node && known->incarnation == incarnation &&
        state(index) != PeerState::kGone) {
      return index;
    }
  }
  return kNone;
}

uint32_t PeerDirectory::count() const noexcept {
  // D4 acquire: meets D3 in add(); entries below the count have an info.
  return count_.load(std::memory_order_acquire);
}

}  // namespace peercache
