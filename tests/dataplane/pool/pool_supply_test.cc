// Free slots: who gets them, when, and in which order.
#include <catch2/catch.hpp>

#include "tests/dataplane/pool/pool_harness.h"

namespace peercache {
namespace {

using test::key_of;
using test::PoolHarness;
using test::small_options;

TEST_CASE("pool: an abandoned slot serves the next", "[unit]") {
  PoolHarness pool(16384, small_options());
  for (uint64_t round = 1; round <= 20; ++round) {
    const auto grant = pool.take(0, 4096);
    REQUIRE(grant.has_value());
    if (round % 2 == 0) {
      pool.fill(0, *grant, key_of(round), 4096);
    }
    pool.client(0).abandon(*grant);
    pool.step();
  }
  REQUIRE(pool.stats().evicted_count == 0);
  for (uint64_t i = 1; i <= 4; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  REQUIRE(pool.stats().objects_count == 4);
}

TEST_CASE("pool: slots are reused oldest first", "[unit]") {
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  std::vector<SlotIndex> removed;
  for (const uint64_t i : {9, 3, 14, 5}) {
    removed.push_back(pool.find(key_of(i)).locations[0].slot);
    const Key128 key = key_of(i);
    REQUIRE(pool.client(0).remove(std::span(&key, 1)).has_value());
    pool.pool().poll_once(pool.clock.now());
  }
  for (uint64_t i = 0; i < removed.size(); ++i) {
    REQUIRE(pool.put(0, key_of(100 + i), 4096));
    REQUIRE(pool.find(key_of(100 + i)).locations[0].slot == removed[i]);
  }
}

TEST_CASE("pool: eight clients, sixteen slots: one of them can still fill all", "[unit]") {
  PoolHarness pool(65536, small_options(8));
  const SizeClassIndex size_class = pool.class_of(4096);
  for (uint32_t client = 0; client < 8; ++client) {
    pool.client(client).announce(size_class, 16);
    pool.settle();
    pool.client(client).announce(size_class,
                                 0);  // everything was held elsewhere: nothing was taken
    pool.settle();
  }
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(5, key_of(i), 4096));
  }
  REQUIRE(pool.stats().objects_count == 16);
  REQUIRE(pool.stats().evicted_count == 0);
}

TEST_CASE("pool: clients that went silent in the middle of a call give up their slots in the end",
          "[unit]") {
  PoolHarness pool(65536, small_options(4));
  const SizeClassIndex size_class = pool.class_of(4096);
  for (uint32_t client = 1; client < 4; ++client) {
    pool.client(client).announce(size_class, 5);
    pool.settle();
  }
  uint64_t stored = 0;
  while (stored < 16 && pool.put(0, key_of(stored + 1), 4096)) {
    ++stored;
    if (pool.stats().evicted_count > 0) {
      break;
    }
  }
  REQUIRE(pool.stats().objects_count == 1);  // 15 slots are spoken for
  pool.clock.advance(std::chrono::seconds(6));
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(100 + i), 4096));
  }
  REQUIRE(pool.stats().objects_count == 16);
}

TEST_CASE("pool: what the last call wanted is ready before the next one asks", "[unit]") {
  // 2,048 slots: 3 % of them may wait by eviction, 64.
  PoolHarness pool(2048 * 1024, small_options());
  const SizeClassIndex size_class = pool.class_of(1024);
  uint64_t number = 0;
  for (int call = 0; call < 60; ++call) {
    pool.client(0).announce(size_class, 50);
    pool.settle();
    const uint64_t starved_before = pool.stats().starved_count;
    for (int i = 0; i < 50; ++i) {
      ++number;
      const auto grant = pool.client(0).take(size_class);  // no turn of the agent in between
      REQUIRE(grant.has_value());
      const Generation generation = pool.fill(0, *grant, key_of(number), 1024);
      REQUIRE(pool.publish(0, *grant, generation, key_of(number), 1024, {}).has_value());
    }
    pool.client(0).announce(size_class, 0);
    pool.settle();
    REQUIRE(pool.stats().starved_count == starved_before);
  }
  REQUIRE(pool.stats().evicted_count > 0);
  REQUIRE(pool.stats().objects_count >= 2048 - 64);
}

TEST_CASE("pool: a waiting client is woken when slots come", "[unit]") {
  PoolHarness pool(16384, small_options(2));
  const SizeClassIndex size_class = pool.class_of(16384);
  const auto held = pool.take(1, 16384);
  REQUIRE(held.has_value());
  REQUIRE(pool.client(0).take(size_class).error().code == Errc::kBusy);
  REQUIRE(pool.stats().starved_count == 2);
  pool.settle();
  WakeEvent& event = pool.client(0).event();
  event.announce_sleep();
  REQUIRE(pool.client(0).take(size_class).error().code == Errc::kBusy);
  pool.settle();
  pool.client(1).abandon(*held);
  pool.settle();
  event.sleep(std::chrono::seconds(10));  // returns at once: the agent signalled
  event.cancel_sleep();
  REQUIRE(pool.client(0).take(size_class).has_value());
}

TEST_CASE("pool: the agent's event is signalled by what needs its turn", "[unit]") {
  PoolHarness pool(16384, small_options());
  const auto agent_event = WakeEvent::open().value();
  pool.pool().set_agent_event(agent_event.get());
  const SizeClassIndex size_class = pool.class_of(4096);
  agent_event->announce_sleep();
  REQUIRE_FALSE(pool.client(0).take(size_class).has_value());
  agent_event->sleep(std::chrono::seconds(10));
  agent_event->cancel_sleep();
  pool.step();
  REQUIRE(pool.client(0).take(size_class).has_value());
  pool.pool().set_agent_event(nullptr);
}

}  // namespace
}  // namespace peercache
