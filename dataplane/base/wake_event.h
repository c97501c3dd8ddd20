#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "dataplane/base/cacheline.h"
#include "dataplane/base/ordering.h"
#include "dataplane/base/result.h"
#include "dataplane/base/unique_handle.h"
#include "dataplane/base/units.h"

namespace peercache {

/// How a sleeping thread is woken by others without a lost wake-up: an eventfd and the word that
/// says it may sleep.
///
///   sleeper:  announce_sleep(); if (nothing to do) sleep(...); cancel_sleep();
///   waker:    push(...); wake_if_sleeping();
///
/// THREAD:     announce_sleep, sleep, cancel_sleep: the one sleeper; wake_if_sleeping, wake: any.
/// OWNS:       one eventfd.
/// COST:       wake_if_sleeping is one locked instruction, and one system call if the sleeper
/// sleeps.
class WakeEvent {
 public:
  /// Errors: kSystem (no descriptor left).
  static Result<std::unique_ptr<WakeEvent>> open();

  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  void announce_sleep() noexcept { peercache::announce_sleep(word_.value); }
  void cancel_sleep() noexcept { peercache::cancel_sleep(word_.value); }

  /// Waits until woken, until `other_fd` (if not -1) is readable, or until `timeout` has passed;
  /// may return early. Consumes the wake-ups. REQUIRES: announce_sleep before, and a look at the
  /// queues since.
  void sleep(Nanos timeout, int other_fd = -1) noexcept;

  /// After a push: wakes the sleeper if it sleeps or is about to.
  void wake_if_sleeping() noexcept {
    if (must_wake(word_.value)) {
      signal();
    }
  }

  /// Wakes the sleeper now or at its next sleep, whatever the word says.
  void wake() noexcept {
    static_cast<void>(must_wake(word_.value));
    signal();
  }

  /// The descriptor that becomes readable: for an event loop that sleeps in its own way.
  /// Such a loop calls consume() when it is.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void consume() noexcept;

 private:
  explicit WakeEvent(UniqueFd fd) noexcept : fd_(std::move(fd)) {}
  void signal() noexcept;

  UniqueFd fd_;
  Padded<std::atomic<uint32_t>> word_;
};

}  // namespace peercache
