// Several size classes in one pool: who gets space from whom.
#include <catch2/catch.hpp>

#include "tests/dataplane/pool/pool_harness.h"

namespace peercache {
namespace {

using test::key_of;
using test::PoolHarness;
using test::small_options;

uint64_t count_of(PoolHarness& pool, uint32_t length_bytes) {
  uint64_t count = 0;
  pool.pool().for_each_object(
      [&](const Location& location) { count += location.length_bytes == length_bytes ? 1 : 0; });
  return count;
}

GroupPlace chain(uint64_t number, uint64_t parent) {
  return GroupPlace{.group = key_of(number),
                    .parent = parent == 0 ? Key128{} : key_of(parent),
                    .position_index = 0};
}

// sixteen 4 KiB pages fill the pool; then one page of 2 KiB.
TEST_CASE("pool classes: a page of a new size costs one page, not the pool", "[unit]") {
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  REQUIRE(pool.put(0, key_of(100), 2048));
  REQUIRE(pool.holds(key_of(100)));
  REQUIRE(pool.stats().evicted_count == 1);
  REQUIRE_FALSE(pool.holds(key_of(1)));
  REQUIRE(count_of(pool, 4096) == 15);
  // The other half of that page is free space for the next one.
  REQUIRE(pool.put(0, key_of(101), 2048));
  REQUIRE(pool.stats().evicted_count == 1);
  REQUIRE(pool.read(pool.find(key_of(100)).locations[0]));
  REQUIRE(pool.read(pool.find(key_of(101)).locations[0]));
}

TEST_CASE("pool classes: a prefix that fills the pool loses its tail to another size", "[unit]") {
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096, chain(i, i - 1)));
  }
  REQUIRE(pool.put(0, key_of(100), 2048));
  REQUIRE(pool.stats().evicted_count == 1);
  REQUIRE_FALSE(pool.holds(key_of(16)));
  REQUIRE(pool.holds(key_of(1)));
}

TEST_CASE("pool classes: a class is never emptied beyond its share", "[unit]") {
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  for (uint64_t i = 1; i <= 200; ++i) {
    REQUIRE(pool.put(0, key_of(1000 + i), 2048));
    REQUIRE(count_of(pool, 4096) >= 8);
  }
  REQUIRE(count_of(pool, 4096) == 8);
  REQUIRE(count_of(pool, 2048) == 16);
  // And back: the first class is at its share now and evicts its own.
  for (uint64_t i = 1; i <= 50; ++i) {
    REQUIRE(pool.put(0, key_of(2000 + i), 4096));
  }
  REQUIRE(count_of(pool, 4096) == 8);
  REQUIRE(count_of(pool, 2048) == 16);
}

TEST_CASE("pool classes: a large page takes neighbouring extents of small ones", "[unit]") {
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 64; ++i) {
    REQUIRE(pool.put(0, key_of(i), 1024));
  }
  REQUIRE(pool.put(0, key_of(100), 32768));
  REQUIRE(pool.holds(key_of(100)));
  // A 32nd of its share is kept ready by eviction: one small slot here.
  REQUIRE(pool.stats().evicted_count <= 33);
  REQUIRE(count_of(pool, 1024) >= 31);
  REQUIRE(pool.read(pool.find(key_of(100)).locations[0]));
}

TEST_CASE("pool classes: a class whose slot is larger than an even share gets one slot", "[unit]") {
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 64; ++i) {
    REQUIRE(pool.put(0, key_of(i), 1024));
  }
  REQUIRE(pool.put(0, key_of(100), 49152));
  REQUIRE(pool.holds(key_of(100)));
  REQUIRE(count_of(pool, 1024) >= 15);
  REQUIRE(pool.put(0, key_of(101), 49152));  // its own again
  REQUIRE_FALSE(pool.holds(key_of(100)));
  REQUIRE(count_of(pool, 1024) >= 15);
}

