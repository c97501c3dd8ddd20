// From lanes to outcomes: drain, retry, finish, cancel.
#include <bit>

#include "dataplane/engine/client_state.h"

namespace peercache {

int Client::poll() {
  State& state = *state_;
  state.progress();
  const uint32_t reported = state.unreported;
  state.unreported = 0;
  return static_cast<int>(reported);
}

void Client::cancel(Ticket ticket) {
  State& state = *state_;
  TicketTable::Entry& entry = state.tickets.at(ticket);
  if (entry.remaining == 0 || entry.cancelled) {
    return;
  }
  entry.cancelled = true;
  state.begin_call();
  state.cancel_backlog(ticket);
  state.cancel_in_rails(ticket);
  state.end_call();
}

// One round without blocking; returns a measure of the work done.
uint32_t Client::State::progress() noexcept {
  begin_call();
  if (armed) {
    armed = false;
    event->cancel_sleep();
    event->consume();
  }
  uint32_t work = 0;
  for (uint32_t i = 0; i < rail_count; ++i) {
    RailSlot& rail = rails[i];
    if (rail.ops_in_flight == 0) {
      continue;
    }
    if (rail.driven) {
      work += static_cast<uint32_t>(rail.handle->poll_once(now));
    }
    work += drain(i);
  }
  if (owed_cancels != 0) {
    push_owed_cancels();
  }
  if (backlog_count != 0) {
    pump_backlog();
  }
  end_call();
  return work;
}

uint32_t Client::State::drain(uint32_t position) noexcept {
  Lane& lane = *rails[position].lane;
  uint32_t drained = 0;
  while (true) {
    std::array<OpRecord*, kPopMax> batch;
    const size_t count = lane.completions.pop_many(batch);
    for (size_t i = 0; i < count; ++i) {
      // The second line holds what the rail wrote and what is looked at here; the rail's core has it.
      __builtin_prefetch(reinterpret_cast<const char*>(batch[i]) + kCacheLineBytes);
    }
    for (size_t i = 0; i < count; ++i) {
      take_back(*batch[i], position);
    }
    drained += static_cast<uint32_t>(count);
    if (count < kPopMax) {
      return drained;
    }
  }
}

void Client::State::take_back(OpRecord& record, uint32_t position) noexcept {
  const uint16_t number = number_of(record);
  RecordSide& side = sides[number];
  PC_ASSERT(side.place == RecordPlace::kRail, number, side.place);           // (C1), (S1)
  PC_ASSERT(side.rail_position == position, side.rail_position, position);
  RailLoad& load = loads[position];
  const uint64_t bytes = bytes_of(record);
  PC_ASSERT(load.bytes_mine >= bytes, load.bytes_mine, bytes);               // (S2)
  load.bytes_mine -= bytes;
  load.bytes_in_flight -= bytes < load.bytes_in_flight ? bytes : load.bytes_in_flight;
  --rails[position].ops_in_flight;
  if (record.status == OpStatus::kOk) [[likely]] {
    const bool holds = options.verify == VerifyReads::kOff || payload_holds(record);
    finish(number, holds ? OpStatus::kOk : OpStatus::kBadPayload);
    return;
  }
  settle(number, record.status);
}

// An operation that its rail could not do: again, elsewhere, or over. Its memory is quiet already.
void Client::State::settle(uint16_t number, OpStatus status) noexcept {
  OpRecord& record = records[number];
  RecordSide& side = sides[number];
  PC_ASSERT(status != OpStatus::kPending, number);
  const bool cancelled = tickets.at(record.ticket_index, record.ticket_generation_id).cancelled;
  switch (status) {
    case OpStatus::kFlushed:
      // Not its own fault: posted again, on any rail, without counting (C3).
      if (cancelled) {
        finish(number, OpStatus::kCancelled);
      } else {
        add_to_backlog(number);
      }
      return;
    case OpStatus::kTransportError:
    case OpStatus::kNoRail:
      if (cancelled || record.attempt_count != 0) {
        finish(number, status);
        return;
      }
      record.attempt_count = 1;  // (C3): the only retry
      side.avoid_position = side.rail_position;
      side.failure = status;
      ++tally.retried;
      add_to_backlog(number);  // ends with `status` if no other rail reaches the peer
      return;
    default:
      finish(number, status);
      return;
  }
}

void Client::State::finish(uint16_t number, OpStatus status) noexcept {
  const OpRecord& record = records[number];
  RecordSide& side = sides[number];
  PC_ASSERT(side.place != RecordPlace::kFinal, number);  // (C1)
  PC_ASSERT(status != OpStatus::kPending && status != OpStatus::kFlushed, number, status);
  side.place = RecordPlace::kFinal;
  side.final_status = status;
  const bool ok = status == OpStatus::kOk;
  ++tally.by_status[static_cast<size_t>(status)];
  tally.ok_bytes += ok ? record.length_bytes : 0;
  ++unreported;
  if (tickets.finish(record.ticket_index, record.ticket_generation_id, ok)) {
    TicketTable::Entry& entry = tickets.at(record.ticket_index, record.ticket_generation_id);
    if (entry.cancels_owed != 0) {
      entry.cancels_owed = 0;
      --owed_cancels;
    }
  }
}

void Client::State::add_to_backlog(uint16_t number) noexcept {
  RecordSide& side = sides[number];
  side.place = RecordPlace::kBacklog;
  side.next = kNoRecord;
  if (backlog_tail == kNoRecord) {
    backlog_head = number;
  } else {
    sides[backlog_tail].next = number;
  }
  backlog_tail = number;
  ++backlog_count;
}

// Places what can be placed, in order. An operation whose rails are full does not hold up one that has another rail,
// but the walk ends when no rail takes anything and nothing is overdue.
void Client::State::pump_backlog() noexcept {
  refresh_loads();
  uint16_t before = kNoRecord;
  uint16_t number = backlog_head;
  uint32_t blocked_in_a_row = 0;
  while (number != kNoRecord) {
    RecordSide& side = sides[number];
    const uint16_t next = side.next;
    if (place(number)) {
      (before == kNoRecord ? backlog_head : sides[before].next) = next;
      if (next == kNoRecord) {
        backlog_tail = before;
      }
      --backlog_count;
      blocked_in_a_row = 0;
    } else {
      before = number;
      if (++blocked_in_a_row == kBlockedMax && now < backlog_scan_at) {
        return;
      }
    }
    number = next;
  }
  // Every operation was looked at, its deadline too; the next full walk is due soon.
  backlog_scan_at = now + kBacklogScanInterval;
}

void Client::State::cancel_backlog(Ticket ticket) noexcept {
  uint16_t before = kNoRecord;
  for (uint16_t number = backlog_head; number != kNoRecord;) {
    const uint16_t next = sides[number].next;
    const OpRecord& record = records[number];
    if (record.ticket_index == ticket.index) {
      (before == kNoRecord ? backlog_head : sides[before].next) = next;
      if (next == kNoRecord) {
        backlog_tail = before;
      }
      --backlog_count;
      finish(number, OpStatus::kCancelled);
    } else {
      before = number;
    }
    number = next;
  }
}

// Tells every rail that got operations of the batch and still has some; those whose lane is full are told later.
void Client::State::cancel_in_rails(Ticket ticket) noexcept {
  TicketTable::Entry& entry = tickets.at(ticket);
  RailMask owed = entry.cancels_owed != 0 ? entry.cancels_owed : entry.rails_used;
  const bool was_owed = entry.cancels_owed != 0;
  entry.cancels_owed = 0;
  for (; entry.remaining != 0 && owed != 0; owed &= owed - 1) {
    const auto position = static_cast<uint32_t>(std::countr_zero(owed));
    RailSlot& rail = rails[position];
    if (rail.ops_in_flight == 0) {
      continue;
    }
    if (rail.staged_count != 0) {
      push_staged(rail);  // a cancel must not overtake the operations it cancels
    }
    const LaneRequest request{.op = nullptr,
                              .cancel_ticket_index = ticket.index,
                              .cancel_ticket_generation_id = ticket.generation_id};
    if (rail.lane->requests.push(request)) {
      rail.room = static_cast<uint32_t>(rail.lane->requests.room());
      loads[position].has_room = rail.room != 0;
      rail.pushed = true;
    } else {
      entry.cancels_owed |= RailMask{1} << position;
    }
  }
  if (was_owed != (entry.cancels_owed != 0)) {
    owed_cancels += was_owed ? UINT32_MAX : 1;
  }
}

void Client::State::push_owed_cancels() noexcept {
  for (uint32_t i = 0; i < limits::kTicketsPerClient && owed_cancels != 0; ++i) {
    const TicketTable::Entry& entry = tickets.slot(i);
    if (entry.cancels_owed != 0) {
      cancel_in_rails(Ticket{.index = i, .generation_id = entry.generation_id});
    }
  }
}

void Client::State::publish_tally() noexcept {
  const auto take = [this](OpStatus status) -> uint64_t {
    return tally.by_status[static_cast<size_t>(status)];
  };
  if (tally.by_status == decltype(tally.by_status){} && tally.retried == 0) {
    return;
  }
  counters->ok.add(take(OpStatus::kOk));
  counters->bytes.add(tally.ok_bytes);
  counters->stale.add(take(OpStatus::kStale));
  counters->bad_payload.add(take(OpStatus::kBadPayload));
  counters->deadline.add(take(OpStatus::kDeadline));
  counters->cancelled.add(take(OpStatus::kCancelled));
  counters->peer_lost.add(take(OpStatus::kPeerLost) + take(OpStatus::kPeerSuspect));
  counters->failed.add(take(OpStatus::kTransportError) + take(OpStatus::kOutOfBounds) +
                       take(OpStatus::kNoRail));
  counters->retried.add(tally.retried);
  tally = Tally{};
}

}  // namespace peercache
