#include "controlplane/rpc/rpc_loop.h"

#include <chrono>
#include <memory>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/base/clock.h"
#include "dataplane/base/unique_handle.h"

namespace peercache {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void signal(int fd) {
  const uint64_t one = 1;
  REQUIRE(::write(fd, &one, sizeof(one)) == sizeof(one));
}

void consume(int fd) {
  uint64_t count = 0;
  REQUIRE(::read(fd, &count, sizeof(count)) == sizeof(count));
}

TEST_CASE("rpc_loop: does nothing when there is nothing, and sleeps as long as it is told",
          "[unit]") {
  const auto loop = *RpcLoop::open();
  REQUIRE(loop->poll_once() == 0);
  const Nanos begin = monotonic_now();
  REQUIRE(loop->run_for(milliseconds(30)) == 0);
  REQUIRE(monotonic_now() - begin >= milliseconds(29));
  REQUIRE(loop->run_for(Nanos(-1)) == 0);
}

TEST_CASE("rpc_loop: timers fire once, in order, unless cancelled", "[unit]") {
  const auto loop = *RpcLoop::open();
  std::vector<int> fired;
  loop->start_timer(milliseconds(20), [&] { fired.push_back(2); });
  loop->start_timer(milliseconds(1), [&] { fired.push_back(1); });
  const TimerId cancelled = loop->start_timer(milliseconds(5), [&] { fired.push_back(9); });
  loop->cancel_timer(cancelled);
  loop->cancel_timer(cancelled);
  const Nanos end = monotonic_now() + seconds(10);
  while (fired.size() < 2 && monotonic_now() < end) loop->run_for(milliseconds(50));
  REQUIRE(fired == std::vector<int>{1, 2});
  REQUIRE(loop->run_for(milliseconds(1)) == 0);
}

TEST_CASE("rpc_loop: a timer that is cancelled after it was due does not fire", "[unit]") {
  const auto loop = *RpcLoop::open();
  bool fired = false;
  const TimerId timer = loop->start_timer(Nanos(0), [&] { fired = true; });
  loop->cancel_timer(timer);
  loop->poll_once();
  REQUIRE_FALSE(fired);
}

TEST_CASE("rpc_loop: other threads post and wake", "[unit]") {
  const auto loop = *RpcLoop::open();
  int ran = 0;
  const Nanos begin = monotonic_now();
  std::thread other([&] {
    loop->post([&] { ++ran; });
    loop->wake();
  });
  while (ran == 0) loop->run_for(seconds(10));
  other.join();
  REQUIRE(ran == 1);
  REQUIRE(monotonic_now() - begin < seconds(9));
  loop->run_for(Nanos(0));
  loop->wake();  // before the sleep: it does not last
  loop->run_for(seconds(10));
  REQUIRE(monotonic_now() - begin < seconds(9));
}

TEST_CASE("rpc_loop: a watched eventfd calls back as long as it is readable", "[unit]") {
  const auto loop = *RpcLoop::open();
  const UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int calls = 0;
  const Result<WatchId> watch = loop->watch_fd(fd.get(), [&] {
    // Not consumed at the first call: level-triggered, it comes again.
    if (++calls > 1) consume(fd.get());
  });
  REQUIRE(watch.has_value());
  REQUIRE(loop->poll_once() == 0);
  signal(fd.get());
  while (calls < 2) loop->run_for(seconds(1));
  REQUIRE(loop->run_for(milliseconds(1)) == 0);
  signal(fd.get());
  while (calls < 3) loop->run_for(seconds(1));
  loop->unwatch(*watch);
  loop->unwatch(*watch);
  signal(fd.get());  // still open: it is ours
  loop->run_for(milliseconds(1));
  REQUIRE(calls == 3);
}

TEST_CASE("rpc_loop: an epoll descriptor can be watched, and unwatched from its callback",
          "[unit]") {
  const auto loop = *RpcLoop::open();
  const UniqueFd inner(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  REQUIRE(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, inner.get(), &event) == 0);
  int calls = 0;
  WatchId watch{};
  watch = *loop->watch_fd(epoll.get(), [&] {
    ++calls;
    loop->unwatch(watch);
  });
  signal(inner.get());
  while (calls == 0) loop->run_for(seconds(1));
  loop->run_for(milliseconds(1));
  REQUIRE(calls == 1);
}

TEST_CASE("rpc_loop: a descriptor that cannot be watched is an error", "[unit]") {
  const auto loop = *RpcLoop::open();
  REQUIRE(loop->watch_fd(-1, [] {}).error().code == Errc::kSystem);
}

}  // namespace
}  // namespace peercache
