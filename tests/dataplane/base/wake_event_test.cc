#include "dataplane/base/wake_event.h"

#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "dataplane/base/clock.h"

namespace peercache {
namespace {

std::unique_ptr<WakeEvent> open_event() {
  Result<std::unique_ptr<WakeEvent>> event = WakeEvent::open();
  REQUIRE(event.has_value());
  return std::move(event).value();
}

TEST_CASE("wake event: without an announcement nothing is written", "[unit]") {
  const auto event = open_event();
  event->wake_if_sleeping();
  event->announce_sleep();
  const Nanos before = monotonic_now();
  event->sleep(std::chrono::milliseconds(20));
  CHECK(monotonic_now() - before >= std::chrono::milliseconds(19));
}

TEST_CASE("wake event: a wake-up before the sleep ends it at once, and only once", "[unit]") {
  const auto event = open_event();
  event->announce_sleep();
  event->wake_if_sleeping();
  const Nanos before = monotonic_now();
  event->sleep(std::chrono::seconds(20));
  CHECK(monotonic_now() - before < std::chrono::seconds(10));
  event->cancel_sleep();
  event->announce_sleep();
  const Nanos again = monotonic_now();
  event->sleep(std::chrono::milliseconds(20));
  CHECK(monotonic_now() - again >= std::chrono::milliseconds(19));
}

TEST_CASE("wake event: another descriptor ends the sleep too", "[unit]") {
  const auto event = open_event();
  const UniqueFd other(::eventfd(1, EFD_CLOEXEC));
  REQUIRE(static_cast<bool>(other));
  event->announce_sleep();
  const Nanos before = monotonic_now();
  event->sleep(std::chrono::seconds(20), other.get());
  CHECK(monotonic_now() - before < std::chrono::seconds(10));
}

TEST_CASE("wake event: a negative time-out does not sleep", "[unit]") {
  const auto event = open_event();
  event->announce_sleep();
  event->sleep(Nanos(-5));
  SUCCEED();
}

// A consumer that really sleeps, a producer that really writes: a lost wake-up shows as a sleep
// that times out while an item lies there. The time limit is the test's bound; the machine decides
// how many of the million fit.
TEST_CASE("wake event: up to a million hand-overs lose no wake-up", "[unit]") {
  constexpr uint64_t kItemsMax = 1'000'000;
  const auto event = open_event();
  std::atomic<uint64_t> pushed{0};
  std::atomic<uint64_t> taken{0};
  const Nanos end = monotonic_now() + std::chrono::seconds(3);
  std::atomic<bool> done{false};
  std::thread producer([&] {
    for (uint64_t item = 1; item <= kItemsMax && monotonic_now() < end; ++item) {
      pushed.store(item,
                   std::memory_order_relaxed);  // ordered by wake_if_sleeping alone, as under test
      event->wake_if_sleeping();
      while (taken.load(std::memory_order_relaxed) < item) {  // a hand-over at a time
        cpu_pause();
      }
    }
    done.store(true, std::memory_order_relaxed);  // wake orders it
    event->wake();
  });
  uint64_t lost = 0;
  while (!done.load(std::memory_order_relaxed)) {
    event->announce_sleep();
    const uint64_t seen =
        pushed.load(std::memory_order_relaxed);  // ordered by announce_sleep alone
    if (seen == taken.load(std::memory_order_relaxed) && !done.load(std::memory_order_relaxed)) {
      const Nanos before = monotonic_now();
      event->sleep(std::chrono::seconds(2));
      if (monotonic_now() - before >= std::chrono::seconds(2) &&
          pushed.load(std::memory_order_relaxed) != seen) {
        ++lost;
      }
    }
    event->cancel_sleep();
    taken.store(pushed.load(std::memory_order_relaxed),
                std::memory_order_relaxed);  // the producer waits for it
  }
  producer.join();
  INFO(pushed.load(std::memory_order_relaxed) << " hand-overs");
  CHECK(pushed.load(std::memory_order_relaxed) > 100);
  CHECK(lost == 0);
}

}  // namespace
}  // namespace peercache
