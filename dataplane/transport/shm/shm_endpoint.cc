#include "dataplane/transport/shm/shm_endpoint.h"

#include <algorithm>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "dataplane/transport/shm/shm_socket.h"

namespace peercache {

namespace {

constexpr int kEventsPerTurn = 64;
constexpr int kBacklog = 512;  // half of all peers start at the same moment
// Frames taken from one connection per turn: 1 MiB of WRITEs, some 0.3 ms.
constexpr int kFramesPerTurn = 16;
// How often the memory of a lost peer is looked at while a client still reads it; its turns end
// within milliseconds.
constexpr Nanos kReclaimInterval = std::chrono::milliseconds(2);
// A peer whose queue of connections is full is tried again after this.
constexpr Nanos kRetryInterval = std::chrono::milliseconds(5);

}  // namespace

ShmEndpoint::ShmEndpoint(const ShmOptions& options, ShmListener& listener)
    : options_(options),
      listener_(listener),
      peer_uid_(options.peer_uid_id < 0 ? static_cast<int64_t>(::geteuid()) : options.peer_uid_id) {
  for (ShmPort& port : ports_) {
    table_.add_user(port.word);
  }
  for (ShmEpochWord& word : copier_words_) {
    table_.add_user(word);
  }
}

Result<std::unique_ptr<ShmEndpoint>> ShmEndpoint::open(const ShmOptions& options,
                                                       const Hello& mine,
                                                       std::span<const MemorySpec> regions,
                                                       ShmListener& listener) {
  std::unique_ptr<ShmEndpoint> endpoint(new ShmEndpoint(options, listener));
  endpoint->hello_ = mine;
  PC_TRY(endpoint->add_regions(regions));
  PC_TRY(endpoint->start());
  if (options.copier_threads_count != 0) {
    PC_TRY_ASSIGN(endpoint->copiers_,
                  ShmCopiers::open(options.copier_threads_count, endpoint->table_,
                                   endpoint->copier_words_, endpoint->ports_));
  }
  return endpoint;
}

ShmEndpoint::~ShmEndpoint() {
  for (const ShmPort& port : ports_) {
    // E1 acquire: meets E2 in release_port(); the client has left its epoch.
    PC_ASSERT(!port.leased.load(std::memory_order_acquire));
  }
  if (listening_) {
    ::unlink(socket_path().c_str());
  }
}

Result<void> ShmEndpoint::add_regions(std::span<const MemorySpec> regions) {
  hello_.regions.clear();
  for (const MemorySpec& spec : regions) {
    if (spec.kind == RegionKind::kDestination) {
      continue;
    }
    if (spec.fd < 0 || spec.base == nullptr) {
      return make_error(Errc::kRegistration, "region {} has no memory that peers can map",
                        spec.region);
    }
    if (spec.region.value() >= own_regions_.size()) {
      return make_error(Errc::kTooManyRegions, "region {}, at most {} fit", spec.region,
                        own_regions_.size());
    }
    RegionDescriptor descriptor{};
    descriptor.length_bytes = spec.length.value();
    descriptor.region = spec.region;
    descriptor.kind = spec.kind;
    descriptor.headers_region = spec.headers_region;
    descriptor.granule_bytes = spec.granule_bytes;
    hello_.regions.push_back(descriptor);
    region_fds_.push_back(spec.fd);
    ShmRegionView& view = own_regions_[spec.region.value()];
    view = {spec.base, spec.kind == RegionKind::kWritable ? spec.base : nullptr, descriptor};
  }
  return check_region_table(hello_.regions);
}

Result<void> ShmEndpoint::start() {
  PC_TRY_ASSIGN(directory_, prepare_runtime_dir(options_.runtime_dir));
  PC_TRY_ASSIGN(const uint32_t stale_count, remove_stale_sockets(directory_));
  counters_.stale_sockets.add(stale_count);
  name_ = shm_socket_name(hello_.node, hello_.incarnation);
  PC_TRY_ASSIGN(wake_, WakeEvent::open());
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) {
    return make_system_error(Errc::kSystem, errno, "making an epoll");
  }
  PC_TRY_ASSIGN(listening_, listen_unix(directory_, name_, kBacklog));
  for (const auto& [fd, id] :
       {std::pair(listening_.get(), kListeningId), std::pair(wake_->fd(), kWakeId)}) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return make_system_error(Errc::kSystem, errno, "adding a descriptor to an epoll");
    }
  }
  return {};
}

