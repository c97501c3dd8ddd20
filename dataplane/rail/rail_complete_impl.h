#pragma once

// Part of rail/rail.h: from the transport to the lanes.

#include <bit>
#include <span>

#include "dataplane/rail/rail.h"

namespace peercache {

template <Transport T>
int Rail<T>::reap() noexcept {
  uint32_t total = 0;
  // Twice, since a validated READ pulled in one turn completes in two: otherwise slots pile up.
  for (int round = 0; round < 2; ++round) {
    const uint32_t count = transport_->poll(rail_.completions);
    if (count == 0) {
      break;
    }
    // Headers that have landed are read after their completions.
    validation_fence();
    for (uint32_t i = 0; i < count; ++i) {
      complete(rail_.completions[i]);
    }
    total += count;
    if (count < T::kPollBatchMax) {
      break;
    }
  }
  if (total == 0) {
    stats_.polls_empty.add();
    return 0;
  }
  rail_.turn.completions += total;
  rail_.health.on_successes(rail_.turn.successes);
  note_state();
  return static_cast<int>(total);
}

template <Transport T>
void Rail<T>::complete(const Completion& completion) noexcept {
  const uint16_t index = rail_.table.posted(completion.cookie_id);
  const InflightSlot& slot = rail_.table[index];
  const PeerIndex peer = slot.peer;
  PeerLink& link = rail_.links[peer.value()];
  PC_ASSERT(link.posted_count != 0, peer);
  --link.posted_count;
  --rail_.posted_count;
  if (slot.phase == InflightPhase::kData) {
    rail_.bytes_in_flight -= slot.length_bytes;  // (L4)
  }
  if (completion.status == OpStatus::kOk) [[likely]] {
    link.last_success_at = rail_.turn.now;
    complete_ok(index);
  } else {
    complete_failed(index, completion.status);
  }
  if (link.fencing && link.posted_count == 0) {
    fence_done(peer);
  }
}

template <Transport T>
void Rail<T>::complete_ok(uint16_t index) noexcept {
  InflightSlot& slot = rail_.table[index];
  ++rail_.turn.successes;
  if (slot.phase == InflightPhase::kProbe) {
    probe_ended(index, ProbeOutcome::kOk);
    return;
  }
  const OpRecord& op = *slot.op;
  if (slot.phase == InflightPhase::kHeader) {
    const bool proven = header_proves(op.landing, op.target);
    rail_.turn.stale += proven ? 0 : 1;
    finish(index, proven ? OpStatus::kOk : OpStatus::kStale);
    return;
  }
  rail_.turn.bytes += slot.length_bytes;
  if (op.validation == Validation::kNone || op.kind != OpKind::kRead) {
    finish(index, OpStatus::kOk);
  } else if (slot.doom != OpStatus::kPending) {
    finish(index, slot.doom);  // bytes that cannot be validated any more
  } else {
    slot.phase = InflightPhase::kHeaderReady;  // (L2)
    rail_.headers_ready.push_back(index);
  }
}

template <Transport T>
void Rail<T>::complete_failed(uint16_t index, OpStatus status) noexcept {
  const InflightSlot& slot = rail_.table[index];
  const PeerIndex peer = slot.peer;
  if (slot.phase == InflightPhase::kProbe) {
    const bool innocent = status == OpStatus::kFlushed && slot.doom == OpStatus::kPending;
    probe_ended(index, innocent ? ProbeOutcome::kUndecided : ProbeOutcome::kFailed);
    return;
  }
  if (status == OpStatus::kTransportError) {
    stats_.errors.add();
    note_error(peer);
    try_link(peer);
  } else if (status == OpStatus::kPeerLost) {
    suspect(peer);
  }
  if (slot.doom != OpStatus::kPending) {
    finish(index, slot.doom);
  } else if (status == OpStatus::kFlushed) {
    requeue_flushed(index, rail_.links[peer.value()].fencing);
  } else {
    finish(index, status);
  }
}

template <Transport T>
void Rail<T>::requeue_flushed(uint16_t index, bool asked_for) noexcept {
  InflightSlot& slot = rail_.table[index];
  if (!asked_for && ++slot.repost_count > options_.repost_max_count) {
    finish(index, OpStatus::kTransportError);
  } else if (slot.phase == InflightPhase::kData) {
    slot.phase = InflightPhase::kReady;
    slot.expires_at = slot.op->deadline_at;
    rail_.data_ready.push_back(index);
    arm_timer(slot.expires_at);
  } else {
    slot.phase = InflightPhase::kHeaderReady;
    rail_.headers_ready.push_back(index);
  }
}

/// Ends an operation whose slot is in no queue and whose memory is quiet.
template <Transport T>
void Rail<T>::finish(uint16_t index, OpStatus status) noexcept {
  const InflightSlot& slot = rail_.table[index];
  hand_back(*rail_.lanes[slot.lane_index], slot.op, status);
  rail_.table.release(index);
}

template <Transport T>
void Rail<T>::hand_back(RailLane& lane, OpRecord* op, OpStatus status) noexcept {
  op->status = status;
  op->rail = options_.rail;
  lane.done[lane.done_count++] = op;
  rail_.dirty_lanes_mask |= 1U << lane.index;
  if (lane.done_count == RailLane::kDoneMax) {
    push_done(lane);
  }
}

template <Transport T>
void Rail<T>::push_done(RailLane& lane) noexcept {
  const size_t pushed = lane.lane.completions.push_many(
      std::span<OpRecord* const>(lane.done.data(), lane.done_count));
  // (R1): the ring holds all operations
  PC_ASSERT(pushed == lane.done_count, pushed, lane.done_count);
  lane.done_count = 0;
  lane.pushed = true;
}

template <Transport T>
void Rail<T>::push_all_done() noexcept {
  for (uint32_t mask = rail_.dirty_lanes_mask; mask != 0; mask &= mask - 1) {
    RailLane& lane = *rail_.lanes[static_cast<uint32_t>(std::countr_zero(mask))];
    if (lane.done_count != 0) {
      push_done(lane);
    }
    // Once per turn and lane: the wake-up is a locked instruction, and a system call when the
    // client sleeps.
    if (lane.pushed && !client_driven_ && lane.lane.client_event != nullptr) {
      lane.lane.client_event->wake_if_sleeping();
    }
    lane.pushed = false;
  }
  rail_.dirty_lanes_mask = 0;
}

template <Transport T>
void Rail<T>::end_turn(int work) noexcept {
  if (rail_.dirty_lanes_mask != 0) {
    push_all_done();
  }
  if (work == 0) {
    return;
  }
  const Turn& turn = rail_.turn;
  stats_.operations.add(turn.operations);
  stats_.bytes.add(turn.bytes);
  stats_.completions.add(turn.completions);
  stats_.stale.add(turn.stale);
  stats_.bytes_in_flight.set(rail_.bytes_in_flight);
}

}  // namespace peercache
