// WRITEs of our clients on their way to the owner: from the ports into the connection, and the
// answers back.

#include <algorithm>
#include <utility>

#include "dataplane/transport/access_check.h"
#include "dataplane/transport/shm/shm_endpoint.h"

namespace peercache {

namespace {

// Appends a chunk of the WRITE to `out` and moves the WRITE's place on. After it the source bytes
// of the chunk are not needed any more, whatever becomes of the connection: that is what makes a
// fence immediate.
void append_chunk(std::vector<std::byte>& out, ShmOutWrite& write) {
  const ShmCommand& command = write.command;
  const uint32_t bytes = std::min(kShmChunkBytes, command.length_bytes - write.sent_bytes);
  ShmWriteChunk chunk{};
  chunk.request_id = write.request_id;
  chunk.offset_bytes = command.offset_bytes + write.sent_bytes;
  chunk.region = command.region;
  chunk.last_count = write.sent_bytes + bytes == command.length_bytes ? 1 : 0;
  const auto payload_bytes = static_cast<uint32_t>(sizeof chunk + bytes);
  const ShmFrameHeader header{kShmFrameMagic, ShmFrameKind::kWriteChunk, 0, payload_bytes, 0};
  const auto append = [&out](std::span<const std::byte> part) {
    out.insert(out.end(), part.begin(), part.end());
  };
  append(std::as_bytes(std::span<const ShmFrameHeader, 1>(&header, 1)));
  append(std::as_bytes(std::span<const ShmWriteChunk, 1>(&chunk, 1)));
  for (uint32_t left = bytes; left != 0;) {
    const LocalPiece& piece = command.pieces[write.piece_index];
    const uint32_t part = std::min(left, piece.length_bytes - write.piece_done_bytes);
    append({piece.address + write.piece_done_bytes, part});
    left -= part;
    write.piece_done_bytes += part;
    if (write.piece_done_bytes == piece.length_bytes) {
      ++write.piece_index;
      write.piece_done_bytes = 0;
    }
  }
  write.sent_bytes += bytes;
}

}  // namespace

int ShmEndpoint::take_commands(Nanos now) {
  int work = 0;
  std::array<ShmCommand, 32> commands;
  for (ShmPort& port : ports_) {
    for (;;) {
      const size_t count = port.commands.pop_many(commands);
      for (size_t i = 0; i < count; ++i) {
        const ShmCommand& command = commands[i];
        if (command.kind == ShmCommand::Kind::kWrite) {
          take_write(port, command, now);
        } else {
          take_fence(port, command.peer, now);
        }
      }
      work += static_cast<int>(count);
      if (count < commands.size()) {
        break;
      }
    }
  }
  return work;
}

void ShmEndpoint::take_write(ShmPort& port, const ShmCommand& command, Nanos now) {
  ShmConnection* connection =
      command.peer.value() < by_peer_.size() ? by_peer_[command.peer.value()] : nullptr;
  if (connection == nullptr) {
    return finish_write({&port, command}, OpStatus::kPeerLost);
  }
  WorkRequest request{};
  request.kind = OpKind::kWrite;
  request.remote_offset_bytes = command.offset_bytes;
  request.length_bytes = command.length_bytes;
  const ShmRegionView* view = connection->published->find(command.region);
  if (view == nullptr || check_access(view->descriptor, request) != OpStatus::kOk) {
    return finish_write({&port, command}, OpStatus::kOutOfBounds);
  }
  counters_.writes_sent.add();
  connection->writes.push_back({&port, command, next_request_id_++});
  send_pending(*connection, now);
}

void ShmEndpoint::take_fence(ShmPort& port, PeerIndex peer, Nanos now) {
  ShmConnection* connection = peer.value() < by_peer_.size() ? by_peer_[peer.value()] : nullptr;
  if (connection == nullptr) {
    return;  // its WRITEs have ended with it
  }
  for (auto write = connection->writes.begin(); write != connection->writes.end();) {
    if (write->port != &port) {
      ++write;
      continue;
    }
    const bool half_sent =
        write->sent_bytes != 0 && write->sent_bytes != write->command.length_bytes;
    if (half_sent) {
      append_payload(connection->stream.out(), ShmFrameKind::kWriteAbort, 0,
                     ShmWriteAbort{write->request_id});
    }
    counters_.writes_flushed.add();
    finish_write(*write, OpStatus::kFlushed);
    write = connection->writes.erase(write);
  }
  send_pending(*connection, now);
}

void ShmEndpoint::produce_chunks(ShmConnection& connection) {
  auto unsent = std::find_if(
      connection.writes.begin(), connection.writes.end(),
      [](const ShmOutWrite& write) { return write.sent_bytes != write.command.length_bytes; });
  while (unsent != connection.writes.end() &&
         connection.stream.unsent_bytes() < ShmStream::kOutBytesWanted) {
    append_chunk(connection.stream.out(), *unsent);
    if (unsent->sent_bytes == unsent->command.length_bytes) {
      ++unsent;
    }
  }
}

void ShmEndpoint::finish_write(const ShmOutWrite& write, OpStatus status) {
  PC_ASSERT(write.port->done.push(Completion{write.command.cookie_id, status}));  // ShmPort (I1)
  if (write.port->client_event != nullptr) {
    write.port->client_event->wake_if_sleeping();
  }
}

void ShmEndpoint::take_write_done(ShmConnection& connection, const ShmFrame& frame) {
  const auto done = parse_write_done(frame);
  if (!done) {
    counters_.protocol_errors.add();
    return lose(connection, done.error());
  }
  const auto write =
      std::find_if(connection.writes.begin(), connection.writes.end(),
                   [&](const ShmOutWrite& each) { return each.request_id == done->request_id; });
  if (write == connection.writes.end()) {
    return;  // fenced meanwhile
  }
  if (write->sent_bytes != write->command.length_bytes) {
    counters_.protocol_errors.add();
    return lose(connection, make_error(Errc::kBadLength, "write {} was answered before its end",
                                       done->request_id));
  }
  finish_write(*write, done->status);
  connection.writes.erase(write);
}

void ShmEndpoint::end_writes(ShmConnection& connection, OpStatus status) {
  for (const ShmOutWrite& write : connection.writes) {
    finish_write(write, status);
  }
  connection.writes.clear();
}

}  // namespace peercache