ShmConnection& ShmEndpoint::add_connection(std::unique_ptr<ShmConnection> connection) {
  connections_.push_back(std::move(connection));
  ShmConnection& added = *connections_.back();
  if (added.side == ShmSide::kInbound) {
    ++inbound_count_;
  }
  return added;
}

void ShmEndpoint::set_deadline(ShmConnection& connection, Nanos deadline) noexcept {
  connection.deadline_at = deadline;
  next_deadline_ = std::min(next_deadline_, deadline);
}

void ShmEndpoint::arm(ShmConnection& connection) {
  const bool wants_out = connection.stream.unsent_bytes() != 0 || connection.has_unsent_writes();
  if (connection.wants_out == wants_out || connection.stream.fd() < 0) {
    return;
  }
  epoll_event event = {};
  event.events = EPOLLIN | (wants_out ? uint32_t{EPOLLOUT} : 0U);
  event.data.ptr = &connection;
  const int result = ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.stream.fd(), &event);
  PC_ASSERT(result == 0, errno);  // an open descriptor of ours, added before
  connection.wants_out = wants_out;
}

int ShmEndpoint::poll_once(Nanos now) {
  wake_->cancel_sleep();
  std::array<epoll_event, kEventsPerTurn> events{};
  const int event_count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, 0);
  int work = 0;
  for (int i = 0; i < event_count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.u64 == kListeningId) {
      work += accept_some(now);
    } else if (event.data.u64 == kWakeId) {
      wake_->consume();
    } else {
      on_event(*static_cast<ShmConnection*>(event.data.ptr), event.events, now);
      ++work;
    }
  }
  work += take_commands(now);
  work += check_deadlines(now);
  work += work_on_mappings();
  drop_closed();
  update_gauges();
  // Whoever sleeps on epoll_fd() now is woken by a command: announce, then look once more.
  wake_->announce_sleep();
  return work + take_commands(now);
}

void ShmEndpoint::on_event(ShmConnection& connection, uint32_t events, Nanos now) {
  if (connection.state == ShmState::kClosed) {
    return;  // by an earlier event of this turn
  }
  if ((events & EPOLLOUT) != 0) {
    send_pending(connection, now);
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && connection.state != ShmState::kClosed) {
    receive(connection, now);
  }
}

void ShmEndpoint::receive(ShmConnection& connection, Nanos now) {
  for (int i = 0; i < kFramesPerTurn && connection.state != ShmState::kClosed; ++i) {
    const IoOutcome outcome = connection.stream.fill();
    // Whole frames that arrived before the end still count: a refusal is followed by it.
    for (;;) {
      auto frame = connection.stream.next_frame();
      if (!frame) {
        counters_.protocol_errors.add();
        return lose(connection, frame.error());
      }
      if (!frame->has_value()) {
        break;
      }
      if (!handle_frame(connection, **frame, now)) {
        return;
      }
      connection.stream.consume(**frame);
    }
    if (outcome == IoOutcome::kEnded) {
      return lose(connection, make_error(Errc::kPeerLost, "the peer closed the connection"));
    }
    if (connection.side == ShmSide::kInbound &&
        connection.stream.unsent_bytes() > ShmStream::kOutBytesWanted) {
      counters_.protocol_errors.add();  // (E3)
      return lose(connection, make_error(Errc::kPeerLost, "the peer does not read its answers"));
    }
    if (connection.state == ShmState::kOpen) {
      const bool stalled = connection.stream.has_partial() || connection.stream.unsent_bytes() != 0;
      const Nanos limit = std::chrono::milliseconds(options_.stall_timeout_ms);
      set_deadline(connection, stalled ? now + limit : Nanos::max());
    }
    if (outcome == IoOutcome::kBlocked) {
      return;
    }
  }
}

bool ShmEndpoint::handle_frame(ShmConnection& connection, const ShmFrame& frame, Nanos now) {
  if (connection.state == ShmState::kClosing) {
    return true;  // what a refused peer still sends is dropped
  }
  if (connection.side == ShmSide::kInbound) {
    on_inbound_frame(connection, frame, now);
  } else {
    on_outbound_frame(connection, frame, now);
  }
  return connection.state != ShmState::kClosed;
}

