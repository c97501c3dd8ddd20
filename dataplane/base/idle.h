#pragma once

#include <cstdint>

#include "dataplane/base/ordering.h"
#include "dataplane/base/units.h"

namespace peercache {

/// What a polling thread does when a turn found no work.
enum class IdlePolicy : uint8_t {
  kSpin,    ///< poll again at once; a core of its own
  kHybrid,  ///< spin, then pause between turns, then sleep on an event
  kEvent,   ///< sleep after the first empty turn; for conductors, and where a CPU quota is set or
            ///< cores are short
};

[[nodiscard]] constexpr const char* to_string(IdlePolicy policy) noexcept {
  switch (policy) {
    case IdlePolicy::kSpin:
      return "spin";
    case IdlePolicy::kHybrid:
      return "hybrid";
    case IdlePolicy::kEvent:
      return "event";
  }
  return "unknown";
}

/// How long the hybrid policy stays in each phase.
///
/// THREAD:     any; a value.
struct IdleOptions {
  IdlePolicy policy = IdlePolicy::kHybrid;
  /// Spinning time after the last work: covers the gap between two batches of a running request.
  uint32_t spin_us = 50;
  /// Then turns with a pause in between, which leave the sibling hyper-thread most of the core.
  uint32_t pause_us = 200;
};

/// Decides, turn by turn, between polling again, pausing and sleeping.
///
/// THREAD:     owned by the polling thread.
/// COST:       a comparison or two per turn; one pause instruction burst in the second phase.
class IdleBackoff {
 public:
  enum class Step : uint8_t { kPollAgain, kPaused, kSleep };

  explicit IdleBackoff(IdleOptions options) noexcept
      : policy_(options.policy),
        spin_(Nanos(int64_t{options.spin_us} * 1000)),
        pause_(Nanos((int64_t{options.spin_us} + options.pause_us) * 1000)) {}

  /// After a turn that did `work` things, at time `now`. kSleep asks the caller to sleep; the
  /// others are done.
  Step after_turn(int work, Nanos now) noexcept {
    if (work > 0) {
      idle_ = false;
      return Step::kPollAgain;
    }
    if (policy_ == IdlePolicy::kSpin) {
      cpu_pause();
      return Step::kPollAgain;
    }
    if (policy_ == IdlePolicy::kEvent) {
      return Step::kSleep;
    }
    if (!idle_) {
      idle_ = true;
      idle_since_ = now;
    }
    const Nanos idle_for = now - idle_since_;
    if (idle_for < spin_) {
      cpu_pause();
      return Step::kPollAgain;
    }
    if (idle_for < pause_) {
      // 16 pauses are 0.3 µs to 2 µs: well below a network round trip.
      for (int i = 0; i < 16; ++i) {
        cpu_pause();
      }
      return Step::kPaused;
    }
    return Step::kSleep;
  }

  /// After a sleep. With `woken` the phases start afresh; a time-out goes back to sleep after one
  /// empty turn.
  void after_sleep(bool woken) noexcept {
    if (woken) {
      idle_ = false;
    }
  }

 private:
  IdlePolicy policy_;
  Nanos spin_;
  Nanos pause_;
  bool idle_ = false;
  Nanos idle_since_{0};
};

}  // namespace peercache
