#include "dataplane/rail/rail_health.h"

#include <catch2/catch.hpp>

using namespace peercache;

namespace {

constexpr Nanos kMs{1'000'000};
constexpr PeerIndex kA{1};
constexpr PeerIndex kB{2};

RailHealth down_by_errors(Nanos now) {
  RailHealth health(RailOptions{});
  health.on_error(kA, 2, now);
  health.on_error(kB, 2, now);
  health.on_error(kA, 2, now);
  return health;
}

}  // namespace

TEST_CASE("rail_health: one error degrades, enough successes bring it up again", "[unit]") {
  RailHealth health(RailOptions{});
  CHECK(health.state() == RailState::kUp);
  health.on_error(kA, 2, Nanos(0));
  CHECK(health.state() == RailState::kDegraded);
  health.on_successes(31);
  CHECK(health.state() == RailState::kDegraded);
  health.on_successes(1);
  CHECK(health.state() == RailState::kUp);
}

TEST_CASE("rail_health: a success between errors keeps it from going down", "[unit]") {
  RailHealth health(RailOptions{});
  for (int i = 0; i < 100; ++i) {
    health.on_error(kA, 2, Nanos(0));
    health.on_error(kB, 2, Nanos(0));
    health.on_successes(1);
  }
  CHECK(health.state() == RailState::kDegraded);
}

TEST_CASE("rail_health: errors of one peer among several leave the rail degraded", "[unit]") {
  RailHealth health(RailOptions{});
  for (int i = 0; i < 100; ++i) {
    health.on_error(kA, 2, Nanos(0));
  }
  CHECK(health.state() == RailState::kDegraded);
  health.on_error(kB, 2, Nanos(0));
  CHECK(health.state() == RailState::kDown);
}

TEST_CASE("rail_health: errors of the only peer bring the rail down", "[unit]") {
  RailHealth health(RailOptions{});
  health.on_error(kA, 1, Nanos(0));
  health.on_error(kA, 1, Nanos(0));
  CHECK(health.state() == RailState::kDegraded);
  health.on_error(kA, 1, Nanos(0));
  CHECK(health.state() == RailState::kDown);
}

TEST_CASE("rail_health: probes come at growing pauses until one succeeds", "[unit]") {
  RailHealth health = down_by_errors(1'000 * kMs);
  Nanos now = 1'000 * kMs;
  for (const int pause_ms : {0, 100, 200, 400, 800, 1'600, 2'000, 2'000}) {
    CHECK(health.probe_due_at() == now + pause_ms * kMs);
    now += pause_ms * kMs;
    health.on_probe_posted(now);
    health.on_successes(100);  // stragglers prove nothing
    CHECK(health.state() == RailState::kDown);
  }
  health.on_probe_ok();
  CHECK(health.state() == RailState::kDegraded);
  CHECK(health.probe_due_at() == Nanos::max());
  health.on_successes(32);
  CHECK(health.state() == RailState::kUp);
}

TEST_CASE("rail_health: a rail that fails again before it is up waits longer", "[unit]") {
  RailHealth health = down_by_errors(Nanos(0));
  health.on_probe_posted(100 * kMs);
  health.on_probe_posted(200 * kMs);
  health.on_probe_ok();
  health.on_error(kA, 1, 300 * kMs);
  health.on_error(kA, 1, 300 * kMs);
  health.on_error(kA, 1, 300 * kMs);
  CHECK(health.state() == RailState::kDown);
  CHECK(health.probe_due_at() == 700 * kMs);
}

TEST_CASE("rail_health: a link that is down is not probed, one that comes up is at once",
          "[unit]") {
  RailHealth health(RailOptions{});
  health.on_link(false, 5 * kMs);
  CHECK(health.state() == RailState::kDown);
  CHECK(health.probe_due_at() == Nanos::max());
  health.on_probe_ok();
  CHECK(health.state() == RailState::kDown);
  health.on_link(true, 9 * kMs);
  CHECK(health.probe_due_at() == 9 * kMs);
  health.on_probe_ok();
  CHECK(health.state() == RailState::kDegraded);
}
