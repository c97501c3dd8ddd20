#pragma once

#include <atomic>
#include <cstdint>

#include "dataplane/base/units.h"

namespace peercache {

/// The monotonic clock: nanoseconds since boot, the same for all processes of a host.
[[nodiscard]] Nanos monotonic_now() noexcept;

/// The same clock read through the cycle counter, for loops: measured 17 ns where monotonic_now takes
/// 30 and the counter's instruction alone 13. Agrees with monotonic_now within a few microseconds
/// (each thread reads both every 10 ms) and never goes back on one thread. Where the counter is not
/// invariant it is monotonic_now.
[[nodiscard]] Nanos fast_now() noexcept;

/// Where a component gets its time from: the fast clock, or a ManualClock of a test. A value; copy
/// it.
///
/// THREAD:     any.
/// BORROWS:    the ManualClock, if made by one.
class Clock {
 public:
  Clock() = default;

  [[nodiscard]] Nanos now() const noexcept {
    // Relaxed is enough: a test sets the time and steps the component in one thread, or wants it
    // only roughly.
    return manual_ == nullptr ? fast_now() : Nanos(manual_->load(std::memory_order_relaxed));
  }

 private:
  friend class ManualClock;
  explicit Clock(const std::atomic<int64_t>* manual) noexcept : manual_(manual) {}

  const std::atomic<int64_t>* manual_ = nullptr;
};

/// Time that stands still until it is told to move.
///
/// THREAD:     any may read through clock(); one sets.
/// INVARIANTS: (I1) time never goes back.
class ManualClock {
 public:
  explicit ManualClock(Nanos start = Nanos(0)) noexcept : now_ns_(start.count()) {}
  ManualClock(const ManualClock&) = delete;
  ManualClock& operator=(const ManualClock&) = delete;

  /// A Clock that reads this one. REQUIRES: this outlives it.
  [[nodiscard]] Clock clock() const noexcept { return Clock(&now_ns_); }
  [[nodiscard]] Nanos now() const noexcept { return clock().now(); }

  void advance(Nanos by) noexcept { set(now() + by); }
  void set(Nanos to) noexcept {
    PC_ASSERT(to >= now(), to, now());                     // (I1)
    now_ns_.store(to.count(), std::memory_order_relaxed);  // as in Clock::now
  }

 private:
  std::atomic<int64_t> now_ns_;
};

}  // namespace peercache
