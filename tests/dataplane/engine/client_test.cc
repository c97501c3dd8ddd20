#include "dataplane/engine/client.h"

#include <catch2/catch.hpp>

#include "tests/dataplane/engine/fake_rail.h"

namespace peercache {
namespace {

using test::ClientBench;
using test::FakeRail;

}  // namespace

TEST_CASE("client: a batch goes through a rail and comes back by operation", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  const auto ops = bench.reads(3);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  client.check_invariants();
  CHECK(client.busy());
  CHECK_FALSE(client.result(ticket)->done);
  rail.pull();
  REQUIRE(rail.held.size() == 3);
  const OpRecord& record = *rail.held[1].record;
  CHECK(record.target.slot == SlotIndex(1));
  CHECK(record.length_bytes == 4096);
  CHECK(record.headers_region == ClientBench::kHeaders);
  CHECK(record.piece_count == 1);
  CHECK(record.op_index == 1);
  CHECK(record.deadline_at == bench.later());
  CHECK(client.poll() == 0);
  rail.complete(1, OpStatus::kOk);
  rail.complete(0, OpStatus::kStale);
  CHECK(client.poll() == 2);
  client.check_invariants();
  CHECK(client.status(ticket, 0) == OpStatus::kStale);
  CHECK(client.status(ticket, 1) == OpStatus::kOk);
  CHECK(client.status(ticket, 2) == OpStatus::kPending);
  rail.complete_all(OpStatus::kDeadline);
  CHECK(client.poll() == 1);
  const BatchResult result = client.result(ticket).value();
  CHECK(result.done);
  CHECK(result.total_count == 3);
  CHECK(result.ok_count == 1);
  CHECK(result.failed_count == 2);
  CHECK_FALSE(client.busy());
  client.release(ticket);
  client.check_invariants();
  CHECK(client.result(ticket).error().code == Errc::kStaleTicket);
  CHECK(client.wait(ticket, bench.later()).error().code == Errc::kStaleTicket);
  CHECK(client.counters().operations.value() == 3);
  CHECK(client.counters().ok.value() == 1);
  CHECK(client.counters().bytes.value() == 4096);
  CHECK(client.counters().stale.value() == 1);
  CHECK(client.counters().deadline.value() == 1);
}

TEST_CASE("client: a bad operation refuses the whole batch and posts nothing", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  auto ops = bench.reads(5);
  ops[3].target.length_bytes = 1;
  const auto refused = client.submit(ops, bench.later());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::kPieceSumMismatch);
  CHECK(refused.error().values[0] == 3);
  rail.pull();
  CHECK(rail.held.empty());
  CHECK_FALSE(client.busy());
  CHECK(client.counters().refused.value() == 1);
  CHECK(client.submit({}, bench.later()).error().code == Errc::kEmptyOperation);
  const auto many = bench.reads(limits::kBatchOpsMax + 1, 64);
  const auto too_large = client.submit(many, bench.later());
  CHECK(too_large.error().code == Errc::kBatchTooLarge);
  CHECK(too_large.error().values[0] == limits::kBatchOpsMax + 1);
  client.check_invariants();
}

TEST_CASE("client: records and tickets run out with their own errors", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  const auto full = bench.reads(limits::kBatchOpsMax, 64);
  const Ticket first = client.submit(full, bench.later()).value();
  const Ticket second = client.submit(full, bench.later()).value();
  const auto one = bench.reads(1);
  const auto no_records = client.submit(one, bench.later());
  CHECK(no_records.error().code == Errc::kRingFull);
  CHECK(no_records.error().values[1] == 0);
  client.check_invariants();
  while (client.busy()) {
    rail.pull();
    rail.complete_all(OpStatus::kOk);
    client.poll();
  }
  client.check_invariants();
  CHECK(client.result(first)->ok_count == limits::kBatchOpsMax);
  client.release(first);
  client.release(second);

  std::vector<Ticket> tickets;
  for (size_t i = 0; i < limits::kTicketsPerClient; ++i) {
    tickets.push_back(client.submit(one, bench.later()).value());
  }
  CHECK(client.submit(one, bench.later()).error().code == Errc::kNoTicket);
  rail.pull();
  rail.complete_all(OpStatus::kOk);
  CHECK(client.poll() == static_cast<int>(limits::kTicketsPerClient));
  for (const Ticket ticket : tickets) {
    client.release(ticket);
  }
  client.check_invariants();
}

