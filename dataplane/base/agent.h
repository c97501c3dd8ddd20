#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "dataplane/base/clock.h"
#include "dataplane/base/counters.h"
#include "dataplane/base/idle.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/base/wake_event.h"

namespace peercache {

/// Work that is done in turns. AgentThread gives it a thread; a test calls poll_once itself, step
/// by step.
///
/// THREAD:     all functions on the one thread that polls.
class Agent {
 public:
  Agent() = default;
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  virtual ~Agent() = default;

  /// One turn: does what is ready, never blocks, returns the amount of work done (0: idle).
  virtual int poll_once(Nanos now) noexcept = 0;

  /// Called after the sleep was announced: arms events (a CQ's, say) and looks once more for work
  /// that cannot wake the thread. False: do not sleep, poll again.
  virtual bool prepare_sleep() noexcept { return true; }

  /// A descriptor whose readability ends the sleep as well (a CQ channel, an epoll of sockets), or
  /// -1.
  [[nodiscard]] virtual int wait_fd() const noexcept { return -1; }

  /// When the next timer is due: a sleep ends then at the latest. The default never shortens a
  /// sleep.
  [[nodiscard]] virtual Nanos next_due(Nanos /*now*/) const noexcept { return Nanos::max(); }
};

/// THREAD:     any; a value.
struct AgentOptions {
  std::string name = "pc-agent";  ///< at most 15 characters are shown by the system
  IdleOptions idle{};
  int nice = 0;                 ///< added to the thread's own nice level; 0 leaves it
  uint32_t sleep_ms_max = 100;  ///< a sleep ends after this at the latest
  uint32_t stall_ms = 10;       ///< a turn that took longer counts as a stall
  /// Runs first on the new thread: pins it, sets its memory policy. Its error is start's error.
  std::function<Result<void>()> on_start = nullptr;
  Clock clock{};
};

/// A thread that polls one agent, sleeps as its idle policy says, and is woken without a lost
/// wake-up.
///
/// THREAD:     start, stop, destructor: the owner; wake_if_sleeping, wake, counters: any.
/// OWNS:       the thread and its event. BORROWS: the agent, which outlives it.
/// COST:       a virtual call, a clock reading and a relaxed load per turn.
class AgentThread {
 public:
  /// Starts the thread and waits until on_start has run. Errors: kSystem, and on_start's.
  static Result<std::unique_ptr<AgentThread>> start(Agent& agent, AgentOptions options);

  AgentThread(const AgentThread&) = delete;
  AgentThread& operator=(const AgentThread&) = delete;
  ~AgentThread() { stop(); }

  /// Ends after the current turn and joins. Idempotent. REQUIRES: not called from the agent's own
  /// thread.
  void stop() noexcept;

  /// After a push into one of the agent's queues.
  void wake_if_sleeping() noexcept { event_->wake_if_sleeping(); }
  void wake() noexcept { event_->wake(); }
  [[nodiscard]] WakeEvent& event() noexcept { return *event_; }

  [[nodiscard]] uint64_t turns() const noexcept { return turns_.value(); }
  [[nodiscard]] uint64_t busy_turns() const noexcept { return busy_turns_.value(); }
  [[nodiscard]] uint64_t sleeps() const noexcept { return sleeps_.value(); }
  /// Turns that took longer than stall_ms, and the longest turn.
  [[nodiscard]] uint64_t stalls() const noexcept { return stalls_.value(); }
  [[nodiscard]] Nanos turn_max() const noexcept {
    return Nanos(static_cast<int64_t>(turn_ns_max_.value()));
  }

 private:
  AgentThread(Agent& agent, AgentOptions options, std::unique_ptr<WakeEvent> event);
  Result<void> set_up_thread();
  void run() noexcept;
  void sleep(Nanos now) noexcept;
  void note_turn(Nanos took, int work) noexcept;

  Agent& agent_;
  AgentOptions options_;
  std::unique_ptr<WakeEvent> event_;
  IdleBackoff backoff_;
  Counter turns_;
  Counter busy_turns_;
  Counter sleeps_;
  Counter stalls_;
  Counter turn_ns_max_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace peercache
