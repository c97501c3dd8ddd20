#pragma once

// Part of rail/rail.h: opening, the conductor's commands, the thread, and the loop itself.

#include <chrono>
#include <span>

#include "dataplane/rail/rail.h"

namespace peercache {

template <Transport T>
Result<std::unique_ptr<Rail<T>>> Rail<T>::open(const RailOptions& options,
                                               std::unique_ptr<T> transport) {
  PC_ASSERT(transport != nullptr);
  if (options.rail.value() >= limits::kRailsMax) {
    return make_error(Errc::kOutOfRange, "rail {} of at most {}", options.rail, limits::kRailsMax);
  }
  if (options.operation_timeout_ms == 0 || options.operation_timeout_ms > 60'000) {
    return make_error(Errc::kOutOfRange, "operation time-out of {} ms is not in 1 to 60000",
                      options.operation_timeout_ms);
  }
  if (options.inflight_max_count == 0 || options.inflight_max_count > limits::kInflightPerRail) {
    return make_error(Errc::kOutOfRange, "{} operations in flight are not in 1 to {}",
                      options.inflight_max_count, limits::kInflightPerRail);
  }
  if (options.pull_max_count == 0 || options.pull_max_count > kPullMax) {
    return make_error(Errc::kOutOfRange, "{} requests per pull are not in 1 to {}",
                      options.pull_max_count, kPullMax);
  }
  if (options.probe_backoff_ms_min == 0 ||
      options.probe_backoff_ms_min > options.probe_backoff_ms_max) {
    return make_error(Errc::kOutOfRange, "probe pauses from {} to {} ms are no range",
                      options.probe_backoff_ms_min, options.probe_backoff_ms_max);
  }
  auto rail = std::make_unique<Rail>(OpenKey{}, options, std::move(transport));
  rail->role_.assert_held();  // nobody drives it yet
  auto& landings = rail->rail_.probe_landings;
  PC_TRY_ASSIGN(rail->rail_.probe_key, rail->transport_->register_memory(MemorySpec{
                                           .base = reinterpret_cast<std::byte*>(landings.data()),
                                           .length = Bytes(sizeof(landings)),
                                           .kind = RegionKind::kDestination}));
  return rail;
}

template <Transport T>
Rail<T>::Rail(OpenKey /*key*/, const RailOptions& options, std::unique_ptr<T> transport)
    : options_(options),
      client_driven_(options.client_driven || detail::client_driven_transport<T>()),
      operation_timeout_(std::chrono::milliseconds(options.operation_timeout_ms)),
      transport_(std::move(transport)),
      rail_(options),
      conductor_(mailbox_) {}

template <Transport T>
Rail<T>::~Rail() {
  if (thread_ != nullptr) {
    thread_->stop();
  }
}

template <Transport T>
int Rail<T>::poll_once(Nanos now) noexcept {
  const RoleScope scope(role_);
  rail_.turn = Turn{.now = now};
  int work = take_commands();
  work += reap();
  work += pull();
  work += post_ready();
  if (now >= rail_.timers_due_at) {
    work += run_timers();
  }
  end_turn(work);
  if constexpr (detail::HasWork<T>) {
    work += transport_->has_work() ? 1 : 0;
  }
  if (rail_.stopping) {
    look_for_stopped();
  }
  return work;
}

template <Transport T>
Result<Lane*> Rail<T>::attach_lane(ClientIndex client, WakeEvent* client_event) {
  for (const auto& lane : conductor_.lanes) {
    if (lane->client == client && lane->lane.client_event == client_event) {
      return &lane->lane;
    }
    if (lane->client == client) {
      return make_error(Errc::kAlreadyExists, "rail {}: client {} has a lane with another event",
                        options_.rail, client);
    }
  }
  if (conductor_.lanes.size() == kLanesMax) {
    return make_error(Errc::kNoClient, "rail {}: more than {} lanes", options_.rail, kLanesMax);
  }
  auto lane = std::make_unique<RailLane>(client, static_cast<uint8_t>(conductor_.lanes.size()));
  lane->lane.client_event = client_event;
  PC_TRY(
      conductor_.proxy.send(RailCommand{.kind = RailCommandKind::kAttachLane, .lane = lane.get()}));
  conductor_.lanes.push_back(std::move(lane));
  return &conductor_.lanes.back()->lane;
}

template <Transport T>
bool Rail<T>::reaches(PeerIndex peer) const noexcept {
  if constexpr (detail::KnowsPeers<T>) {
    return peer.value() < limits::kPeersMax && transport_->reaches(peer);
  }
  // A client polls the rails that it drives only while they have operations: they keep getting some
  // (and refuse them), or their recovery would never be seen.
  // M2 acquire: meets M1 in RailProxy::connect_peer; the rail finds the command before the
  // operation.
  return peer.value() < limits::kPeersMax &&
         mailbox_.wanted[peer.value()].load(std::memory_order_acquire) &&
         // Relaxed is enough: a hint; an operation that comes all the same is refused.
         (client_driven_ ||
          mailbox_.views[peer.value()].load(std::memory_order_relaxed) != LinkView::kRefusing);
}

template <Transport T>
RailState Rail<T>::state() const noexcept {
  const RailState state = mailbox_.state.load(std::memory_order_relaxed);  // a hint, see note_state
  // As in reaches: who drives the rail must go on doing so.
  return client_driven_ && state == RailState::kDown ? RailState::kDegraded : state;
}

template <Transport T>
RailStats Rail<T>::stats() const noexcept {
  return RailStats{
      .operations_count = stats_.operations.value(),
      .bytes_count = stats_.bytes.value(),
      .completions_count = stats_.completions.value(),
      .stale_count = stats_.stale.value(),
      .timeouts_count = stats_.timeouts.value(),
      .errors_count = stats_.errors.value(),
      .fences_count = stats_.fences.value(),
      .doorbells_count = stats_.doorbells.value(),
      .polls_empty_count = stats_.polls_empty.value(),
      .bytes_in_flight = stats_.bytes_in_flight.value(),
      .state = state(),
  };
}

template <Transport T>
WakeEvent* Rail<T>::wake_event() noexcept {
  return thread_ == nullptr ? nullptr : &thread_->event();
}

template <Transport T>
Result<void> Rail<T>::start(AgentOptions options) {
  if (client_driven_) {
    return make_error(Errc::kUnsupported, "rail {} is driven by its client", options_.rail);
  }
  if (thread_ != nullptr) {
    return make_error(Errc::kAlreadyExists, "rail {} has its thread", options_.rail);
  }
  PC_TRY_ASSIGN(thread_, AgentThread::start(loop_, std::move(options)));
  // M4 release: meets M3 in RailProxy::send; the event is open.
  mailbox_.wake_event.store(&thread_->event(), std::memory_order_release);
  return {};
}

template <Transport T>
Result<void> Rail<T>::stop(Nanos patience) {
  if (thread_ != nullptr) {
    thread_->stop();  // joined: from here on this thread drives the rail
  }
  PC_TRY(conductor_.proxy.request_stop());
  const Nanos until = options_.clock.now() + patience;
  while (!conductor_.proxy.stopped()) {
    const Nanos now = options_.clock.now();
    if (now > until) {
      return make_error(Errc::kTimeout, "rail {} is not quiet {} ns after the stop", options_.rail,
                        patience);
    }
    if (poll_once(now) == 0) {
      cpu_pause();
    }
  }
  return {};
}

template <Transport T>
int Rail<T>::take_commands() noexcept {
  int work = 0;
  RailCommand command;
  while (mailbox_.commands.pop(command)) {
    take(command);
    ++work;
  }
  return work;
}

template <Transport T>
void Rail<T>::take(const RailCommand& command) noexcept {
  switch (command.kind) {
    case RailCommandKind::kAttachLane:
      rail_.lanes[rail_.lanes_count++] = command.lane;
      break;
    case RailCommandKind::kConnectPeer:
      connect(command);
      break;
    case RailCommandKind::kDisconnectPeer:
      leave(command.peer);
      break;
    case RailCommandKind::kLinkUp:
    case RailCommandKind::kLinkDown:
      rail_.health.on_link(command.kind == RailCommandKind::kLinkUp, rail_.turn.now);
      note_state();
      arm_timer(rail_.health.probe_due_at());
      break;
    case RailCommandKind::kStop:
      stop_all();
      break;
  }
}

template <Transport T>
void Rail<T>::connect(const RailCommand& command) noexcept {
  PeerLink& link = rail_.links[command.peer.value()];
  PC_ASSERT(link.state == LinkState::kAbsent, command.peer, link.state);
  const bool troubled = link.troubled;  // still listed: the timers will find it well
  link = PeerLink{};
  link.troubled = troubled;
  link.state = LinkState::kUp;
  link.probe = command.probe;
  link.recovered_at = rail_.turn.now;
  ++rail_.connected_count;
}

template <Transport T>
void Rail<T>::leave(PeerIndex peer) noexcept {
  PeerLink& link = rail_.links[peer.value()];
  PC_ASSERT(link.state != LinkState::kAbsent && link.state != LinkState::kLeaving, peer);
  link.state = LinkState::kLeaving;
  --rail_.connected_count;
  release_held(peer);  // to be refused
  if (link.posted_count == 0) {
    note_quiet(peer);
    return;
  }
  rail_.table.for_each_used([&](uint16_t /*index*/, InflightSlot& slot) {
    if (slot.peer == peer && slot.phase >= InflightPhase::kData &&
        slot.doom == OpStatus::kPending) {
      slot.doom = OpStatus::kPeerLost;
    }
  });
  fence(peer);
}

template <Transport T>
void Rail<T>::note_quiet(PeerIndex peer) noexcept {
  rail_.links[peer.value()].state = LinkState::kAbsent;
  push_all_done();  // before the flag says so
  show(peer, LinkView::kQuiet);
  tell(RailEventKind::kPeerQuiet, peer);
}

template <Transport T>
void Rail<T>::stop_all() noexcept {
  rail_.stopping = true;
  rail_.refuses_all = true;
  rail_.table.for_each_used([&](uint16_t index, InflightSlot& slot) {
    role_.assert_held();
    if (slot.phase >= InflightPhase::kData) {
      slot.doom = slot.doom == OpStatus::kPending ? OpStatus::kCancelled : slot.doom;
      fence(slot.peer);
    } else if (slot.phase != InflightPhase::kDropped) {
      end_early(index, OpStatus::kCancelled);
    }
  });
}

template <Transport T>
void Rail<T>::look_for_stopped() noexcept {
  if (rail_.posted_count != 0 || rail_.table.free_count() != rail_.table.capacity()) {
    return;
  }
  for (uint32_t i = 0; i < rail_.lanes_count; ++i) {
    if (!rail_.lanes[i]->backlog.empty() || rail_.lanes[i]->lane.requests.size_approx() != 0) {
      return;
    }
  }
  if (!mailbox_.stopped.load(std::memory_order_relaxed)) {  // its own store
    tell(RailEventKind::kStopped, PeerIndex{0});
  }
  // M8 release: meets M7 in RailProxy::stopped; all completions have been handed back.
  mailbox_.stopped.store(true, std::memory_order_release);
}

template <Transport T>
void Rail<T>::show(PeerIndex peer, LinkView view) noexcept {
  // M6 release: meets M5 in RailProxy::peer_quiet; what was pushed before is visible.
  mailbox_.views[peer.value()].store(view, std::memory_order_release);
}

template <Transport T>
void Rail<T>::tell(RailEventKind kind, PeerIndex peer) noexcept {
  if (!mailbox_.events.push(RailEvent{kind, rail_.health.state(), peer})) {
    mailbox_.events_dropped.add();
  }
}

template <Transport T>
bool Rail<T>::prepare_sleep() noexcept {
  const RoleScope scope(role_);
  if (!rail_.headers_ready.empty() || !rail_.data_ready.empty()) {
    return false;  // the transport did not take them; it has to be asked again
  }
  if constexpr (detail::CanSleep<T>) {
    return transport_->prepare_sleep();
  } else {
    return rail_.posted_count == 0;  // its completions wake nobody
  }
}

template <Transport T>
int Rail<T>::wait_fd() const noexcept {
  if constexpr (detail::CanSleep<T>) {
    return transport_->wait_fd();
  } else {
    return -1;
  }
}

template <Transport T>
Nanos Rail<T>::next_due(Nanos /*now*/) const noexcept {
  role_.assert_held();  // on the rail's thread, between turns
  return rail_.timers_due_at;
}

template <Transport T>
void Rail<T>::check_invariants() const {
  role_.assert_held();  // a test, between turns
  rail_.table.check_invariants();
  uint64_t bytes_in_flight = 0;
  uint32_t posted_count = 0;
  for (uint32_t i = 0; i < rail_.table.capacity(); ++i) {
    const InflightSlot& slot = rail_.table[static_cast<uint16_t>(i)];
    bytes_in_flight += slot.phase == InflightPhase::kData ? slot.length_bytes : 0;
    posted_count += slot.phase >= InflightPhase::kData ? 1 : 0;
    PC_ASSERT(slot.phase < InflightPhase::kData || rail_.links[slot.peer.value()].posted_count != 0,
              i);
  }
  PC_ASSERT(bytes_in_flight == rail_.bytes_in_flight, bytes_in_flight, rail_.bytes_in_flight);
  PC_ASSERT(posted_count == rail_.posted_count, posted_count, rail_.posted_count);
  uint32_t link_posted_count = 0;
  for (const PeerLink& link : rail_.links) {
    link_posted_count += link.posted_count;
    PC_ASSERT(!link.fencing || link.posted_count != 0);
  }
  PC_ASSERT(link_posted_count == posted_count, link_posted_count, posted_count);
  PC_ASSERT(static_cast<uint32_t>(std::popcount(rail_.landings_used_mask)) == rail_.probes_count);
}

}  // namespace peercache
