#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "controlplane/rpc/rpc_frame.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace peercache {

/// THREAD:     any; a value.
struct Frame {
  FrameHeader header;
  std::vector<std::byte> body;
};

/// One connected socket that carries frames both ways; the common half of server and client.
///
/// THREAD:     the loop's.
/// OWNS:       the socket and its buffers.
/// INVARIANTS: (F1) at most `send_queue_bytes_max` wait to be written. (F2) a body's buffer grows
/// as its bytes arrive, in
///             steps: announcing a large frame costs a peer as much as it costs us.
class FrameStream : public std::enable_shared_from_this<FrameStream> {
 public:
  FrameStream(boost::asio::ip::tcp::socket socket,
              size_t body_bytes_max,
              size_t send_queue_bytes_max);

  /// No delay, keep-alive, and an end to connections whose peer acknowledges nothing.
  void set_socket_options();

  /// The next frame. Errors: kPeerLost (closed or broken), kBadLength, kBadEnum.
  boost::asio::awaitable<Result<Frame>> read();

  /// Queues a frame; the length is filled in. Errors: kBusy (queue full), kClosed.
  Result<void> send(FrameHeader header, std::span<const std::byte> body);

  /// Closes; frames that the kernel has not taken are lost. Idempotent.
  void close();
  bool closed() const noexcept { return closed_; }

  /// When bytes last came in, and when the frame began of which a part has come in (0: none).
  Nanos received_at() const noexcept { return received_at_; }
  Nanos frame_began_at() const noexcept { return frame_began_at_; }

 private:
  static constexpr size_t kReadBytes = 16 * 1024;

  void note_received(size_t bytes);
  void write_more();

  boost::asio::ip::tcp::socket socket_;
  size_t body_bytes_max_;
  size_t send_queue_bytes_max_;
  std::vector<std::byte> in_;  ///< read ahead
  size_t in_bytes_ = 0;
  std::vector<std::byte> waiting_;  ///< to be written after `writing_`
  std::vector<std::byte> writing_;
  bool write_under_way_ = false;
  bool closed_ = false;
  Nanos received_at_{0};
  Nanos frame_began_at_{0};
};

}  // namespace peercache
