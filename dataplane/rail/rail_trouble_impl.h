#pragma once

// Part of rail/rail.h: deadlines, cancels, fences, suspect peers and probes. Nothing here runs for
// an operation that goes well.

#include <algorithm>
#include <span>

#include "dataplane/rail/rail.h"

namespace peercache {

template <Transport T>
int Rail<T>::run_timers() noexcept {
  rail_.timers_due_at = Nanos::max();
  const uint32_t posted_before = rail_.posted_count;
  const Nanos next = std::min({expire_slots(), expire_backlogs(), probe_where_due()});
  arm_timer(next);
  if (rail_.timers_due_at != Nanos::max()) {
    rail_.timers_due_at = std::max(rail_.timers_due_at, rail_.turn.now + kTimerPause);
  }
  return rail_.dirty_lanes_mask != 0 || rail_.posted_count != posted_before ? 1 : 0;
}

/// Ends or dooms what has expired; returns when the next one does.
template <Transport T>
Nanos Rail<T>::expire_slots() noexcept {
  Nanos next = Nanos::max();
  rail_.table.for_each_used([this, &next](uint16_t index, const InflightSlot& slot) {
    role_.assert_held();
    if (slot.doom != OpStatus::kPending || slot.phase == InflightPhase::kDropped) {
      return;  // waits for its completion, or for its turn in the queue
    }
    if (slot.expires_at > rail_.turn.now) {
      next = std::min(next, slot.expires_at);
    } else if (slot.phase >= InflightPhase::kData) {
      expire_posted(index);
    } else {
      stats_.timeouts.add();
      end_early(index, OpStatus::kDeadline);
    }
  });
  return next;
}

template <Transport T>
void Rail<T>::expire_posted(uint16_t index) noexcept {
  InflightSlot& slot = rail_.table[index];
  const PeerIndex peer = slot.peer;
  slot.doom = OpStatus::kDeadline;
  if (slot.phase != InflightPhase::kProbe) {  // a probe is judged when it is back
    stats_.timeouts.add();
    const Nanos age = rail_.turn.now - slot.posted_at;
    const Nanos enough =
        std::min<Nanos>(operation_timeout_, std::chrono::milliseconds(options_.suspect_after_ms));
    // A peer that has answered others meanwhile lost this one operation, but lives.
    bool silent = rail_.links[peer.value()].last_success_at <= slot.posted_at;
    if constexpr (detail::KnowsPeers<T>) {
      // Its peers are read without their help: what was late is this client, which did not poll.
      silent = false;
    }
    if (age >= enough && silent) {
      suspect(peer);
    }
    if ((age >= operation_timeout_ && !detail::KnowsPeers<T>) || (age >= enough && silent)) {
      note_error(peer);
    }
  }
  fence(peer);
}

template <Transport T>
Nanos Rail<T>::expire_backlogs() noexcept {
  Nanos next = Nanos::max();
  for (uint32_t i = 0; i < rail_.lanes_count; ++i) {
    RailLane& lane = *rail_.lanes[i];
    if (lane.backlog_due_at <= rail_.turn.now) {
      lane.backlog_due_at = Nanos::max();
      lane.backlog.remove_if([this, &lane](OpRecord* op) {
        role_.assert_held();
        if (op->deadline_at <= rail_.turn.now) {
          stats_.timeouts.add();
          hand_back(lane, op, OpStatus::kDeadline);
          return true;
        }
        lane.backlog_due_at = std::min(lane.backlog_due_at, op->deadline_at);
        return false;
      });
    }
    next = std::min(next, lane.backlog_due_at);
  }
  return next;
}

template <Transport T>
void Rail<T>::cancel(RailLane& lane, const LaneRequest& request) noexcept {
  const auto matches = [&request](const OpRecord& op) {
    return op.ticket_index == request.cancel_ticket_index &&
           op.ticket_generation_id == request.cancel_ticket_generation_id;
  };
  rail_.table.for_each_used([&](uint16_t index, InflightSlot& slot) {
    role_.assert_held();
    if (slot.op == nullptr || slot.lane_index != lane.index || !matches(*slot.op)) {
      return;
    }
    if (slot.phase < InflightPhase::kData) {
      end_early(index, OpStatus::kCancelled);
    } else if (slot.doom == OpStatus::kPending) {
      slot.doom = OpStatus::kCancelled;
      fence(slot.peer);
    }
  });
  lane.backlog.remove_if([&](OpRecord* op) {
    role_.assert_held();
    if (!matches(*op)) {
      return false;
    }
    hand_back(lane, op, OpStatus::kCancelled);
    return true;
  });
}

/// Ends an operation that the transport does not have. If its slot is in a queue it is freed when
/// it comes up there.
template <Transport T>
void Rail<T>::end_early(uint16_t index, OpStatus status) noexcept {
  InflightSlot& slot = rail_.table[index];
  PC_ASSERT(slot.phase < InflightPhase::kDropped, index, slot.phase);
  if (slot.phase == InflightPhase::kHeld || slot.phase == InflightPhase::kHeaderHeld) {
    finish(index, status);
    return;
  }
  hand_back(*rail_.lanes[slot.lane_index], slot.op, status);
  slot.op = nullptr;
  slot.phase = InflightPhase::kDropped;
}

/// REQUIRES: something is posted towards the peer.
template <Transport T>
void Rail<T>::fence(PeerIndex peer) noexcept {
  PeerLink& link = rail_.links[peer.value()];
  PC_ASSERT(link.posted_count != 0, peer);
  if (!link.fencing) {
    link.fencing = true;  // (L3): so this one fence covers all that is posted until it is done
    transport_->fence(peer);
    stats_.fences.add();
  }
}

/// All that was posted towards the peer is back.
template <Transport T>
void Rail<T>::fence_done(PeerIndex peer) noexcept {
  PeerLink& link = rail_.links[peer.value()];
  link.fencing = false;
  if (link.state == LinkState::kLeaving) {
    note_quiet(peer);
    return;
  }
  release_held(peer);
  arm_timer(rail_.turn.now);  // a probe may have waited for this
}

template <Transport T>
void Rail<T>::release_held(PeerIndex peer) noexcept {
  rail_.table.for_each_used([&](uint16_t index, InflightSlot& slot) {
    role_.assert_held();
    if (slot.peer != peer) {
      return;
    }
    if (slot.phase == InflightPhase::kHeld) {
      slot.phase = InflightPhase::kReady;
      rail_.data_ready.push_back(index);
    } else if (slot.phase == InflightPhase::kHeaderHeld) {
      slot.phase = InflightPhase::kHeaderReady;
      rail_.headers_ready.push_back(index);
    }
  });
}

}  // namespace peercache
