#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "controlplane/rpc/rpc_loop.h"
#include "controlplane/wire/messages.h"
#include "dataplane/base/result.h"

namespace peercache {

/// THREAD:     any; a value.
struct RpcServerOptions {
  std::string bind_host = "127.0.0.1";
  uint16_t port = 0;  ///< 0: any free port
  uint32_t connections_max_count = 1024;
  uint32_t frame_bytes_max = 4U << 20;
  uint32_t send_queue_bytes_max =
      16U << 20;  ///< per connection; more and it is closed: its peer does not read
  uint32_t idle_timeout_ms =
      60000;  ///< a connection without a frame for so long is closed; its client connects anew
  uint32_t frame_timeout_ms =
      5000;  ///< from a frame's first byte to its last; against dripping peers
};

using RpcConnectionId = StrongId<struct RpcConnectionIdTag, uint64_t>;

/// The right to answer one request, once; may be kept and used later, on the loop's thread. Dropped
/// unused it answers ErrorReplyMessage{kUnsupported}; after its connection or server is gone it
/// does nothing.
///
/// THREAD:     the loop's.
class RpcReply {
 public:
  using SendFn = std::function<void(const Message&)>;
  RpcReply() = default;
  explicit RpcReply(SendFn send) : send_(std::move(send)) {}
  RpcReply(RpcReply&& other) noexcept : send_(std::exchange(other.send_, nullptr)) {}
  RpcReply& operator=(RpcReply&& other) noexcept;
  ~RpcReply();

  void send(const Message& message);

 private:
  SendFn send_;
};

/// THREAD:     any; a value.
struct RpcRequest {
  RpcConnectionId connection{};
  Message message;
  bool one_way = false;  ///< the sender expects no reply; sending one does nothing
};

/// Snapshot of a server's counters.
///
/// THREAD:     any; a value.
struct RpcServerStats {
  uint64_t connections_count = 0;  ///< open now
  uint64_t accepted_count = 0;
  uint64_t refused_count = 0;  ///< over connections_max_count
  uint64_t requests_count = 0;
  uint64_t bad_frames_count =
      0;  ///< oversize, unknown type, failed verification; the connection was closed
  uint64_t idle_closed_count = 0;
  uint64_t slow_closed_count = 0;  ///< a frame was dripping, or replies were not read
};

/// Listens on one address and hands verified messages to a handler on the loop's thread.
///
/// THREAD:     the loop's.
/// OWNS:       the listening socket and accepted connections. BORROWS: the loop, which outlives it.
/// INVARIANTS: (S1) a connection's requests reach the handler in the order they were sent. (S2) no
/// buffer is made for a
///             length that was not checked.
class RpcServer {
 public:
  using Handler = std::function<void(RpcRequest request, RpcReply reply)>;

  /// Listens at once. Errors: kSystem with errno (address in use, unknown host), kBadValue.
  static Result<std::unique_ptr<RpcServer>> open(RpcLoop& loop,
                                                 const RpcServerOptions& options,
                                                 Handler handler);
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  uint16_t port() const;
  /// "host:port" with the host as given in the options.
  std::string address() const;

  /// Stops listening, closes all connections. Idempotent; replies still held do nothing.
  void close();

  RpcServerStats stats() const;

 private:
  struct State;
  explicit RpcServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace peercache
