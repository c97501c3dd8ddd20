// From operations to lanes: check all, fill records, pick rails, push.
#include "dataplane/engine/client_state.h"

namespace peercache {

Result<Ticket> Client::submit(std::span<const Op> ops, Nanos deadline_at) {
  State& state = *state_;
  const auto refuse = [this](Error error) {
    counters_.refused.add();
    return error;
  };
  if (ops.empty()) {
    return refuse(make_error(Errc::kEmptyOperation, "a batch of {} operations", ops.size()));
  }
  if (ops.size() > limits::kBatchOpsMax) {
    return refuse(make_error(Errc::kBatchTooLarge, "a batch of {} operations; the limit is {}",
                             ops.size(), limits::kBatchOpsMax));
  }
  state.begin_call();
  uint32_t bad_index = 0;
  const OpFault fault = state.check_batch(ops, bad_index);
  if (fault != OpFault::kNone) [[unlikely]] {
    const Op& bad = ops[bad_index];
    return refuse(make_op_error(fault, bad, bad_index, state.peers.info(bad.peer)));
  }
  if (state.free_count < ops.size()) {
    return refuse(make_error(Errc::kRingFull,
                             "a batch of {} operations while {} of {} records are free", ops.size(),
                             state.free_count, limits::kOpsPerClient));
  }
  if (state.tickets.full()) {
    return refuse(make_error(Errc::kNoTicket, "all {} tickets are in use", limits::kTicketsPerClient));
  }
  const auto count = static_cast<uint32_t>(ops.size());
  const Ticket ticket = state.tickets.open(count, deadline_at);
  uint16_t* numbers = state.tickets.records(ticket.index);
  for (uint32_t i = 0; i < count; ++i) {
    const uint16_t number = state.free_records[--state.free_count];
    // The record after the next: its lines may have been written by a rail on another core.
    if (state.free_count > 1) {
      const auto* ahead =
          reinterpret_cast<const char*>(&state.records[state.free_records[state.free_count - 2]]);
      __builtin_prefetch(ahead, 1);
      __builtin_prefetch(ahead + kCacheLineBytes, 1);
    }
    numbers[i] = number;
    state.fill(ops[i], number, ticket, i, deadline_at);
  }
  state.place_batch(ticket, count);
  state.end_call();
  counters_.operations.add(count);
  return ticket;
}

void Client::State::begin_call() noexcept {
  ++turn;
  now = clock.now();
}

OpFault Client::State::check_batch(std::span<const Op> ops, uint32_t& bad_index) noexcept {
  for (size_t i = 0; i < ops.size(); ++i) {
    const PeerInfo* info =
        ops[i].peer.value() < limits::kPeersMax ? route_of(ops[i].peer).info : nullptr;
    const OpFault fault = check_op(ops[i], info);
    if (fault != OpFault::kNone) [[unlikely]] {
      bad_index = static_cast<uint32_t>(i);
      return fault;
    }
  }
  return OpFault::kNone;
}

void Client::State::fill(const Op& op,
                         uint16_t number,
                         Ticket ticket,
                         uint32_t op_index,
                         Nanos deadline_at) noexcept {
  OpRecord& record = records[number];
  RecordSide& side = sides[number];
  PC_ASSERT(side.place == RecordPlace::kFree, number, side.place);  // (S1)
  record.target = op.target;
  record.deadline_at = deadline_at;
  record.ticket_index = ticket.index;
  record.ticket_generation_id = ticket.generation_id;
  record.op_index = op_index;
  record.peer = op.peer;
  record.region = op.target.region;
  record.kind = op.kind;
  record.validation = op.kind == OpKind::kRead ? op.validation : Validation::kNone;
  record.status = OpStatus::kPending;
  record.attempt_count = 0;
  record.cancelled = 0;
  if (op.kind == OpKind::kLookup) {
    record.lookup = op.lookup;
    record.length_bytes = 0;
    record.piece_count = 0;
  } else {
    record.pieces = op.pieces.data();
    record.length_bytes = op.target.length_bytes;
    record.piece_count = static_cast<uint16_t>(op.pieces.size());
  }
  const PeerInfo* info = routes[op.peer.value()].info;
  record.headers_region = record.validation == Validation::kHeader && info != nullptr
                              ? headers_region_of(record.region, *info)
                              : RegionIndex(0);
  side.final_status = OpStatus::kPending;
  side.avoid_position = RecordSide::kNoRail;
}

void Client::State::place_batch(Ticket ticket, uint32_t count) noexcept {
  const uint16_t* numbers = tickets.records(ticket.index);
  for (uint32_t i = 0; i < count; ++i) {
    // Once one has to wait all that follow do: lanes are served in the order of submission.
    if (backlog_count != 0 || !place(numbers[i])) {
      add_to_backlog(numbers[i]);
    }
  }
  if (backlog_count != 0) {
    pump_backlog();
  }
}

// Gives the record to a rail, or finishes it; false if all its rails are full.
bool Client::State::place(uint16_t number) noexcept {
  OpRecord& record = records[number];
  RecordSide& side = sides[number];
  const Route& route = route_of(record.peer);
  if (route.state != PeerState::kUp) [[unlikely]] {
    if (route.state != PeerState::kSuspect || !side.is_retry()) {
      // Nothing is posted towards a peer that is not there. A retry may still go to a suspect: what made it one was
      // the path that failed, and the retry takes another.
      finish(number, route.state == PeerState::kSuspect ? OpStatus::kPeerSuspect : OpStatus::kPeerLost);
      return true;
    }
  }
  if (now >= record.deadline_at) [[unlikely]] {
    finish(number, OpStatus::kDeadline);
    return true;
  }
  refresh_loads();
  const uint64_t bytes = bytes_of(record);
  const RailMask avoid = side.is_retry() ? RailMask{1} << side.avoid_position : 0;
  const RailChoice choice =
      pick_rail(std::span(loads.data(), rail_count), route.reachable, avoid, bytes, striping);
  switch (choice.kind) {
    case RailChoice::Kind::kRail:
      stage(choice.position, number, bytes);
      return true;
    case RailChoice::Kind::kWait:
      return false;
    case RailChoice::Kind::kNone:
      // A failed operation without a second rail ends with its failure.
      finish(number, side.is_retry() ? side.failure : OpStatus::kNoRail);
      return true;
  }
  PC_UNREACHABLE();
}

void Client::State::stage(uint32_t position, uint16_t number, uint64_t bytes) noexcept {
  RailSlot& rail = rails[position];
  RailLoad& load = loads[position];
  OpRecord& record = records[number];
  RecordSide& side = sides[number];
  record.rail = rail.index;
  record.status = OpStatus::kPending;
  side.rail_position = static_cast<uint8_t>(position);
  side.place = RecordPlace::kRail;
  tickets.at(record.ticket_index, record.ticket_generation_id).rails_used |= RailMask{1} << position;
  load.bytes_mine += bytes;
  load.bytes_in_flight += bytes;
  ++rail.ops_in_flight;
  rail.staged[rail.staged_count++] = LaneRequest{.op = &record};
  if (--rail.room == 0) {
    push_staged(rail);
    rail.room = static_cast<uint32_t>(rail.lane->requests.room());
    load.has_room = rail.room != 0;
  } else if (rail.staged_count == kStagedMax) {
    push_staged(rail);
  }
}

void Client::State::push_staged(RailSlot& rail) noexcept {
  const size_t pushed =
      rail.lane->requests.push_many(std::span(rail.staged.data(), rail.staged_count));
  PC_ASSERT(pushed == rail.staged_count, pushed, rail.staged_count);  // room was reserved
  rail.staged_count = 0;
}

// Pushes what is staged, wakes each rail that got something and sleeps, and publishes the counts.
void Client::State::end_call() noexcept {
  for (uint32_t i = 0; i < rail_count; ++i) {
    RailSlot& rail = rails[i];
    if (rail.staged_count != 0) {
      push_staged(rail);
      rail.pushed = true;
    }
    if (rail.pushed) {
      rail.pushed = false;
      if (rail.driven) {
        rail.handle->poll_once(now);  // the first bytes move at once
      } else if (WakeEvent* wake = rail.handle->wake_event(); wake != nullptr) {
        wake->wake_if_sleeping();
      }
    }
  }
  publish_tally();
}

void Client::State::refresh_loads() noexcept {
  if (loads_turn == turn) [[likely]] {
    return;
  }
  loads_turn = turn;
  const bool ask_others = rail_count > 1 && now - others_at >= kOthersInterval;
  if (ask_others) {
    others_at = now;
  }
  for (uint32_t i = 0; i < rail_count; ++i) {
    RailLoad& load = loads[i];
    RailSlot& rail = rails[i];
    load.state = rail.handle->state();
    if (rail.room == 0) {
      rail.room = static_cast<uint32_t>(rail.lane->requests.room());
    }
    load.has_room = rail.room != 0;
    if (ask_others && !rail.driven) {
      const uint64_t all = rail.handle->stats().bytes_in_flight;
      rail.bytes_others = all > load.bytes_mine ? all - load.bytes_mine : 0;
    }
    load.bytes_in_flight = load.bytes_mine + rail.bytes_others;
  }
}

const Client::State::Route& Client::State::route_of(PeerIndex peer) noexcept {
  Route& route = routes[peer.value()];
  if (route.turn == turn) [[likely]] {
    return route;
  }
  route.turn = turn;
  route.state = peers.state(peer);
  route.info = peers.info(peer);
  route.reachable = 0;
  for (uint32_t i = 0; i < rail_count; ++i) {
    route.reachable |= rails[i].handle->reaches(peer) ? RailMask{1} << i : 0;
  }
  return route;
}

}  // namespace peercache
