#include <poll.h>

#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "dataplane/engine/client.h"
#include "tests/dataplane/engine/fake_rail.h"

namespace peercache {
namespace {

using test::ClientBench;
using test::FakeRail;

bool readable(int fd) {
  pollfd item{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&item, 1, 0) == 1;
}

// Turns of a rail in a thread of its own until stopped.
class RailThread {
 public:
  explicit RailThread(FakeRail& rail)
      : thread_([this, &rail] {
          while (!stop_.load(std::memory_order_relaxed)) {  // a flag; nothing is read through it
            rail.poll_once(Nanos(0));
            std::this_thread::yield();
          }
        }) {}
  ~RailThread() {
    stop_.store(true, std::memory_order_relaxed);  // as above
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("client: submit, poll and wait drive client-driven rails", "[unit]") {
  FakeRail local(0, true);
  FakeRail remote(1);
  ClientBench bench({&local, &remote});
  Client& client = *bench.client;
  local.automatic = true;
  const auto ops = bench.reads(10);
  Ticket ticket = client.submit(ops, bench.later()).value();
  CHECK(local.turns == 1);
  CHECK(local.order.size() == 10);
  remote.pull();
  CHECK(remote.held.empty());  // same host: all by the client's own rail
  CHECK(client.poll() == 10);
  client.release(ticket);

  local.automatic = false;
  ticket = client.submit(ops, bench.later()).value();
  CHECK_FALSE(client.arm_event());  // nobody else drives it
  local.automatic = true;
  const BatchResult result = client.wait(ticket, bench.later()).value();
  CHECK(result.done);
  CHECK(result.ok_count == 10);
  client.release(ticket);
  const uint32_t turns = local.turns;
  client.poll();
  CHECK(local.turns == turns);  // idle rails are left alone
}

TEST_CASE("client: after its time a wait cancels and returns only when all is quiet", "[unit]") {
  // Answers a cancel, as rails do, but only some turns later.
  class CancelledRail : public FakeRail {
   public:
    CancelledRail() : FakeRail(0, true) {}
    int poll_once(Nanos now) noexcept override {
      FakeRail::poll_once(now);
      if (cancels.empty() || ++delay < 100) {
        return 0;
      }
      return static_cast<int>(complete_all(OpStatus::kCancelled));
    }
    int delay = 0;
  };
  CancelledRail rail;
  ClientBench bench({&rail});
  const auto ops = bench.reads(2);
  const Ticket ticket = bench.client->submit(ops, bench.later()).value();
  const BatchResult result = bench.client->wait(ticket, bench.clock.now()).value();
  CHECK(result.done);
  CHECK(result.failed_count == 2);
  CHECK(bench.client->status(ticket, 0) == OpStatus::kCancelled);
  CHECK(rail.cancels.size() == 1);
  CHECK(rail.delay >= 100);  // it did not return before its memory was quiet
  bench.client->release(ticket);
}

TEST_CASE("client: fencing that takes longer than the grace is counted and waited for", "[unit]") {
  class SlowFence : public FakeRail {
   public:
    explicit SlowFence(ManualClock** clock_in) : FakeRail(0, true), clock(clock_in) {}
    int poll_once(Nanos now) noexcept override {
      FakeRail::poll_once(now);
      if (cancels.empty()) {
        return 0;
      }
      (*clock)->advance(Nanos(100'000'000));
      return ++turns_since < 5 ? 0 : static_cast<int>(complete_all(OpStatus::kCancelled));
    }
    ManualClock** clock;
    int turns_since = 0;
  };
  ManualClock* clock = nullptr;
  SlowFence rail(&clock);
  ClientBench bench({&rail});
  clock = &bench.clock;
  const auto ops = bench.reads(1);
  const Ticket ticket = bench.client->submit(ops, bench.later()).value();
  const BatchResult result = bench.client->wait(ticket, bench.clock.now()).value();
  CHECK(result.done);
  CHECK(bench.client->counters().fence_overruns.value() == 1);
  bench.client->release(ticket);
}

TEST_CASE("client: wait sleeps and is woken by the rail's thread", "[unit]") {
  for (const IdlePolicy policy : {IdlePolicy::kEvent, IdlePolicy::kHybrid, IdlePolicy::kSpin}) {
    FakeRail rail(0);
    rail.automatic = true;
    EngineOptions options;
    options.wait_idle.policy = policy;
    options.wait_sleep_ms_max = 10'000;  // a lost wake-up would run into the test's time-out
    ClientBench bench({&rail}, options);
    const RailThread thread(rail);
    for (int i = 0; i < 200; ++i) {
      const auto ops = bench.reads(3);
      const Ticket ticket = bench.client->submit(ops, bench.later()).value();
      const BatchResult result = bench.client->wait(ticket, bench.later()).value();
      CHECK(result.ok_count == 3);
      bench.client->release(ticket);
    }
  }
}

TEST_CASE("client: the event becomes readable when operations complete", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  const auto ops = bench.reads(2);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  rail.pull();
  REQUIRE(client.arm_event());
  CHECK_FALSE(readable(client.event_fd()));
  rail.complete(0, OpStatus::kOk);
  CHECK(readable(client.event_fd()));
  CHECK(client.poll() == 1);
  CHECK_FALSE(readable(client.event_fd()));
  rail.complete(0, OpStatus::kOk);
  CHECK_FALSE(readable(client.event_fd()));  // not armed
  CHECK_FALSE(client.arm_event());           // there is work already
  CHECK(client.poll() == 1);
  client.release(ticket);
}

}  // namespace peercache
