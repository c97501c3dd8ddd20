#include "dataplane/base/clock.h"

#include <thread>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

TEST_CASE("clock: the fast clock never goes back and stays near the monotonic one", "[unit]") {
  static_cast<void>(fast_now());  // calibrates
  Nanos last = fast_now();
  const Nanos end = monotonic_now() + std::chrono::milliseconds(50);
  Nanos late_max{0};
  Nanos early_max{0};
  while (monotonic_now() < end) {
    const Nanos before = monotonic_now();
    const Nanos fast = fast_now();
    const Nanos after = monotonic_now();
    REQUIRE(fast >= last);
    last = fast;
    early_max = std::max(early_max, before - fast);
    late_max = std::max(late_max, fast - after);
  }
  // 5 µs is ten times what the calibration promises; an interrupted reading lies between before and
  // after anyway.
  CHECK(early_max < std::chrono::microseconds(5));
  CHECK(late_max < std::chrono::microseconds(5));
}

TEST_CASE("clock: threads agree on the fast clock", "[unit]") {
  const Nanos before = fast_now();
  Nanos other{0};
  std::thread([&] { other = fast_now(); }).join();
  const Nanos after = fast_now();
  CHECK(other > before - std::chrono::microseconds(5));
  CHECK(other < after + std::chrono::microseconds(5));
}

TEST_CASE("clock: a manual clock moves only when told", "[unit]") {
  ManualClock manual(Nanos(100));
  const Clock clock = manual.clock();
  CHECK(clock.now() == Nanos(100));
  CHECK(clock.now() == Nanos(100));
  manual.advance(Nanos(5));
  CHECK(clock.now() == Nanos(105));
  manual.set(Nanos(200));
  CHECK(clock.now() == Nanos(200));
}

TEST_CASE("clock: the default clock runs", "[unit]") {
  const Clock clock;
  const Nanos start = clock.now();
  while (clock.now() == start) {
  }
  CHECK(clock.now() > start);
}

}  // namespace
}  // namespace peercache
