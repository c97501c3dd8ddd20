#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "dataplane/base/result.h"
#include "dataplane/base/strong_id.h"
#include "dataplane/base/units.h"

namespace peercache {

using WatchId = StrongId<struct WatchIdTag, uint64_t>;
using TimerId = StrongId<struct TimerIdTag, uint64_t>;

/// The conductor's event loop: sockets of the RPC server and clients, timers, foreign descriptors.
///
/// THREAD:     the conductor's; `wake` and `post` any.
/// OWNS:       an io_context; callbacks run only inside poll_once and run_for.
/// INVARIANTS: (L1) a callback is never run from inside the call that registered it. (L2) after
/// unwatch or cancel_timer
///             returned, the callback is not run any more.
class RpcLoop {
 public:
  /// Errors: kSystem.
  static Result<std::unique_ptr<RpcLoop>> open();
  ~RpcLoop();
  RpcLoop(const RpcLoop&) = delete;
  RpcLoop& operator=(const RpcLoop&) = delete;

  /// Runs what is ready and returns how much that was; never blocks.
  int poll_once();

  /// Sleeps until something is ready, `wake` or `timeout`, then runs what is ready.
  int run_for(Nanos timeout);

  /// Ends a run_for, now or the next one. Any thread.
  void wake();

  /// Runs `fn` on the loop's thread. Any thread.
  void post(std::function<void()> fn);

  /// Calls back whenever `fd` is readable (level-triggered; the callback should consume what it
  /// finds). Any descriptor that epoll takes: sockets, eventfds, another epoll. Borrowed: unwatch
  /// before closing it; made non-blocking. Errors: kSystem.
  Result<WatchId> watch_fd(int fd, std::function<void()> on_readable);
  void unwatch(WatchId id);

  /// Calls back once, after `delay`.
  TimerId start_timer(Nanos delay, std::function<void()> fn);
  void cancel_timer(TimerId id);

  /// For rpc_server.cc and rpc_client.cc.
  struct State;
  State& state() { return *state_; }

 private:
  explicit RpcLoop(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace peercache
