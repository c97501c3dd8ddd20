// The connecting side: says hello, checks and maps the acceptor's regions, and brings the peer up.

#include <algorithm>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <utility>

#include "dataplane/transport/shm/shm_endpoint.h"
#include "dataplane/transport/shm/shm_segment.h"
#include "dataplane/transport/shm/shm_socket.h"

namespace peercache {

Result<void> ShmEndpoint::connect(const std::string& name, uint64_t cookie_id, Nanos now) {
  const auto outbound_count =
      std::count_if(connections_.begin(), connections_.end(), [](const auto& connection) {
        return connection->side == ShmSide::kOutbound && connection->state != ShmState::kClosed;
      });
  if (static_cast<size_t>(outbound_count) >= limits::kPeersMax) {
    return make_error(Errc::kTooManyPeers, "{} peers are connected already", outbound_count);
  }
  std::string path = name.find('/') == std::string::npos ? directory_ + "/" + name : name;
  auto socket = connect_unix(path);
  if (!socket && socket.error().code != Errc::kBusy) {
    return socket.error();
  }
  auto connection =
      std::make_unique<ShmConnection>(ShmSide::kOutbound, socket ? std::move(*socket) : UniqueFd());
  connection->path = std::move(path);
  connection->cookie_id = cookie_id;
  connection->state = ShmState::kConnecting;
  ShmConnection& added = add_connection(std::move(connection));
  const Nanos deadline = now + std::chrono::milliseconds(options_.connect_timeout_ms);
  set_deadline(added, deadline);
  // The rest happens in the next turn, so that the listener is never called from here.
  next_deadline_ = now;
  wake_->wake();
  return {};
}

void ShmEndpoint::retry_connect(ShmConnection& connection, Nanos now) {
  if (connection.stream.fd() < 0) {
    auto socket = connect_unix(connection.path);
    if (!socket && socket.error().code == Errc::kBusy) {
      return;
    }
    if (!socket) {
      return lose(connection, socket.error());
    }
    connection.stream = ShmStream(std::move(*socket));
  }
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = &connection;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.stream.fd(), &event) != 0) {
    return lose(connection,
                make_system_error(Errc::kSystem, errno, "adding a connection to an epoll"));
  }
  // The listener's credentials: a socket that someone else put there is not a peer.
  if (auto allowed = check_peer_uid(connection.stream.fd(), peer_uid_); !allowed) {
    return refuse(connection, allowed.error(), "", now);
  }
  append_shm_frame(connection.stream.out(), ShmFrameKind::kHello, 0, encode_hello(hello_));
  connection.state = ShmState::kHello;
  send_pending(connection, now);
}

void ShmEndpoint::on_outbound_frame(ShmConnection& connection, const ShmFrame& frame, Nanos now) {
  const ShmFrameKind kind = frame.header.kind;
  if (kind == ShmFrameKind::kRefused && connection.state != ShmState::kOpen) {
    counters_.refused_by_peer.add();
    close(connection);
    return listener_.on_peer_refused(connection.cookie_id,
                                     make_error(Errc::kPeerRefused, "the peer refused us"),
                                     parse_refusal(frame));
  }
  if (connection.state == ShmState::kHello && kind == ShmFrameKind::kHello) {
    return take_hello(connection, frame, now);
  }
  if (connection.state == ShmState::kFds && kind == ShmFrameKind::kRegionFds) {
    return take_regions(connection, frame, now);
  }
  if (connection.state == ShmState::kOpen && kind == ShmFrameKind::kWriteDone) {
    return take_write_done(connection, frame);
  }
  counters_.protocol_errors.add();
  lose(connection,
       make_error(Errc::kBadEnum, "a frame of kind {} in state {}", kind, connection.state));
}

void ShmEndpoint::take_hello(ShmConnection& connection, const ShmFrame& frame, Nanos now) {
  auto theirs = decode_hello(frame.payload);
  if (!theirs) {
    counters_.protocol_errors.add();
    return refuse(connection, theirs.error(), "", now);
  }
  if (auto agreed = check_hello(hello_, *theirs); !agreed) {
    return refuse(connection, make_error(Errc::kPeerRefused, "the hellos do not agree"),
                  agreed.error(), now);
  }
  if (auto checked = check_region_table(theirs->regions); !checked) {
    return refuse(connection, checked.error(), "", now);
  }
  connection.mapping = std::make_unique<ShmPeerMapping>();
  for (const RegionDescriptor& region : theirs->regions) {
    if (region.region.value() >= connection.mapping->regions.size() ||
        region.kind == RegionKind::kDestination) {
      return refuse(
          connection,
          make_error(Errc::kTooManyRegions, "region {} of kind {}", region.region, region.kind), "",
          now);
    }
  }
  connection.hello = std::move(*theirs);
  connection.state = ShmState::kFds;
  if (connection.hello.regions.empty()) {
    bring_up(connection, now);
  }
}

