#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "controlplane/rpc/rpc_loop.h"
#include "controlplane/wire/messages.h"
#include "dataplane/base/result.h"
#include "dataplane/base/strong_id.h"
#include "dataplane/base/units.h"

namespace peercache {

/// THREAD:     any; a value.
struct RpcClientOptions {
  uint32_t connect_timeout_ms =
      1000;                    ///< name look-up and connect, all addresses of the name together
  uint32_t retry_ms_min = 50;  ///< pause after a failed connect, doubled each time up to
  uint32_t retry_ms_max = 1000;
  uint32_t frame_bytes_max = 4U << 20;
  uint32_t send_queue_bytes_max = 16U << 20;  ///< per peer
  uint32_t calls_max_count = 4096;            ///< unanswered, per peer
  uint32_t half_open_ms =
      5000;  ///< calls have timed out and nothing was received for so long: connect anew
};

using RpcPeerId = StrongId<struct RpcPeerIdTag, uint64_t>;
using RpcReplyFn = std::function<void(Result<Message>)>;

/// Snapshot of a client's counters.
///
/// THREAD:     any; a value.
struct RpcClientStats {
  uint64_t calls_count = 0;
  uint64_t timeouts_count = 0;
  uint64_t connects_count = 0;  ///< that succeeded
  uint64_t failed_connects_count = 0;
  uint64_t lost_connections_count = 0;
  uint64_t late_replies_count = 0;  ///< for calls that had timed out; dropped
  uint64_t bad_frames_count = 0;    ///< the connection was closed
};

/// Calls other nodes: one connection per peer, made at the first call and again after it was lost;
/// many calls in flight.
///
/// A call that finds no connection waits for the present or next attempt and shares its fate, so
/// that it learns of a refused connection at once and of anything else at its own deadline at the
/// latest.
///
/// THREAD:     the loop's.
/// OWNS:       its connections. BORROWS: the loop, which outlives it.
/// INVARIANTS: (C1) every on_reply is called exactly once, never from inside call(). (C2) after
/// close() or remove_peer()
///             returned, none of the calls concerned is unanswered.
class RpcClient {
 public:
  static std::unique_ptr<RpcClient> open(RpcLoop& loop, const RpcClientOptions& options);
  ~RpcClient();
  RpcClient(const RpcClient&) = delete;
  RpcClient& operator=(const RpcClient&) = delete;

  /// Names a peer; nothing is connected yet. Names are looked up again at each connect. Errors:
  /// kBadValue.
  Result<RpcPeerId> add_peer(std::string_view address);
  /// Closes its connection; its calls are answered with kClosed.
  void remove_peer(RpcPeerId peer);

  /// Sends a request. on_reply gets the reply, or an error: kTimeout, kConnectRefused,
  /// kNotConnected (no route, no such name), kPeerLost (connection lost with the call under way),
  /// kBusy (queue full: the peer does not read), kBadLength (message too large), kClosed, or the
  /// code of an ErrorReplyMessage. REQUIRES: the peer was added; timeout > 0.
  void call(RpcPeerId peer, const Message& message, Nanos timeout, RpcReplyFn on_reply);

  /// Sends a message that has no reply; best effort, only over a connection that exists.
  void notify(RpcPeerId peer, const Message& message);

  bool connected(RpcPeerId peer) const;
  /// Drops the connection; the next call connects anew.
  void reset(RpcPeerId peer);

  RpcClientStats stats() const;

  /// Answers all calls with kClosed and closes all connections. Idempotent.
  void close();

 private:
  struct State;
  explicit RpcClient(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace peercache