TEST_CASE("client: what does not fit a lane waits in order and is not lost", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  const auto ops = bench.reads(limits::kLaneEntries + 700);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  client.check_invariants();
  CHECK(rail.lane(0).requests.size_approx() == limits::kLaneEntries);
  uint32_t done = 0;
  while (client.busy()) {
    rail.pull(100);
    rail.complete_all(OpStatus::kOk);
    done += static_cast<uint32_t>(client.poll());
    client.check_invariants();
  }
  CHECK(done == ops.size());
  REQUIRE(rail.order.size() == ops.size());
  CHECK(std::is_sorted(rail.order.begin(), rail.order.end()));
  client.release(ticket);
}

TEST_CASE("client: nothing is posted towards a peer that is gone, absent or suspect", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  const PeerIndex gone = bench.add_peer(2);
  const PeerIndex suspect = bench.add_peer(3);
  bench.peers->set_state(gone, PeerState::kGone);
  bench.peers->set_state(suspect, PeerState::kSuspect);
  auto ops = bench.reads(4);
  ops[0].peer = gone;
  ops[1].peer = suspect;
  ops[2].peer = PeerIndex(500);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  rail.pull();
  CHECK(rail.held.size() == 1);
  CHECK(client.status(ticket, 0) == OpStatus::kPeerLost);
  CHECK(client.status(ticket, 1) == OpStatus::kPeerSuspect);
  CHECK(client.status(ticket, 2) == OpStatus::kPeerLost);
  CHECK_FALSE(client.arm_event());  // something can be collected already
  CHECK(client.poll() == 3);
  rail.complete_all(OpStatus::kOk);
  CHECK(client.poll() == 1);
  CHECK(client.counters().peer_lost.value() == 3);
  client.release(ticket);
}

TEST_CASE("client: an operation that no rail can carry ends at once", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  rail.set_reaches(bench.peer, false);
  const auto ops = bench.reads(1);
  Ticket ticket = client.submit(ops, bench.later()).value();
  CHECK(client.status(ticket, 0) == OpStatus::kNoRail);
  client.release(ticket);
  rail.set_reaches(bench.peer, true);
  ticket = client.submit(ops, bench.clock.now()).value();  // the deadline is now
  CHECK(client.status(ticket, 0) == OpStatus::kDeadline);
  client.release(ticket);
  rail.pull();
  CHECK(rail.held.empty());
}

