#include "dataplane/engine/engine.h"

#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/dataplane/engine/fake_rail.h"

namespace peercache {
namespace {

using test::ClientBench;
using test::FakeRail;

struct EngineBench {
  explicit EngineBench(uint32_t clients, bool client_rails = true) {
    EngineRails rails;
    rails.shared.push_back(std::make_unique<FakeRail>(uint16_t{0}));
    shared = static_cast<FakeRail*>(rails.shared[0].get());
    if (client_rails) {
      for (uint32_t i = 0; i < clients; ++i) {
        rails.of_client.emplace_back();
        rails.of_client.back().push_back(std::make_unique<FakeRail>(uint16_t{1}, true));
        local.push_back(static_cast<FakeRail*>(rails.of_client.back()[0].get()));
      }
    }
    EngineOptions options;
    options.client_count = clients;
    peer = peers->add(ClientBench::peer_info(1)).value();
    peers->set_state(peer, PeerState::kUp);
    engine = Engine::open(options, std::move(rails), *peers, Clock{}).value();
  }
  std::unique_ptr<PeerDirectory> peers = std::make_unique<PeerDirectory>();
  PeerIndex peer{0};
  FakeRail* shared = nullptr;
  std::vector<FakeRail*> local;
  std::unique_ptr<Engine> engine;
};

}  // namespace

TEST_CASE("engine: the client given back last is lent first", "[unit]") {
  EngineBench bench(3);
  Engine& engine = *bench.engine;
  Client* first = engine.lease(Nanos(0)).value();
  Client* second = engine.lease(Nanos(0)).value();
  CHECK(first->index() == ClientIndex(0));
  CHECK(second->index() == ClientIndex(1));
  CHECK(engine.stats().leased_count == 2);
  engine.give_back(*first);
  CHECK(engine.lease(Nanos(0)).value() == first);
  engine.give_back(*second);
  engine.give_back(*first);
  CHECK(engine.stats().leased_count == 0);
  CHECK(engine.stats().leases_count == 3);
  CHECK(test::aborts([&] { engine.give_back(*first); }));
}

TEST_CASE("engine: with all clients lent a lease says busy at its deadline", "[unit]") {
  EngineBench bench(1);
  Engine& engine = *bench.engine;
  Client* only = engine.lease(Nanos(0)).value();
  const auto refused = engine.lease(Clock{}.now() + Nanos(1'000'000));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::kBusy);
  CHECK(refused.error().values[0] == 1);
  CHECK(engine.stats().lease_busy_count == 1);
  engine.give_back(*only);
}

TEST_CASE("engine: a waiting lease gets the client that comes back", "[unit]") {
  EngineBench bench(1);
  Engine& engine = *bench.engine;
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&engine] {
      for (int i = 0; i < 200; ++i) {
        const auto client = engine.lease(Clock{}.now() + Nanos(50'000'000'000));
        PC_ASSERT(client.has_value());
        std::this_thread::yield();
        engine.give_back(**client);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(engine.stats().leases_count == 800);
  CHECK(engine.stats().lease_busy_count == 0);
}

TEST_CASE("engine: each client has its own rail and all share the others", "[unit]") {
  EngineBench bench(2);
  Engine& engine = *bench.engine;
  ClientBench ops_of({});
  Client* a = engine.lease(Nanos(0)).value();
  Client* b = engine.lease(Nanos(0)).value();
  const auto ops = ops_of.reads(4);
  const Nanos deadline = Clock{}.now() + Nanos(10'000'000'000);
  const Ticket local = a->submit(ops, deadline).value();
  CHECK(bench.local[0]->held.size() == 4);
  bench.local[1]->pull();
  CHECK(bench.local[1]->held.empty());
  bench.local[1]->set_reaches(bench.peer, false);
  const Ticket remote = b->submit(ops, deadline).value();
  bench.shared->pull();
  CHECK(bench.shared->held.size() == 4);
  bench.local[0]->complete_all(OpStatus::kOk);
  bench.shared->complete_all(OpStatus::kOk);
  CHECK(a->poll() == 4);
  CHECK(b->poll() == 4);
  a->release(local);
  b->release(remote);
  const EngineStats stats = engine.stats();
  CHECK(stats.clients.operations_count == 8);
  CHECK(stats.clients.ok_count == 8);
  CHECK(stats.clients.bytes_count == 8 * 4096);
  CHECK(stats.rail_count == 1);
  engine.give_back(*a);
  engine.give_back(*b);
}

TEST_CASE("engine: impossible counts are refused", "[unit]") {
  const auto peers = std::make_unique<PeerDirectory>();
  EngineOptions options;
  options.client_count = 0;
  CHECK(Engine::open(options, {}, *peers, Clock{}).error().code == Errc::kOutOfRange);
  options.client_count = limits::kClientsMax + 1;
  CHECK(Engine::open(options, {}, *peers, Clock{}).error().code == Errc::kOutOfRange);
  options.client_count = 2;
  EngineRails rails;
  rails.of_client.resize(1);
  CHECK(Engine::open(options, std::move(rails), *peers, Clock{}).error().code ==
        Errc::kInvalidArgument);
}

}  // namespace peercache
