// The accepting side: checks who connects, answers with own regions, and serves WRITEs into them.

#include <algorithm>
#include <cerrno>
#include <span>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

#include "dataplane/base/copy.h"
#include "dataplane/base/ordering.h"
#include "dataplane/transport/shm/shm_endpoint.h"
#include "dataplane/transport/shm/shm_socket.h"

namespace peercache {

namespace {

constexpr int kAcceptsPerTurn = 16;
// With no descriptor left the connection stays in the queue, and the socket readable: look away for
// a while.
constexpr Nanos kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

void ShmEndpoint::set_accepting(bool accepting) noexcept {
  epoll_event event = {};
  event.events = accepting ? uint32_t{EPOLLIN} : 0U;
  event.data.u64 = kListeningId;
  const int result = ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.get(), &event);
  PC_ASSERT(result == 0, errno);  // an open descriptor of ours, added before
}

int ShmEndpoint::accept_some(Nanos now) {
  int accepted = 0;
  for (; accepted < kAcceptsPerTurn; ++accepted) {
    UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      admit(std::move(fd), now);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      PC_LOG_LIMITED(refusals_logged_, LogLevel::kWarn, "shm cannot accept, errno {}", errno);
      set_accepting(false);
      accept_again_at_ = now + kAcceptPause;
      next_deadline_ = std::min(next_deadline_, accept_again_at_);
    }
    if (errno != ECONNABORTED && errno != EINTR) {
      break;
    }
  }
  return accepted;
}

void ShmEndpoint::admit(UniqueFd fd, Nanos now) {
  // Before its hello a connection may be a start-up probe for stale sockets, gone in a moment: twice as
  // many as may stay are let in, and each has its deadline.
  if (inbound_count_ >= 2 * options_.inbound_max_count) {
    counters_.refused_by_us.add();
    return;  // a flood: not even a reason
  }
  ShmConnection& connection =
      add_connection(std::make_unique<ShmConnection>(ShmSide::kInbound, std::move(fd)));
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = &connection;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.stream.fd(), &event) != 0) {
    return close(connection);
  }
  counters_.accepted.add();
  set_deadline(connection, now + std::chrono::milliseconds(options_.connect_timeout_ms));
  if (auto allowed = check_peer_uid(connection.stream.fd(), peer_uid_); !allowed) {
    return refuse(connection, allowed.error(), "", now);
  }
}

void ShmEndpoint::on_inbound_frame(ShmConnection& connection, const ShmFrame& frame, Nanos now) {
  const ShmFrameKind kind = frame.header.kind;
  if (connection.stream.fds_waiting() != 0) {
    counters_.protocol_errors.add();
    return lose(connection, make_error(Errc::kBadLength, "a connector sent descriptors"));
  }
  if (kind == ShmFrameKind::kRefused) {
    counters_.refused_by_peer.add();
    PC_LOG_LIMITED(refusals_logged_, LogLevel::kWarn, "shm peer {} refuses us: {}",
                   connection.peer_name, parse_refusal(frame));
    return close(connection);
  }
  if (connection.state == ShmState::kHello && kind == ShmFrameKind::kHello) {
    return answer_hello(connection, frame, now);
  }
  if (connection.state == ShmState::kAnswer && kind == ShmFrameKind::kAccepted) {
    connection.state = ShmState::kOpen;
    set_deadline(connection, Nanos::max());
    counters_.inbound_open.set(counters_.inbound_open.value() + 1);
    return;
  }
  if (connection.state == ShmState::kOpen && kind == ShmFrameKind::kWriteChunk) {
    return serve_chunk(connection, frame, now);
  }
  if (connection.state == ShmState::kOpen && kind == ShmFrameKind::kWriteAbort) {
    connection.write_request_id = 0;
    return;
  }
  counters_.protocol_errors.add();
  lose(connection,
       make_error(Errc::kBadEnum, "a frame of kind {} in state {}", kind, connection.state));
}

void ShmEndpoint::answer_hello(ShmConnection& connection, const ShmFrame& frame, Nanos now) {
  auto theirs = decode_hello(frame.payload);
  if (!theirs) {
    counters_.protocol_errors.add();
    return refuse(connection, theirs.error(), "", now);
  }
  connection.peer_name = theirs->node_name;
  if (auto agreed = check_hello(hello_, *theirs); !agreed) {
    return refuse(connection, make_error(Errc::kPeerRefused, "the hellos do not agree"),
                  agreed.error(), now);
  }
  if (admitted_count_ >= options_.inbound_max_count) {
    return refuse(connection,
                  make_error(Errc::kTooManyPeers, "{} connections are open already", admitted_count_),
                  "",
                  now);
  }
  connection.admitted = true;
  ++admitted_count_;
  append_shm_frame(connection.stream.out(), ShmFrameKind::kHello, 0, encode_hello(hello_));
  const std::span<const int> fds(region_fds_);
  for (size_t i = 0; i < fds.size(); i += kShmFdsPerFrame) {
    connection.stream.append_fds(static_cast<uint32_t>(i),
                                 fds.subspan(i, std::min<size_t>(kShmFdsPerFrame, fds.size() - i)));
  }
  connection.state = ShmState::kAnswer;
  send_pending(connection, now);
}

void ShmEndpoint::serve_chunk(ShmConnection& connection, const ShmFrame& frame, Nanos now) {
  const auto view = parse_write_chunk(frame);
  if (!view) {
    counters_.protocol_errors.add();
    return lose(connection, view.error());
  }
  const ShmWriteChunk& chunk = view->chunk;
  if (connection.write_request_id != chunk.request_id) {
    connection.write_request_id = chunk.request_id;
    connection.write_status = OpStatus::kOk;
  }
  std::byte* place =
      writable_place(own_regions_, chunk.region, chunk.offset_bytes, view->bytes.size());
  if (place == nullptr) {
    connection.write_status = OpStatus::kOutOfBounds;
  } else if (connection.write_status == OpStatus::kOk) {
    copy_bytes_cached(place, view->bytes.data(), view->bytes.size());
    counters_.write_bytes_served.add(view->bytes.size());
  }
  if (chunk.last_count == 0) {
    return;
  }
  copy_done_fence();  // whoever acts on the answer may read the bytes, also by a NIC
  const bool ok = connection.write_status == OpStatus::kOk;
  (ok ? counters_.writes_served : counters_.writes_refused).add();
  append_payload(connection.stream.out(), ShmFrameKind::kWriteDone, 0,
                 ShmWriteDone{chunk.request_id, connection.write_status, {}});
  connection.write_request_id = 0;
  send_pending(connection, now);
}

}  // namespace peercache