TEST_CASE("client: a backlog ends by deadline, by cancel and by the loss of its peer", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  const PeerIndex other = bench.add_peer(2);
  const auto fill = bench.reads(limits::kLaneEntries);
  const Ticket filler = client.submit(fill, bench.clock.now() + Nanos(10'000'000'000)).value();
  const auto few = bench.reads(3);
  auto lost = bench.reads(3);
  for (Op& op : lost) {
    op.peer = other;
  }
  const Ticket late = client.submit(few, bench.clock.now() + Nanos(5'000'000)).value();
  const Ticket cancelled = client.submit(few, bench.later()).value();
  const Ticket gone = client.submit(lost, bench.later()).value();
  client.check_invariants();
  client.cancel(cancelled);
  client.check_invariants();
  CHECK(client.result(cancelled)->done);
  CHECK(client.status(cancelled, 2) == OpStatus::kCancelled);
  CHECK(client.poll() == 3);
  bench.peers->set_state(other, PeerState::kGone);
  bench.clock.advance(Nanos(6'000'000));
  CHECK(client.poll() == 6);
  CHECK(client.status(late, 0) == OpStatus::kDeadline);
  CHECK(client.status(gone, 0) == OpStatus::kPeerLost);
  client.check_invariants();
  rail.pull();
  CHECK(rail.held.size() == limits::kLaneEntries);
  rail.complete_all(OpStatus::kOk);
  client.poll();
  for (const Ticket ticket : {filler, late, cancelled, gone}) {
    CHECK(client.result(ticket)->done);
    client.release(ticket);
  }
}

TEST_CASE("client: a cancel reaches each rail that has operations, after them", "[unit]") {
  FakeRail first(0);
  FakeRail second(1);
  FakeRail idle(2);
  ClientBench bench({&first, &second, &idle});
  Client& client = *bench.client;
  idle.set_reaches(bench.peer, false);
  const auto ops = bench.reads(4);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  client.cancel(ticket);
  client.cancel(ticket);  // once is enough
  for (FakeRail* rail : {&first, &second}) {
    rail->pull();
    CHECK(rail->held.size() == 2);
    REQUIRE(rail->cancels.size() == 1);
    CHECK(rail->cancels[0].cancel_ticket_index == ticket.index);
    CHECK(rail->cancels[0].cancel_ticket_generation_id == ticket.generation_id);
  }
  idle.pull();
  CHECK(idle.cancels.empty());
  first.complete(0, OpStatus::kOk);  // true outcome
  first.complete_all(OpStatus::kCancelled);
  second.complete(0, OpStatus::kFlushed);  // not posted again
  second.complete_all(OpStatus::kTransportError);
  CHECK(client.poll() == 4);
  CHECK(client.result(ticket)->done);
  CHECK(client.counters().ok.value() == 1);
  CHECK(client.counters().cancelled.value() == 2);
  CHECK(client.counters().failed.value() == 1);
  CHECK(client.counters().retried.value() == 0);
  client.check_invariants();
  client.release(ticket);
}

TEST_CASE("client: a cancel that finds the lane full is delivered later", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  const auto ops = bench.reads(limits::kLaneEntries);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  client.cancel(ticket);
  client.check_invariants();
  rail.pull();
  CHECK(rail.cancels.empty());
  client.poll();
  rail.pull();
  CHECK(rail.cancels.size() == 1);
  rail.complete_all(OpStatus::kCancelled);
  CHECK(client.poll() == static_cast<int>(limits::kLaneEntries));
  client.poll();
  rail.pull();
  CHECK(rail.cancels.size() == 1);
  client.check_invariants();
  client.release(ticket);
}

TEST_CASE("client: an operation that comes back twice, or too late, is a bug", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  const auto ops = bench.reads(2);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  rail.pull();
  OpRecord* record = rail.held[0].record;
  Lane* lane = rail.held[0].lane;
  rail.complete(0, OpStatus::kOk);
  CHECK(client.poll() == 1);
  CHECK(test::aborts([&] {
    PC_ASSERT(lane->completions.push(record));
    client.poll();
  }));
  CHECK(test::aborts([&] { client.release(ticket); }));       // not done
  CHECK(test::aborts([&] { bench.client.reset(); }));         // busy
  CHECK(test::aborts([&] { static_cast<void>(client.status(ticket, 2)); }));
  rail.complete_all(OpStatus::kOk);
  client.poll();
  client.release(ticket);
  CHECK(test::aborts([&] { client.release(ticket); }));
  CHECK(test::aborts([&] { static_cast<void>(client.status(ticket, 0)); }));
}

TEST_CASE("client: the header of a good read can be looked at until the release", "[unit]") {
  FakeRail rail(0);
  ClientBench bench({&rail});
  Client& client = *bench.client;
  const auto ops = bench.reads(1);
  const Ticket ticket = client.submit(ops, bench.later()).value();
  rail.pull();
  rail.held[0].record->landing.layout_digest_id = 77;
  rail.complete_all(OpStatus::kOk);
  client.poll();
  CHECK(client.header(ticket, 0).layout_digest_id == 77);
  client.release(ticket);
}

TEST_CASE("client: options and indices out of range are refused", "[unit]") {
  const auto peers = std::make_unique<PeerDirectory>();
  const auto open = [&](uint16_t index, const EngineOptions& options, size_t rails) {
    std::vector<std::unique_ptr<FakeRail>> owned;
    std::vector<RailHandle*> handles;
    for (size_t i = 0; i < rails; ++i) {
      owned.push_back(std::make_unique<FakeRail>(static_cast<uint16_t>(i)));
      handles.push_back(owned.back().get());
    }
    auto client = Client::open(ClientIndex(index), options, handles, *peers, Clock{});
    return client ? Errc{} : client.error().code;
  };
  CHECK(open(limits::kClientsMax, {}, 1) == Errc::kOutOfRange);
  CHECK(open(0, {}, limits::kRailsMax + 1) == Errc::kOutOfRange);
  EngineOptions options;
  options.verify = VerifyReads::kSampled;
  options.verify_sample_reads_count = 0;
  CHECK(open(0, options, 1) == Errc::kBadValue);
  CHECK(open(0, {}, limits::kRailsMax) == Errc{});
}

}  // namespace peercache