void ShmEndpoint::send_pending(ShmConnection& connection, Nanos now) {
  IoOutcome outcome = connection.stream.drain();
  // As much as the socket takes, within the turn's share.
  for (int i = 0;
       i < kFramesPerTurn && outcome == IoOutcome::kProgress && connection.state == ShmState::kOpen;
       ++i) {
    produce_chunks(connection);
    if (connection.stream.unsent_bytes() == 0) {
      break;
    }
    outcome = connection.stream.drain();
  }
  if (outcome == IoOutcome::kEnded) {
    return lose(connection, make_error(Errc::kPeerLost, "the peer closed the connection"));
  }
  if (connection.state == ShmState::kClosing && connection.stream.unsent_bytes() == 0) {
    return close(connection);
  }
  if (connection.state == ShmState::kOpen) {
    const bool stalled = connection.stream.unsent_bytes() != 0;
    set_deadline(connection, stalled ? now + std::chrono::milliseconds(options_.stall_timeout_ms)
                                     : Nanos::max());
  }
  arm(connection);
}

int ShmEndpoint::check_deadlines(Nanos now) {
  if (now < next_deadline_) {
    return 0;
  }
  next_deadline_ = Nanos::max();
  int work = 0;
  if (accept_again_at_ <= now) {
    accept_again_at_ = Nanos::max();
    set_accepting(true);
  }
  for (size_t i = 0; i < connections_.size(); ++i) {  // the listener may add connections meanwhile
    ShmConnection& connection = *connections_[i];
    if (connection.state == ShmState::kConnecting && connection.deadline_at > now) {
      retry_connect(connection, now);
      next_deadline_ = std::min(next_deadline_, now + kRetryInterval);
    } else if (connection.state != ShmState::kClosed && connection.deadline_at <= now) {
      counters_.timeouts.add();
      ++work;
      if (connection.state == ShmState::kClosing) {
        close(connection);
      } else {
        lose(connection,
             make_error(Errc::kTimeout, "the peer did not answer within {} ms",
                        connection.state == ShmState::kOpen ? options_.stall_timeout_ms
                                                            : options_.connect_timeout_ms));
      }
    }
    next_deadline_ = std::min(next_deadline_, connection.deadline_at);
  }
  next_deadline_ = std::min(next_deadline_, accept_again_at_);
  return work;
}

int ShmEndpoint::work_on_mappings() {
  int work = 0;
  if (table_.has_retired()) {
    work += table_.reclaim(Bytes(options_.unmap_step_bytes)) != 0 ? 1 : 0;
  }
  if (populating_count_ != 0) {
    for (const auto& connection : connections_) {
      if (connection->state == ShmState::kOpen && connection->populating) {
        populate_step(*connection);
        ++work;
        break;  // one step per turn
      }
    }
  }
  return work;
}

Nanos ShmEndpoint::next_due(Nanos now) const noexcept {
  if (populating_count_ != 0) {
    return now;
  }
  return table_.has_retired() ? std::min(next_deadline_, now + kReclaimInterval) : next_deadline_;
}

void ShmEndpoint::map_self(PeerIndex peer) {
  auto mapping = std::make_unique<ShmPeerMapping>();
  mapping->regions = own_regions_;
  table_.publish(peer, std::move(mapping));
}

ShmPort* ShmEndpoint::lease_port(WakeEvent* client_event) noexcept {
  for (ShmPort& port : ports_) {
    bool leased = false;
    // E3 acquire: meets E2 in release_port(); the rings are as the former client left them, empty.
    if (port.leased.compare_exchange_strong(leased, true, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      port.client_event = client_event;
      return &port;
    }
  }
  return nullptr;
}

void ShmEndpoint::release_port(ShmPort& port) noexcept {
  PC_ASSERT(port.done.size_approx() == 0, port.done.size_approx());
  // E2 release: meets E3 in lease_port() and E1 in the destructor.
  port.leased.store(false, std::memory_order_release);
}

void ShmEndpoint::update_gauges() noexcept {
  counters_.mapped_bytes.set(table_.mapped_bytes());
  counters_.unmapping_bytes.set(table_.pending_bytes());
}

void ShmEndpoint::check_invariants() const {
  table_.check_invariants();
  uint32_t inbound_count = 0;
  for (const auto& connection : connections_) {
    const bool closed = connection->state == ShmState::kClosed;
    inbound_count += !closed && connection->side == ShmSide::kInbound ? 1 : 0;
    if (!closed && connection->side == ShmSide::kOutbound && connection->state == ShmState::kOpen) {
      PC_ASSERT(by_peer_[connection->peer.value()] == connection.get(), connection->peer);  // (E1)
      PC_ASSERT(table_.reaches(connection->peer), connection->peer);
    }
  }
  PC_ASSERT(inbound_count == inbound_count_, inbound_count, inbound_count_);
}

}  // namespace peercache
