#pragma once

// Part of rail/rail.h: from the lanes to the transport.

#include <algorithm>
#include <span>

#include "dataplane/rail/rail.h"

namespace peercache {

template <Transport T>
int Rail<T>::pull() noexcept {
  const uint32_t count = rail_.lanes_count;
  int work = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t at = rail_.next_lane + i;
    work += pull_lane(*rail_.lanes[at < count ? at : at - count]);
  }
  // Another lane goes first each turn, so that none starves when slots are short.
  rail_.next_lane = rail_.next_lane + 1 < count ? rail_.next_lane + 1 : 0;
  return work;
}

template <Transport T>
int Rail<T>::pull_lane(RailLane& lane) noexcept {
  int work = 0;
  uint32_t left = options_.pull_max_count;
  while (left != 0 && !lane.backlog.empty() && can_start()) {
    start_op(lane, lane.backlog.pop_front());
    --left;
    ++work;
  }
  // The ring is drained also when nothing can be started: a cancel may be in it, and deadlines have
  // to be seen.
  const std::span<LaneRequest> pulled(rail_.pulled.data(), options_.pull_max_count);
  const size_t count = lane.lane.requests.pop_many(pulled);
  for (size_t i = 0; i < count; ++i) {
    // As numbers, since a cancel has no record. The first line is the target, the second the rest.
    const auto at = reinterpret_cast<uintptr_t>(pulled[i].op);
    __builtin_prefetch(reinterpret_cast<const void*>(at));
    __builtin_prefetch(reinterpret_cast<const void*>(at + kCacheLineBytes));
  }
  for (size_t i = 0; i < count; ++i) {
    OpRecord* op = pulled[i].op;
    if (op == nullptr) {
      cancel(lane, pulled[i]);
    } else if (lane.backlog.empty() && can_start()) {
      start_op(lane, op);
    } else {
      lane.backlog.push_back(op);
      lane.backlog_due_at = std::min(lane.backlog_due_at, op->deadline_at);
      arm_timer(op->deadline_at);
    }
  }
  return work + static_cast<int>(count);
}

template <Transport T>
bool Rail<T>::can_start() const noexcept {
  // Slots of probes that are not under way stay free for them.
  return rail_.table.free_count() + rail_.probes_count > kProbesMax;
}

template <Transport T>
void Rail<T>::start_op(RailLane& lane, OpRecord* op) noexcept {
  PC_ASSERT(op->peer.value() < limits::kPeersMax, op->peer);
  const uint16_t index = rail_.table.acquire();
  InflightSlot& slot = rail_.table[index];
  slot.op = op;
  slot.expires_at = op->deadline_at;
  slot.length_bytes = op->length_bytes;
  slot.peer = op->peer;
  slot.lane_index = lane.index;
  slot.phase = InflightPhase::kReady;
  slot.doom = OpStatus::kPending;
  slot.repost_count = 0;
  rail_.data_ready.push_back(index);
  arm_timer(op->deadline_at);
  ++rail_.turn.operations;
}

template <Transport T>
int Rail<T>::post_ready() noexcept {
  int posted = 0;
  if (!rail_.headers_ready.empty()) {
    // Where the bytes were copied by this core: they were read before the header will be.
    validation_fence();
    posted += post_from<true>(rail_.headers_ready);
  }
  if (!rail_.data_ready.empty()) {
    posted += post_from<false>(rail_.data_ready);
  }
  if (posted != 0) {
    transport_->flush();
    stats_.doorbells.add();
  }
  return posted;
}

template <Transport T>
template <bool kHeaders>
int Rail<T>::post_from(BoundedFifo<uint16_t>& queue) noexcept {
  constexpr InflightPhase kPosted = kHeaders ? InflightPhase::kHeader : InflightPhase::kData;
  int posted = 0;
  while (!queue.empty()) {
    uint32_t count = 0;
    while (count < T::kPostBatchMax && !queue.empty()) {
      const uint16_t index = queue.front();
      const InflightSlot& slot = rail_.table[index];
      if (slot.phase == InflightPhase::kDropped) {
        static_cast<void>(queue.pop_front());
        rail_.table.release(index);
        continue;
      }
      if (!kHeaders && over_budget(slot)) {
        break;
      }
      static_cast<void>(queue.pop_front());
      if (admit(index, kHeaders) == Admission::kPost) {
        rail_.batch[count] = kHeaders ? header_request(index) : data_request(index);
        note_posted(index, kPosted);
        rail_.batch_slots[count++] = index;
      }
    }
    if (count == 0) {
      break;
    }
    const uint32_t accepted =
        transport_->post(std::span<const WorkRequest>(rail_.batch.data(), count));
    PC_ASSERT(accepted <= count, accepted, count);
    posted += static_cast<int>(accepted);
    if (accepted < count) {
      for (uint32_t i = count; i > accepted; --i) {
        undo_posted(rail_.batch_slots[i - 1], kPosted);
        queue.push_front(rail_.batch_slots[i - 1]);
      }
      break;
    }
  }
  return posted;
}

