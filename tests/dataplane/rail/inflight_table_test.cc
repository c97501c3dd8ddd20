#include "dataplane/rail/inflight_table.h"

#include <cstdio>
#include <set>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "dataplane/rail/bounded_fifo.h"

using namespace peercache;

namespace {

template <class Fn>
bool aborts(Fn&& fn) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<void>(!std::freopen("/dev/null", "w", stderr));
    ::signal(SIGABRT, SIG_DFL);
    fn();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}  // namespace

TEST_CASE("inflight_table: every slot is given out once, the last one first again", "[unit]") {
  InflightTable table(8);
  OpRecord op{};
  std::set<uint16_t> taken;
  for (int i = 0; i < 8; ++i) {
    const uint16_t index = table.acquire();
    table[index].op = &op;
    table[index].phase = InflightPhase::kReady;
    CHECK(taken.insert(index).second);
    table.check_invariants();
  }
  CHECK(table.free_count() == 0);
  CHECK(aborts([&] { static_cast<void>(table.acquire()); }));
  table.release(5);
  CHECK(table.acquire() == 5);
}

TEST_CASE("inflight_table: a cookie names one posting; a second completion is a bug", "[unit]") {
  InflightTable table(4);
  OpRecord op{};
  const uint16_t index = table.acquire();
  InflightSlot& slot = table[index];
  slot.op = &op;
  slot.phase = InflightPhase::kReady;
  const uint64_t first = table.new_cookie(index);
  CHECK(aborts([&] { static_cast<void>(table.posted(first)); }));  // not posted yet
  slot.phase = InflightPhase::kData;
  CHECK(table.posted(first) == index);
  // The header READ of the same operation: the data's cookie is used up.
  slot.phase = InflightPhase::kHeader;
  const uint64_t second = table.new_cookie(index);
  CHECK(second != first);
  CHECK(table.posted(second) == index);
  CHECK(aborts([&] { static_cast<void>(table.posted(first)); }));
  table.release(index);
  CHECK(aborts([&] { static_cast<void>(table.posted(second)); }));
  CHECK(aborts([&] { table.release(index); }));
  // The slot's next life.
  CHECK(table.acquire() == index);
  slot.op = &op;
  slot.phase = InflightPhase::kData;
  const uint64_t third = table.new_cookie(index);
  CHECK(table.posted(third) == index);
  CHECK(aborts([&] { static_cast<void>(table.posted(second)); }));
  CHECK(aborts([&] { static_cast<void>(table.posted(999)); }));
}

TEST_CASE("bounded_fifo: keeps its order, at both ends and over the wrap", "[unit]") {
  BoundedFifo<int> fifo(4);
  for (int round = 0; round < 100; ++round) {
    fifo.push_back(1);
    fifo.push_back(2);
    fifo.push_front(0);
    CHECK(fifo.size() == 3);
    CHECK(fifo.front() == 0);
    CHECK(fifo.pop_front() == 0);
    CHECK(fifo.pop_front() == 1);
    CHECK(fifo.pop_front() == 2);
    CHECK(fifo.empty());
  }
  for (int i = 0; i < 4; ++i) {
    fifo.push_back(i);
  }
  CHECK(aborts([&] { fifo.push_back(4); }));
  CHECK(aborts([&] { fifo.push_front(4); }));
  fifo.remove_if([](int i) { return i % 2 == 0; });
  CHECK(fifo.pop_front() == 1);
  CHECK(fifo.pop_front() == 3);
  CHECK(fifo.empty());
}
