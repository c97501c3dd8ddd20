// How connections end: refused with a reason, lost, or dropped; and what becomes of what they held.

#include <sys/epoll.h>
#include <utility>

#include "dataplane/transport/shm/shm_endpoint.h"

namespace peercache {

namespace {

// A refusal is one small message: it goes out at once or not at all.
constexpr Nanos kClosingTime = std::chrono::seconds(1);

}  // namespace

void ShmEndpoint::refuse(ShmConnection& connection,
                         const Error& error,
                         const std::string& reason,
                         Nanos now) {
  counters_.refused_by_us.add();
  const std::string text = reason.empty() ? to_string(error) : reason;
  PC_LOG_LIMITED(refusals_logged_, LogLevel::kWarn, "shm peer refused: {}", text);
  append_refusal(connection.stream.out(), text);
  const bool connecting = connection.side == ShmSide::kOutbound;
  connection.state = ShmState::kClosing;
  connection.mapping.reset();
  set_deadline(connection, now + kClosingTime);
  if (connecting) {
    listener_.on_peer_refused(connection.cookie_id, error, text);
  }
  send_pending(connection, now);
}

void ShmEndpoint::lose(ShmConnection& connection, const Error& error) {
  const ShmState state = connection.state;
  close(connection);
  if (connection.side != ShmSide::kOutbound || state == ShmState::kClosing) {
    return;
  }
  if (state == ShmState::kOpen) {
    counters_.lost.add();
    PC_LOG_INFO("shm peer {} down: {}", connection.peer, to_string(error));
    listener_.on_peer_down(connection.peer);
  } else {
    listener_.on_peer_refused(connection.cookie_id, error, "");
  }
}

void ShmEndpoint::close(ShmConnection& connection) {
  if (connection.state == ShmState::kClosed) {
    return;
  }
  const bool was_open = connection.state == ShmState::kOpen;
  connection.state = ShmState::kClosed;
  connection.deadline_at = Nanos::max();
  // By name: closing alone leaves the epoll only when no other process holds the descriptor, and
  // one that is forked and has not called exec does. Its events would come for what is gone.
  if (connection.stream.fd() >= 0) {
    static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.stream.fd(), nullptr));
  }
  connection.stream.close();
  connection.mapping.reset();
  any_closed_ = true;
  if (connection.side == ShmSide::kInbound) {
    --inbound_count_;
    admitted_count_ -= connection.admitted ? 1 : 0;
    counters_.inbound_open.set(counters_.inbound_open.value() - (was_open ? 1 : 0));
    return;
  }
  if (was_open) {
    table_.retire(connection.peer);
    by_peer_[connection.peer.value()] = nullptr;
    populating_count_ -= connection.populating ? 1 : 0;
    connection.published = nullptr;
    counters_.peers_up.set(counters_.peers_up.value() - 1);
    end_writes(connection, OpStatus::kPeerLost);
  }
}

void ShmEndpoint::drop_closed() {
  if (!std::exchange(any_closed_, false)) {
    return;
  }
  std::erase_if(connections_,
                [](const auto& connection) { return connection->state == ShmState::kClosed; });
}

void ShmEndpoint::disconnect(PeerIndex peer) {
  if (peer.value() < by_peer_.size() && by_peer_[peer.value()] != nullptr) {
    close(*by_peer_[peer.value()]);
  }
}

}  // namespace peercache