template <Transport T>
bool Rail<T>::over_budget(const InflightSlot& slot) const noexcept {
  return rail_.bytes_in_flight != 0 &&
         rail_.bytes_in_flight + slot.length_bytes > options_.inflight_bytes_max;
}

template <Transport T>
auto Rail<T>::admit(uint16_t index, bool header) noexcept -> Admission {
  const InflightSlot& slot = rail_.table[index];
  const PeerLink& link = rail_.links[slot.peer.value()];
  if (link.state == LinkState::kUp && !link.fencing && !rail_.refuses_all &&
      slot.expires_at > rail_.turn.now) [[likely]] {
    return Admission::kPost;
  }
  return admit_slowly(index, header);
}

template <Transport T>
auto Rail<T>::admit_slowly(uint16_t index, bool header) noexcept -> Admission {
  InflightSlot& slot = rail_.table[index];
  PeerLink& link = rail_.links[slot.peer.value()];
  if (link.state == LinkState::kAbsent) {
    if constexpr (detail::KnowsPeers<T>) {
      connect(RailCommand{.kind = RailCommandKind::kConnectPeer, .peer = slot.peer});
    }
    // The operation may have been pushed after a connect that came after this turn's look at the
    // commands (M1).
    static_cast<void>(take_commands());
  }
  OpStatus refusal = OpStatus::kPending;
  if (rail_.stopping) {
    refusal = OpStatus::kCancelled;
  } else if (link.state == LinkState::kAbsent || link.state == LinkState::kLeaving) {
    refusal = OpStatus::kPeerLost;
  } else if (slot.expires_at <= rail_.turn.now) {
    refusal = OpStatus::kDeadline;
    stats_.timeouts.add();
  } else if (rail_.health.state() == RailState::kDown) {
    refusal = OpStatus::kNoRail;
  } else if (link.state == LinkState::kSuspect) {
    refusal = OpStatus::kPeerSuspect;
  }
  if (refusal != OpStatus::kPending) {
    finish(index, refusal);
    return Admission::kNotNow;
  }
  if (link.state == LinkState::kTrial || link.fencing) {
    slot.phase = header ? InflightPhase::kHeaderHeld : InflightPhase::kHeld;
    return Admission::kNotNow;
  }
  return Admission::kPost;
}

template <Transport T>
WorkRequest Rail<T>::data_request(uint16_t index) noexcept {
  const OpRecord& op = *rail_.table[index].op;
  WorkRequest request;
  request.cookie_id = rail_.table.new_cookie(index);
  request.remote_offset_bytes = op.target.offset_bytes;
  if (op.kind == OpKind::kLookup) {
    request.lookup = op.lookup;
  } else {
    request.pieces = op.pieces;
  }
  request.length_bytes = op.length_bytes;
  request.peer = op.peer;
  request.region = op.region;
  request.piece_count = op.piece_count;
  request.kind = op.kind;
  request.flags_id = 0;
  return request;
}

template <Transport T>
WorkRequest Rail<T>::header_request(uint16_t index) noexcept {
  InflightSlot& slot = rail_.table[index];
  OpRecord& op = *slot.op;
  slot.header_piece = LocalPiece{reinterpret_cast<std::byte*>(&op.landing), sizeof(SlotHeader),
                                 rail_.lanes[slot.lane_index]->lane.landing_key};
  WorkRequest request;
  request.cookie_id = rail_.table.new_cookie(index);
  request.remote_offset_bytes = uint64_t{op.target.slot.value()} * sizeof(SlotHeader);
  request.pieces = &slot.header_piece;
  request.length_bytes = sizeof(SlotHeader);
  request.peer = op.peer;
  request.region = op.headers_region;
  request.piece_count = 1;
  request.kind = OpKind::kRead;
  request.flags_id = 0;
  return request;
}

template <Transport T>
void Rail<T>::note_posted(uint16_t index, InflightPhase phase) noexcept {
  InflightSlot& slot = rail_.table[index];
  slot.phase = phase;
  ++rail_.links[slot.peer.value()].posted_count;
  ++rail_.posted_count;
  if (phase == InflightPhase::kData) {
    slot.posted_at = rail_.turn.now;
    slot.expires_at = std::min(rail_.turn.now + operation_timeout_, slot.op->deadline_at);
    rail_.bytes_in_flight += slot.length_bytes;
    arm_timer(slot.expires_at);
  }
}

template <Transport T>
void Rail<T>::undo_posted(uint16_t index, InflightPhase phase) noexcept {
  InflightSlot& slot = rail_.table[index];
  --rail_.links[slot.peer.value()].posted_count;
  --rail_.posted_count;
  if (phase == InflightPhase::kData) {
    slot.phase = InflightPhase::kReady;
    slot.expires_at = slot.op->deadline_at;
    rail_.bytes_in_flight -= slot.length_bytes;
  } else {
    slot.phase = InflightPhase::kHeaderReady;
  }
}

}  // namespace peercache
