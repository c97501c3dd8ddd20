#include "dataplane/base/agent.h"

#include <atomic>
#include <cerrno>
#include <sys/resource.h>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

constexpr Nanos kWait = std::chrono::seconds(20);

// Answers each request once, and can be told to be slow.
// THREAD: poll_once by the agent's thread; the atomics by any.
class EchoAgent final : public Agent {
 public:
  int poll_once(Nanos /*now*/) noexcept override {
    polled.store(true, std::memory_order_relaxed);  // only ends a loop of the case
    const uint64_t wanted =
        requests.load(std::memory_order_relaxed);  // ordered by the wake-up, or polled again
    const uint64_t had = answers.load(std::memory_order_relaxed);  // its own
    const Nanos slow_until =
        monotonic_now() + Nanos(busy_ns.exchange(0, std::memory_order_relaxed));
    while (monotonic_now() < slow_until) {
    }
    answers.store(wanted, std::memory_order_relaxed);  // the case only waits for it
    return wanted == had ? 0 : 1;
  }
  bool prepare_sleep() noexcept override { return may_sleep; }
  [[nodiscard]] Nanos next_due(Nanos now) const noexcept override {
    return due_in == Nanos::max() ? due_in : now + due_in;
  }

  std::atomic<bool> polled{false};
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> answers{0};
  std::atomic<int64_t> busy_ns{0};
  bool may_sleep = true;
  Nanos due_in = Nanos::max();
};

std::unique_ptr<AgentThread> start(Agent& agent, AgentOptions options) {
  Result<std::unique_ptr<AgentThread>> thread = AgentThread::start(agent, std::move(options));
  REQUIRE(thread.has_value());
  return std::move(thread).value();
}

template <class Condition>
bool within_limit(Condition condition) {
  const Nanos deadline = monotonic_now() + kWait;
  while (!condition()) {
    if (monotonic_now() > deadline) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

TEST_CASE("agent: every idle policy answers requests and stops", "[unit]") {
  for (const IdlePolicy policy : {IdlePolicy::kSpin, IdlePolicy::kHybrid, IdlePolicy::kEvent}) {
    CAPTURE(to_string(policy));
    EchoAgent agent;
    const auto thread = start(agent, AgentOptions{.name = "echo", .idle = {.policy = policy}});
    for (uint64_t request = 1; request <= 200; ++request) {
      agent.requests.store(request, std::memory_order_relaxed);  // wake_if_sleeping orders it
      thread->wake_if_sleeping();
      REQUIRE(
          within_limit([&] { return agent.answers.load(std::memory_order_relaxed) == request; }));
    }
    thread->stop();
    thread->stop();
    CHECK(thread->busy_turns() <= 200);
    CHECK(thread->turns() >= thread->busy_turns());
  }
}

TEST_CASE("agent: an idle thread sleeps and stop wakes it", "[unit]") {
  EchoAgent agent;
  const auto thread =
      start(agent, AgentOptions{.idle = {.policy = IdlePolicy::kEvent}, .sleep_ms_max = 60'000});
  REQUIRE(within_limit([&] { return agent.polled.load(std::memory_order_relaxed); }));
  const Nanos before = monotonic_now();
  thread->stop();
  CHECK(monotonic_now() - before < kWait);
}

TEST_CASE("agent: a timer that is due ends the sleep", "[unit]") {
  EchoAgent agent;
  agent.due_in = std::chrono::milliseconds(2);
  const auto thread =
      start(agent, AgentOptions{.idle = {.policy = IdlePolicy::kEvent}, .sleep_ms_max = 60'000});
  CHECK(within_limit([&] { return thread->sleeps() >= 3; }));
}

TEST_CASE("agent: an agent that found work while preparing does not sleep", "[unit]") {
  EchoAgent agent;
  agent.may_sleep = false;
  const auto thread = start(agent, AgentOptions{.idle = {.policy = IdlePolicy::kEvent}});
  CHECK(within_limit([&] { return thread->turns() > 100; }));
  CHECK(thread->sleeps() == 0);
}

TEST_CASE("agent: a slow turn counts as a stall", "[unit]") {
  EchoAgent agent;
  agent.busy_ns.store(5'000'000, std::memory_order_relaxed);  // before the thread exists
  const auto thread =
      start(agent, AgentOptions{.idle = {.policy = IdlePolicy::kEvent}, .stall_ms = 1});
  CHECK(within_limit([&] { return thread->stalls() >= 1; }));
  CHECK(thread->turn_max() >= std::chrono::milliseconds(4));
}

TEST_CASE("agent: on_start runs on the new thread, and its error is start's", "[unit]") {
  EchoAgent agent;
  const Result<std::unique_ptr<AgentThread>> failed = AgentThread::start(
      agent, AgentOptions{.on_start = [] {
        return Result<void>(make_system_error(Errc::kPinRefused, EINVAL, "cpu {}", 99));
      }});
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code == Errc::kPinRefused);
  CHECK_FALSE(agent.polled.load(std::memory_order_relaxed));
  std::thread::id started_on;
  const auto thread =
      start(agent, AgentOptions{.idle = {.policy = IdlePolicy::kEvent}, .on_start = [&] {
                                  started_on = std::this_thread::get_id();
                                  return Result<void>();
                                }});
  CHECK(started_on != std::this_thread::get_id());
}

TEST_CASE("agent: the nice level is added to the new thread only", "[unit]") {
  EchoAgent agent;
  const int mine = ::getpriority(PRIO_PROCESS, 0);
  int its = mine;
  const auto thread =
      start(agent, AgentOptions{.idle = {.policy = IdlePolicy::kEvent}, .nice = 2, .on_start = [&] {
                                  its = ::getpriority(PRIO_PROCESS, 0);
                                  return Result<void>();
                                }});
  CHECK(its == std::min(mine + 2, 19));
  CHECK(::getpriority(PRIO_PROCESS, 0) == mine);
}

}  // namespace
}  // namespace peercache