TEST_CASE("pool classes: nothing is evicted for a page that cannot get room", "[unit]") {
  PoolHarness pool(65536, small_options(2));
  for (uint64_t i = 1; i <= 13; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  // Three slots are in the hands of a client: no window of 48 KiB is free of them, if they are
  // spread.
  std::vector<SlotGrant> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(pool.take(1, 4096).value());
  }
  const Key128 removed[] = {key_of(5), key_of(9)};
  REQUIRE(pool.client(0).remove(removed).has_value());
  pool.settle();
  held.push_back(pool.take(1, 4096).value());
  held.push_back(pool.take(1, 4096).value());
  const uint64_t evicted_before = pool.stats().evicted_count;
  const uint64_t objects_before = pool.stats().objects_count;
  REQUIRE_FALSE(pool.put(0, key_of(100), 49152));
  REQUIRE(pool.stats().evicted_count == evicted_before);
  REQUIRE(pool.stats().objects_count == objects_before);
  for (const SlotGrant& grant : held) {
    pool.client(1).abandon(grant);
  }
  pool.settle();
  REQUIRE(pool.put(0, key_of(100), 49152));
}

TEST_CASE("pool classes: free extents of another class are space like any other", "[unit]") {
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  REQUIRE(pool.client(0).clear().has_value());
  pool.settle();
  for (uint64_t i = 1; i <= 32; ++i) {
    REQUIRE(pool.put(0, key_of(100 + i), 2048));
  }
  REQUIRE(count_of(pool, 2048) >= 31);  // all, but for one slot that is kept ready
  REQUIRE(pool.stats().evicted_count <= 1);
}

TEST_CASE("pool classes: re-cut space makes every old location stale", "[unit]") {
  PoolHarness pool(65536, small_options());
  std::vector<Location> old;
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
    old.push_back(pool.find(key_of(i)).locations[0]);
  }
  REQUIRE(pool.client(0).clear().has_value());
  pool.settle();
  for (const Location& location : old) {
    REQUIRE(pool.read(location));  // retired, untouched
  }
  std::vector<SlotGrant> grants;
  std::vector<Location> young;
  for (uint64_t i = 1; i <= 64; ++i) {
    // Bytes are written before anything is published: the old headers alone must say it.
    const auto grant = pool.take(0, 1024);
    REQUIRE(grant.has_value());
    const Generation generation = pool.fill(0, *grant, key_of(100 + i), 1024);
    for (const Location& location : old) {
      pool.read(location);  // fails the test if it is proven and its bytes are not its own
    }
    REQUIRE(pool.publish(0, *grant, generation, key_of(100 + i), 1024, {}).has_value());
    pool.step();
    young.push_back(pool.find(key_of(100 + i)).locations[0]);
  }
  for (const Location& location : old) {
    REQUIRE_FALSE(pool.read(location));
  }
  // And back again to the first geometry.
  REQUIRE(pool.client(0).clear().has_value());
  pool.settle();
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  for (const Location& location : old) {
    REQUIRE_FALSE(pool.read(location));
  }
  uint32_t readable_count = 0;
  for (const Location& location : young) {
    readable_count += pool.read(location) ? 1 : 0;
  }
  REQUIRE(readable_count <= 4);  // a granule or so that nobody needed again
}

TEST_CASE("pool classes: a side buffer's slot is freed with its page", "[unit]") {
  // Every page has an object of 4 KiB and one of 1 KiB; eviction for either takes both.
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 40; ++i) {
    const GroupPlace place = chain(i, 0);
    REQUIRE(pool.put(0, key_of(i), 4096, place));
    REQUIRE(pool.put(0, key_of(1000 + i), 1024, place));
    for (uint64_t j = 1; j < i; ++j) {
      REQUIRE(pool.holds(key_of(j)) == pool.holds(key_of(1000 + j)));
    }
  }
  REQUIRE(count_of(pool, 4096) >= 8);
}

}  // namespace
}  // namespace peercache
