#pragma once

// Part of rail/rail.h: how errors make peers suspect and rails go down, and the probes that bring
// them
// back.

#include <algorithm>
#include <span>

#include "dataplane/rail/rail.h"

namespace peercache {

template <Transport T>
void Rail<T>::note_error(PeerIndex peer) noexcept {
  if constexpr (detail::KnowsPeers<T>) {
    return;  // there is no link that could be down
  }
  rail_.health.on_error(peer, rail_.connected_count, rail_.turn.now);
  note_state();
}

/// The rail went down: what it has posted is fenced and ends as kNoRail, for another rail to do,
/// rather than waiting here for its time-out.
template <Transport T>
void Rail<T>::give_up_posted() noexcept {
  rail_.table.for_each_used([this](uint16_t /*index*/, InflightSlot& slot) {
    role_.assert_held();
    const bool posted = slot.phase == InflightPhase::kData || slot.phase == InflightPhase::kHeader;
    if (posted && slot.doom == OpStatus::kPending) {
      slot.doom = OpStatus::kNoRail;
      if (rail_.links[slot.peer.value()].posted_count != 0) {  // 0: its completion is at hand
        fence(slot.peer);
      }
    }
  });
}

template <Transport T>
void Rail<T>::note_state() noexcept {
  const RailState state = rail_.health.state();
  if (state == rail_.shown_state) {
    return;
  }
  rail_.shown_state = state;
  rail_.refuses_all = rail_.stopping || state == RailState::kDown;
  if (state == RailState::kDown) {
    give_up_posted();
  }
  // Relaxed is enough: a hint for striping; an operation that comes all the same is refused.
  mailbox_.state.store(state, std::memory_order_relaxed);
  tell(RailEventKind::kStateChanged, PeerIndex{0});
  arm_timer(rail_.health.probe_due_at());
}

template <Transport T>
void Rail<T>::add_trouble(PeerIndex peer) noexcept {
  PeerLink& link = rail_.links[peer.value()];
  if (!link.troubled) {
    link.troubled = true;
    rail_.troubled[rail_.troubled_count++] = peer;
  }
}

/// Operations towards the peer end at once from now on, until a probe succeeds.
template <Transport T>
void Rail<T>::suspect(PeerIndex peer) noexcept {
  if constexpr (detail::KnowsPeers<T>) {
    return;  // the transport says who is lost; memory of a peer that stands still can be read
  }
  PeerLink& link = rail_.links[peer.value()];
  if (link.state != LinkState::kUp && link.state != LinkState::kTrial) {
    return;
  }
  const Nanos shortest = std::chrono::milliseconds(options_.probe_backoff_ms_min);
  const Nanos longest = std::chrono::milliseconds(options_.probe_backoff_ms_max);
  const bool served_since = link.last_success_at > link.recovered_at;
  link.backoff = served_since ? shortest : std::clamp(2 * link.backoff, shortest, longest);
  link.state = LinkState::kSuspect;
  link.probe_due_at = rail_.turn.now + link.backoff;
  add_trouble(peer);
  arm_timer(link.probe_due_at);
  show(peer, LinkView::kRefusing);
  tell(RailEventKind::kPeerSuspect, peer);
  release_held(peer);  // to be refused
}

/// After an error that may have been of one operation only: a probe at once decides.
template <Transport T>
void Rail<T>::try_link(PeerIndex peer) noexcept {
  PeerLink& link = rail_.links[peer.value()];
  if (link.state != LinkState::kUp) {
    return;
  }
  if (!link.probe.exists) {
    suspect(peer);
    return;
  }
  link.state = LinkState::kTrial;
  link.probe_due_at = rail_.turn.now;
  add_trouble(peer);
  arm_timer(link.probe_due_at);
  show(peer, LinkView::kRefusing);
}

template <Transport T>
void Rail<T>::recover(PeerIndex peer) noexcept {
  PeerLink& link = rail_.links[peer.value()];
  const bool was_suspect = link.state == LinkState::kSuspect;
  link.state = LinkState::kUp;
  link.recovered_at = rail_.turn.now;
  link.probe_due_at = Nanos::max();
  show(peer, LinkView::kServing);
  if (was_suspect) {
    tell(RailEventKind::kPeerRecovered, peer);
  }
  release_held(peer);
}

/// Sends the probes that are due; returns when the next one is.
template <Transport T>
Nanos Rail<T>::probe_where_due() noexcept {
  Nanos next = Nanos::max();
  if (rail_.health.probe_due_at() <= rail_.turn.now) {
    rail_.health.on_probe_posted(rail_.turn.now);
    if (!probe_rail()) {
      // Nobody to probe: the next operation decides.
      rail_.health.on_probe_ok();
      note_state();
    }
  }
  next = std::min(next, rail_.health.probe_due_at());
  for (uint32_t i = 0; i < rail_.troubled_count;) {
    const PeerIndex peer = rail_.troubled[i];
    PeerLink& link = rail_.links[peer.value()];
    if (link.state != LinkState::kTrial && link.state != LinkState::kSuspect) {
      link.troubled = false;
      rail_.troubled[i] = rail_.troubled[--rail_.troubled_count];
      continue;
    }
    next = std::min(next, probe_link(peer));
    ++i;
  }
  return next;
}

/// The turn of one peer in trouble; returns when it wants the next one.
template <Transport T>
Nanos Rail<T>::probe_link(PeerIndex peer) noexcept {
  PeerLink& link = rail_.links[peer.value()];
  if (link.probing || link.fencing || rail_.health.state() == RailState::kDown) {
    return Nanos::max();  // whatever ends that arms the timer
  }
  if (link.probe_due_at > rail_.turn.now) {
    return link.probe_due_at;
  }
  if (!link.probe.exists) {
    recover(peer);  // the next operation decides; its failure doubles the back-off
    return Nanos::max();
  }
  return post_probe(peer) ? Nanos::max() : rail_.turn.now + kTimerPause;
}

/// Probes some connected peer. False if no peer can be probed.
template <Transport T>
bool Rail<T>::probe_rail() noexcept {
  bool waits = false;
  for (size_t i = 0; i < limits::kPeersMax; ++i) {
    rail_.probe_cursor = static_cast<uint16_t>((rail_.probe_cursor + 1) % limits::kPeersMax);
    const PeerLink& link = rail_.links[rail_.probe_cursor];
    const bool connected = link.state != LinkState::kAbsent && link.state != LinkState::kLeaving;
    if (!connected || !link.probe.exists) {
      continue;
    }
    waits = waits || link.probing || link.fencing;
    if (!link.probing && !link.fencing && post_probe(PeerIndex(rail_.probe_cursor))) {
      return true;
    }
  }
  return waits;
}

template <Transport T>
bool Rail<T>::post_probe(PeerIndex peer) noexcept {
  if (rail_.probes_count == kProbesMax || rail_.table.free_count() == 0) {
    return false;
  }
  const auto landing = static_cast<uint32_t>(std::countr_one(rail_.landings_used_mask));
  PeerLink& link = rail_.links[peer.value()];
  const uint16_t index = rail_.table.acquire();
  InflightSlot& slot = rail_.table[index];
  slot.op = nullptr;
  slot.posted_at = rail_.turn.now;
  slot.expires_at = rail_.turn.now + std::chrono::milliseconds(options_.probe_timeout_ms);
  slot.header_piece = LocalPiece{reinterpret_cast<std::byte*>(&rail_.probe_landings[landing]),
                                 sizeof(SlotHeader), rail_.probe_key};
  slot.length_bytes = 0;
  slot.peer = peer;
  slot.lane_index = static_cast<uint8_t>(landing);
  slot.phase = InflightPhase::kProbe;
  slot.doom = OpStatus::kPending;
  WorkRequest request;
  request.cookie_id = rail_.table.new_cookie(index);
  request.remote_offset_bytes = 0;
  request.pieces = &slot.header_piece;
  request.length_bytes = sizeof(SlotHeader);
  request.peer = peer;
  request.region = link.probe.region;
  request.piece_count = 1;
  request.kind = OpKind::kRead;
  request.flags_id = 0;
  if (transport_->post(std::span<const WorkRequest>(&request, 1)) == 0) {
    rail_.table.release(index);
    return false;
  }
  transport_->flush();
  rail_.landings_used_mask |= 1U << landing;
  ++rail_.probes_count;
  ++rail_.posted_count;
  ++link.posted_count;
  link.probing = true;
  arm_timer(slot.expires_at);
  return true;
}

template <Transport T>
void Rail<T>::probe_ended(uint16_t index, ProbeOutcome outcome) noexcept {
  const InflightSlot& slot = rail_.table[index];
  const PeerIndex peer = slot.peer;
  PeerLink& link = rail_.links[peer.value()];
  rail_.landings_used_mask &= ~(1U << slot.lane_index);
  --rail_.probes_count;
  link.probing = false;
  rail_.table.release(index);
  arm_timer(rail_.turn.now);
  const bool troubled = link.state == LinkState::kTrial || link.state == LinkState::kSuspect;
  if (outcome == ProbeOutcome::kUndecided) {
    link.probe_due_at = troubled ? rail_.turn.now : Nanos::max();
    return;
  }
  if (outcome == ProbeOutcome::kFailed) {
    if (link.state != LinkState::kLeaving) {
      note_error(peer);
    }
    if (link.state == LinkState::kSuspect) {
      link.state = LinkState::kTrial;  // so that suspect() takes it and doubles the pause
    }
    suspect(peer);
    return;
  }
  if (rail_.health.state() == RailState::kDown) {
    rail_.health.on_probe_ok();
    note_state();
    for (uint32_t i = 0; i < rail_.troubled_count; ++i) {
      // the rail was to blame
      rail_.links[rail_.troubled[i].value()].probe_due_at = rail_.turn.now;
    }
  }
  if (troubled) {
    recover(peer);
  }
}

}  // namespace peercache
