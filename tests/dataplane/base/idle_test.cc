#include "dataplane/base/idle.h"

#include <catch2/catch.hpp>

namespace peercache {
namespace {

using Step = IdleBackoff::Step;

TEST_CASE("idle: spin never sleeps", "[unit]") {
  IdleBackoff backoff(IdleOptions{.policy = IdlePolicy::kSpin});
  for (int i = 0; i < 1000; ++i) {
    CHECK(backoff.after_turn(0, std::chrono::seconds(i)) == Step::kPollAgain);
  }
}

TEST_CASE("idle: event sleeps after the first empty turn", "[unit]") {
  IdleBackoff backoff(IdleOptions{.policy = IdlePolicy::kEvent});
  CHECK(backoff.after_turn(1, Nanos(0)) == Step::kPollAgain);
  CHECK(backoff.after_turn(0, Nanos(0)) == Step::kSleep);
}

TEST_CASE("idle: hybrid spins, then pauses, then sleeps, and work starts it afresh", "[unit]") {
  IdleBackoff backoff(IdleOptions{.policy = IdlePolicy::kHybrid, .spin_us = 50, .pause_us = 200});
  const Nanos start = std::chrono::seconds(1);
  CHECK(backoff.after_turn(0, start) == Step::kPollAgain);
  CHECK(backoff.after_turn(0, start + std::chrono::microseconds(49)) == Step::kPollAgain);
  CHECK(backoff.after_turn(0, start + std::chrono::microseconds(50)) == Step::kPaused);
  CHECK(backoff.after_turn(0, start + std::chrono::microseconds(249)) == Step::kPaused);
  CHECK(backoff.after_turn(0, start + std::chrono::microseconds(250)) == Step::kSleep);
  CHECK(backoff.after_turn(3, start + std::chrono::microseconds(251)) == Step::kPollAgain);
  CHECK(backoff.after_turn(0, start + std::chrono::microseconds(252)) == Step::kPollAgain);
}

TEST_CASE("idle: after a time-out hybrid sleeps again at once, after a wake-up it spins",
          "[unit]") {
  IdleBackoff backoff(IdleOptions{.policy = IdlePolicy::kHybrid, .spin_us = 50, .pause_us = 200});
  static_cast<void>(backoff.after_turn(0, Nanos(0)));
  const Nanos later = std::chrono::milliseconds(1);
  REQUIRE(backoff.after_turn(0, later) == Step::kSleep);
  backoff.after_sleep(false);
  CHECK(backoff.after_turn(0, later * 2) == Step::kSleep);
  backoff.after_sleep(true);
  CHECK(backoff.after_turn(0, later * 3) == Step::kPollAgain);
}

}  // namespace
}  // namespace peercache
