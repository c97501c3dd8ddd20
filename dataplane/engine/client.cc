// The cold side of a client: opening, reading results, checking itself.
#include "dataplane/engine/client.h"

#include "dataplane/engine/client_state.h"

namespace peercache {

Client::State::State(const EngineOptions& options_in,
                     const PeerDirectory& peers_in,
                     const Clock& clock_in,
                     std::unique_ptr<WakeEvent> event_in)
    : options(options_in),
      peers(peers_in),
      clock(clock_in),
      event(std::move(event_in)),
      records(std::make_unique<OpRecord[]>(limits::kOpsPerClient)) {
  for (size_t i = 0; i < limits::kOpsPerClient; ++i) {
    // A stack whose first record is on top.
    free_records[i] = static_cast<uint16_t>(limits::kOpsPerClient - 1 - i);
  }
  free_count = limits::kOpsPerClient;
}

Client::Client(ClientIndex index, std::unique_ptr<State> state)
    : index_(index), state_(std::move(state)) {
  state_->counters = &counters_;
}

Result<std::unique_ptr<Client>> Client::open(ClientIndex index,
                                             const EngineOptions& options,
                                             std::span<RailHandle* const> rails,
                                             const PeerDirectory& peers,
                                             const Clock& clock) {
  if (index.value() >= limits::kClientsMax) {
    return make_error(Errc::kOutOfRange, "client index {}; there are at most {}", index,
                      limits::kClientsMax);
  }
  if (rails.size() > limits::kRailsMax) {
    return make_error(Errc::kOutOfRange, "{} rails for client {}; the limit is {}", rails.size(),
                      index, limits::kRailsMax);
  }
  if (options.verify == VerifyReads::kSampled && options.verify_sample_reads_count == 0) {
    return make_error(Errc::kBadValue, "verify samples one read in {}",
                      options.verify_sample_reads_count);
  }
  PC_TRY_ASSIGN(std::unique_ptr<WakeEvent> event, WakeEvent::open());
  auto state = std::make_unique<State>(options, peers, clock, std::move(event));
  for (RailHandle* handle : rails) {
    PC_ASSERT(handle != nullptr);
    PC_TRY_ASSIGN(Lane * lane, handle->attach_lane(index, state->event.get()));
    PC_ASSERT(lane->completions.capacity() >= limits::kOpsPerClient, lane->completions.capacity());
    PC_ASSERT(lane->requests.capacity() <= UINT32_MAX, lane->requests.capacity());
    State::RailSlot& slot = state->rails[state->rail_count];
    slot.handle = handle;
    slot.lane = lane;
    slot.index = handle->index();
    slot.driven = handle->client_driven();
    slot.room = static_cast<uint32_t>(lane->requests.room());
    state->loads[state->rail_count].client_driven = slot.driven;
    ++state->rail_count;
  }
  state->striping.lane_window_bytes = options.lane_window_bytes;
  // Clients start at different rails, so that single operations of several clients do not meet on the first.
  state->striping.first_position =
      state->rail_count == 0 ? 0 : index.value() % state->rail_count;
  state->verify_countdown = options.verify_sample_reads_count == 0 ? 1 : options.verify_sample_reads_count;
  return std::unique_ptr<Client>(new Client(index, std::move(state)));
}

Client::~Client() {
  // Rails may hold pointers to records and destinations of a batch that is not done.
  PC_ASSERT(!busy(), index_);
}

Result<BatchResult> Client::result(Ticket ticket) const {
  if (state_->tickets.is_stale(ticket)) {
    return make_error(Errc::kStaleTicket, "ticket {} of generation {} has been released",
                      ticket.index, ticket.generation_id);
  }
  const TicketTable::Entry& entry = state_->tickets.at(ticket);
  return BatchResult{.total_count = entry.total,
                     .ok_count = entry.ok,
                     .failed_count = entry.failed,
                     .done = entry.remaining == 0};
}

OpStatus Client::status(Ticket ticket, uint32_t op_index) const {
  const TicketTable::Entry& entry = state_->tickets.at(ticket);
  PC_ASSERT(op_index < entry.total, op_index, entry.total);
  return state_->sides[state_->tickets.records(ticket.index)[op_index]].final_status;
}

const SlotHeader& Client::header(Ticket ticket, uint32_t op_index) const {
  const OpStatus ended = status(ticket, op_index);
  PC_ASSERT(ended == OpStatus::kOk || ended == OpStatus::kStale, op_index, ended);
  return state_->records[state_->tickets.records(ticket.index)[op_index]].landing;
}

void Client::release(Ticket ticket) {
  State& state = *state_;
  const TicketTable::Entry& entry = state.tickets.at(ticket);
  const uint16_t* numbers = state.tickets.records(ticket.index);
  PC_ASSERT(entry.remaining == 0, ticket.index, entry.remaining);
  // Last first: the next batch takes them in the same order again.
  for (uint32_t i = entry.total; i-- > 0;) {
    const uint16_t number = numbers[i];
    RecordSide& side = state.sides[number];
    PC_ASSERT(side.place == RecordPlace::kFinal, number, side.place);
    side.place = RecordPlace::kFree;
    state.free_records[state.free_count++] = number;
  }
  state.tickets.close(ticket);
}

bool Client::busy() const {
  for (uint32_t i = 0; i < limits::kTicketsPerClient; ++i) {
    const TicketTable::Entry& entry = state_->tickets.slot(i);
    if (entry.open && entry.remaining != 0) {
      return true;
    }
  }
  return false;
}

void Client::check_invariants() const {
  const State& state = *state_;
  state.tickets.check_invariants();
  std::array<uint64_t, limits::kRailsMax> bytes{};
  std::array<uint32_t, limits::kRailsMax> ops{};
  uint32_t backlog = 0;
  uint32_t not_free = 0;
  for (size_t i = 0; i < limits::kOpsPerClient; ++i) {
    const RecordSide& side = state.sides[i];
    not_free += side.place != RecordPlace::kFree ? 1 : 0;
    backlog += side.place == RecordPlace::kBacklog ? 1 : 0;
    if (side.place == RecordPlace::kRail) {
      bytes[side.rail_position] += State::bytes_of(state.records[i]);
      ops[side.rail_position] += 1;
    }
    PC_ASSERT((side.place == RecordPlace::kFinal) == (side.final_status != OpStatus::kPending) ||
                  side.place == RecordPlace::kFree,
              i, side.place, side.final_status);
  }
  PC_ASSERT(not_free + state.free_count == limits::kOpsPerClient, not_free, state.free_count);  // (S1)
  PC_ASSERT(backlog == state.backlog_count, backlog, state.backlog_count);
  uint32_t linked = 0;
  for (uint16_t at = state.backlog_head; at != State::kNoRecord; at = state.sides[at].next) {
    PC_ASSERT(state.sides[at].place == RecordPlace::kBacklog, at);
    PC_ASSERT(++linked <= backlog, linked, backlog);
  }
  PC_ASSERT(linked == backlog, linked, backlog);
  for (uint32_t i = 0; i < state.rail_count; ++i) {
    PC_ASSERT(bytes[i] == state.loads[i].bytes_mine, i, bytes[i], state.loads[i].bytes_mine);  // (S2)
    PC_ASSERT(ops[i] == state.rails[i].ops_in_flight, i, ops[i], state.rails[i].ops_in_flight);
    PC_ASSERT(state.rails[i].staged_count == 0, i, state.rails[i].staged_count);               // (S3)
  }
}

}  // namespace peercache