void ShmEndpoint::take_regions(ShmConnection& connection, const ShmFrame& frame, Nanos now) {
  const auto message = parse_region_fds(frame);
  if (!message) {
    counters_.protocol_errors.add();
    return refuse(connection, message.error(), "", now);
  }
  const std::vector<RegionDescriptor>& table = connection.hello.regions;
  const size_t count = frame.header.fd_count;
  if (message->first_index != connection.mapped_count ||
      count > table.size() - connection.mapped_count) {
    counters_.protocol_errors.add();
    return refuse(
        connection,
        make_error(Errc::kBadLength, "descriptors of regions {} and {} more, expected {} of {}",
                   message->first_index, count, connection.mapped_count, table.size()),
        "", now);
  }
  std::vector<UniqueFd> fds;
  if (!connection.stream.take_fds(count, fds)) {
    counters_.protocol_errors.add();
    return refuse(connection,
                  make_error(Errc::kTruncated, "{} descriptors announced, {} came", count,
                             connection.stream.fds_waiting()),
                  "", now);
  }
  for (const UniqueFd& fd : fds) {
    const RegionDescriptor& region = table[connection.mapped_count];
    auto mapped = ShmSegment::map_remote(fd.get(), Bytes(region.length_bytes));
    if (!mapped) {
      return refuse(connection, mapped.error(), "", now);
    }
    ShmPeerMapping& mapping = *connection.mapping;
    mapping.regions[region.region.value()] = {mapped->get().data, nullptr, region};
    mapping.mapped_bytes += mapped->get().bytes;
    mapping.mappings.push_back(std::move(*mapped));
    ++connection.mapped_count;
  }
  if (connection.mapped_count == table.size()) {
    bring_up(connection, now);
  }
}

void ShmEndpoint::bring_up(ShmConnection& connection, Nanos now) {
  if (connection.stream.fds_waiting() != 0) {
    counters_.protocol_errors.add();
    return refuse(
        connection,
        make_error(Errc::kBadLength, "{} descriptors too many", connection.stream.fds_waiting()),
        "", now);
  }
  auto peer = listener_.on_peer_up(connection.cookie_id, connection.hello, *connection.mapping);
  if (!peer) {
    return refuse(connection, peer.error(), "", now);
  }
  PC_ASSERT(peer->value() < by_peer_.size(), *peer);
  PC_ASSERT(by_peer_[peer->value()] == nullptr, *peer);
  connection.peer = *peer;
  connection.published = connection.mapping.get();
  connection.populating =
      !connection.mapping->mappings.empty() && options_.populate_step_bytes != 0;
  populating_count_ += connection.populating ? 1 : 0;
  by_peer_[peer->value()] = &connection;
  table_.publish(*peer, std::move(connection.mapping));
  connection.state = ShmState::kOpen;
  set_deadline(connection, Nanos::max());
  counters_.peers_up.set(counters_.peers_up.value() + 1);
  PC_LOG_INFO("shm peer {} up: {}, {} regions, {} bytes", *peer, connection.hello.node_name,
              connection.hello.regions.size(), connection.published->mapped_bytes);
  append_shm_frame(connection.stream.out(), ShmFrameKind::kAccepted, 0,
                   std::span<const std::byte>());
  send_pending(connection, now);
}

void ShmEndpoint::populate_step(ShmConnection& connection) {
  const std::vector<UniqueMapping>& mappings = connection.published->mappings;
  const MappedRange range = mappings[connection.populate_index].get();
  const uint64_t step =
      std::min<uint64_t>(options_.populate_step_bytes, range.bytes - connection.populate_bytes);
  // A hint (Linux 5.14): without it, or without memory for it, clients take the faults.
  const bool done =
      ::madvise(range.data + connection.populate_bytes, step, MADV_POPULATE_READ) != 0;
  connection.populate_bytes += step;
  if (connection.populate_bytes == range.bytes) {
    ++connection.populate_index;
    connection.populate_bytes = 0;
  }
  if (done || connection.populate_index == mappings.size()) {
    connection.populating = false;
    --populating_count_;
  }
}

}  // namespace peercache
