#include <catch2/catch.hpp>

#include "dataplane/engine/client.h"
#include "tests/dataplane/engine/fake_rail.h"

namespace peercache {
namespace {

using test::ClientBench;
using test::FakeRail;

}  // namespace

TEST_CASE("client: a failed operation is retried once, on another rail", "[unit]") {
  for (const OpStatus failure : {OpStatus::kTransportError, OpStatus::kNoRail}) {
    FakeRail first(0);
    FakeRail second(1);
    ClientBench bench({&first, &second});
    Client& client = *bench.client;
    const auto ops = bench.reads(1);
    const Ticket ticket = client.submit(ops, bench.later()).value();
    first.pull();
    REQUIRE(first.held.size() == 1);
    first.complete(0, failure);
    CHECK(client.poll() == 0);
    client.check_invariants();
    CHECK(client.status(ticket, 0) == OpStatus::kPending);
    first.pull();
    second.pull();
    CHECK(first.held.empty());
    REQUIRE(second.held.size() == 1);
    CHECK(second.held[0].record->attempt_count == 1);
    CHECK(second.held[0].record->rail == RailIndex(1));
    CHECK(client.counters().retried.value() == 1);
    second.complete(0, failure);
    CHECK(client.poll() == 1);
    CHECK(client.status(ticket, 0) == failure);
    first.pull();
    CHECK(first.held.empty());
    client.check_invariants();
    client.release(ticket);
  }
}

TEST_CASE("client: without a second rail a failure is final", "[unit]") {
  FakeRail first(0);
  FakeRail second(1);
  ClientBench bench({&first, &second});
  Client& client = *bench.client;
  second.set_reaches(bench.peer, false);
  const auto ops = bench.reads(1);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  first.pull();
  first.complete(0, OpStatus::kTransportError);
  CHECK(client.poll() == 1);
  CHECK(client.status(ticket, 0) == OpStatus::kTransportError);
  first.pull();
  CHECK(first.held.empty());
  client.release(ticket);
}

TEST_CASE("client: a flushed operation is posted again without counting", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  const auto ops = bench.reads(1);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  for (int i = 0; i < 5; ++i) {
    rail.pull();
    REQUIRE(rail.held.size() == 1);
    CHECK(rail.held[0].record->attempt_count == 0);
    rail.complete(0, OpStatus::kFlushed);
    CHECK(client.poll() == 0);
    client.check_invariants();
  }
  rail.pull();
  rail.complete(0, OpStatus::kFlushed);
  bench.clock.advance(Nanos(2'000'000'000));  // past the batch's deadline
  CHECK(client.poll() == 1);
  CHECK(client.status(ticket, 0) == OpStatus::kDeadline);
  CHECK(client.counters().retried.value() == 0);
  client.release(ticket);
}

TEST_CASE("client: a flush during the retry does not go back to the rail that failed", "[unit]") {
  FakeRail first(0);
  FakeRail second(1);
  ClientBench bench({&first, &second});
  Client& client = *bench.client;
  const auto ops = bench.reads(1);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  first.pull();
  first.complete(0, OpStatus::kTransportError);
  client.poll();
  second.pull();
  second.complete(0, OpStatus::kFlushed);
  CHECK(client.poll() == 0);
  second.pull();
  REQUIRE(second.held.size() == 1);
  second.complete(0, OpStatus::kFlushed);
  second.rail_state = RailState::kDown;
  CHECK(client.poll() == 1);
  CHECK(client.status(ticket, 0) == OpStatus::kTransportError);  // the failure, not the flush
  first.pull();
  CHECK(first.held.empty());
  client.release(ticket);
}

TEST_CASE("client: a retry may go to a suspect, but not to a peer that is gone", "[unit]") {
  for (const PeerState state : {PeerState::kSuspect, PeerState::kGone}) {
    FakeRail first(0);
    FakeRail second(1);
    ClientBench bench({&first, &second});
    Client& client = *bench.client;
    const auto ops = bench.reads(1);
    const Ticket ticket = client.submit(ops, bench.later()).value();
    first.pull();
    first.complete(0, OpStatus::kTransportError);
    bench.peers->set_state(bench.peer, state);
    client.poll();
    second.pull();
    if (state == PeerState::kSuspect) {
      REQUIRE(second.held.size() == 1);
      second.complete_all(OpStatus::kOk);
      client.poll();
      CHECK(client.status(ticket, 0) == OpStatus::kOk);
    } else {
      CHECK(second.held.empty());
      CHECK(client.status(ticket, 0) == OpStatus::kPeerLost);
    }
    client.release(ticket);
  }
}

TEST_CASE("client: a timeout, a lost peer and a wrong bound are not retried", "[unit]") {
  FakeRail first(0);
  FakeRail second(1);
  ClientBench bench({&first, &second});
  Client& client = *bench.client;
  for (const OpStatus status : {OpStatus::kDeadline, OpStatus::kPeerLost, OpStatus::kOutOfBounds,
                                OpStatus::kStale, OpStatus::kCancelled}) {
    const auto ops = bench.reads(1);
    const Ticket ticket = client.submit(ops, bench.later()).value();
    first.pull();
    second.pull();
    first.complete_all(status);
    second.complete_all(status);
    CHECK(client.poll() == 1);
    CHECK(client.status(ticket, 0) == status);
    client.release(ticket);
  }
}

TEST_CASE("client: a slow rail gets less of one large batch", "[unit]") {
  FakeRail fast(0);
  FakeRail slow(1);
  EngineOptions options;
  options.lane_window_bytes = 64 * 4096;
  ClientBench bench({&fast, &slow}, options);
  Client& client = *bench.client;
  const auto ops = bench.reads(4000);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  uint32_t by_fast = 0;
  uint32_t by_slow = 0;
  while (client.busy()) {
    fast.pull();
    slow.pull();
    for (int i = 0; i < 40 && !fast.held.empty(); ++i, ++by_fast) {
      fast.complete(0, OpStatus::kOk);
    }
    for (int i = 0; i < 10 && !slow.held.empty(); ++i, ++by_slow) {
      slow.complete(0, OpStatus::kOk);
    }
    client.poll();
    client.check_invariants();
  }
  CHECK(by_fast + by_slow == 4000);
  CHECK(by_slow < 4000 / 4);
  CHECK(by_slow > 4000 / 8);
  client.release(ticket);
}

TEST_CASE("client: a rail that comes back is used again", "[unit]") {
  FakeRail first(0);
  FakeRail second(1);
  ClientBench bench({&first, &second});
  Client& client = *bench.client;
  first.automatic = second.automatic = true;
  const auto carried_by_first = [&] {
    const size_t before = first.order.size();
    const auto ops = bench.reads(100);
    const Ticket ticket = client.submit(ops, bench.later()).value();
    first.poll_once(Nanos(0));
    second.poll_once(Nanos(0));
    CHECK(client.poll() == 100);
    CHECK(client.result(ticket)->ok_count == 100);
    client.release(ticket);
    return first.order.size() - before;
  };
  CHECK(carried_by_first() == 50);
  first.rail_state = RailState::kDown;
  CHECK(carried_by_first() == 0);
  first.rail_state = RailState::kUp;
  CHECK(carried_by_first() == 50);
}

TEST_CASE("client: other clients' bytes count for the choice of a rail", "[unit]") {
  FakeRail busy(0);
  FakeRail idle(1);
  ClientBench bench({&busy, &idle});
  Client& client = *bench.client;
  busy.bytes_in_flight = 100 * 4096;
  const auto ops = bench.reads(50);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  busy.pull();
  idle.pull();
  CHECK(busy.held.empty());
  CHECK(idle.held.size() == 50);
  idle.complete_all(OpStatus::kOk);
  client.poll();
  client.release(ticket);
}

}  // namespace peercache
