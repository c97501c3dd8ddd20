// The blocking side of a client: wait, and sleeping on its event without losing a wake-up.
#include <algorithm>

#include "dataplane/engine/client_state.h"

namespace peercache {

Result<BatchResult> Client::wait(Ticket ticket, Nanos until) {
  State& state = *state_;
  if (state.tickets.is_stale(ticket)) {
    return make_error(Errc::kStaleTicket, "ticket {} of generation {} has been released",
                      ticket.index, ticket.generation_id);
  }
  const TicketTable::Entry& entry = state.tickets.at(ticket);
  const Nanos grace(int64_t{state.options.fence_grace_ms} * 1'000'000);
  IdleBackoff backoff(state.options.wait_idle);
  bool overran = false;
  while (true) {
    const uint32_t work = state.progress();
    if (entry.remaining == 0) {
      return result(ticket);
    }
    if (state.now >= until) {
      if (!entry.cancelled) {
        cancel(ticket);
        continue;
      }
      // Only quiet memory ends the wait: a late return is counted, a wild write is for ever.
      if (!overran && state.now - until > grace) {
        overran = true;
        counters_.fence_overruns.add();
      }
    }
    if (backoff.after_turn(work != 0 ? 1 : 0, state.now) == IdleBackoff::Step::kSleep) {
      state.sleep(until);
      backoff.after_sleep(state.completions_waiting());
    }
  }
}

// Sleeps until a rail completes something, at most as long as the options say.
void Client::State::sleep(Nanos until) noexcept {
  Nanos timeout = only_client_driven_work() ? Nanos(int64_t{options.wait_doze_us} * 1000)
                                            : Nanos(int64_t{options.wait_sleep_ms_max} * 1'000'000);
  if (until > now) {
    timeout = std::min(timeout, until - now);
  }
  event->announce_sleep();
  if (!completions_waiting()) {
    event->sleep(timeout);
  }
  event->cancel_sleep();
}

bool Client::State::completions_waiting() const noexcept {
  for (uint32_t i = 0; i < rail_count; ++i) {
    if (rails[i].ops_in_flight != 0 && rails[i].lane->completions.size_approx() != 0) {
      return true;
    }
  }
  return false;
}

bool Client::State::only_client_driven_work() const noexcept {
  for (uint32_t i = 0; i < rail_count; ++i) {
    if (rails[i].ops_in_flight != 0 && !rails[i].driven) {
      return false;
    }
  }
  return true;
}

int Client::event_fd() const { return state_->event->fd(); }

bool Client::arm_event() {
  State& state = *state_;
  if (state.unreported != 0) {
    return false;
  }
  for (uint32_t i = 0; i < state.rail_count; ++i) {
    if (state.rails[i].ops_in_flight != 0 && state.rails[i].driven) {
      return false;  // nobody but the caller drives that rail
    }
  }
  state.event->announce_sleep();
  if (state.completions_waiting()) {
    state.event->cancel_sleep();
    return false;
  }
  state.armed = true;
  return true;
}

}  // namespace peercache
