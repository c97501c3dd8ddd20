#include "dataplane/pool/published_pool.h"

#include <set>

#include <catch2/catch.hpp>

#include "tests/dataplane/pool/pool_harness.h"

namespace peercache {
namespace {

using test::key_of;
using test::PoolHarness;
using test::RecordingListener;
using test::small_options;

GroupPlace chain(uint64_t number, uint64_t parent) {
  return GroupPlace{.group = key_of(number),
                    .parent = parent == 0 ? Key128{} : key_of(parent),
                    .position_index = static_cast<uint32_t>(number)};
}

Result<std::unique_ptr<PublishedPool>> open_with(const PoolOptions& options,
                                                 uint64_t bytes,
                                                 uint64_t header_count) {
  static std::vector<std::byte> memory(65536);
  static std::vector<SlotHeader> headers(64);
  static RecordingListener listener;
  return PublishedPool::open(options,
                             PoolMemory{.bytes = memory.data(),
                                        .length = Bytes(bytes),
                                        .headers = headers.data(),
                                        .header_count = header_count,
                                        .region = RegionIndex(1)},
                             &listener, Clock{});
}

TEST_CASE("pool: bad options are refused with their values", "[unit]") {
  const auto error = [](const PoolOptions& options, uint64_t bytes = 65536,
                        uint64_t header_count = 64) {
    const auto result = open_with(options, bytes, header_count);
    REQUIRE_FALSE(result.has_value());
    return to_string(result.error());
  };
  PoolOptions options = small_options();
  REQUIRE_THAT(error(options, 1000),
               Catch::Contains("(4001)") && Catch::Contains("1000") && Catch::Contains("1024"));
  REQUIRE_THAT(error(options, 65536, 63), Catch::Contains("64") && Catch::Contains("63"));
  options.granule_bytes = 1000;
  REQUIRE_THAT(error(options), Catch::Contains("granule_bytes is 1000"));
  options = small_options();
  options.client_count = 17;
  REQUIRE_THAT(error(options), Catch::Contains("client_count is 17"));
  options = small_options();
  options.refill_max_count = 0;
  REQUIRE_THAT(error(options), Catch::Contains("refill_max_count is 0"));
  const auto pool = open_with(small_options(), 65536, 64);
  REQUIRE(pool.has_value());
  REQUIRE((*pool)->attach_client(ClientIndex(1)).error().code == Errc::kOutOfRange);
  REQUIRE((*pool)->attach_client(ClientIndex(0)).value() ==
          (*pool)->attach_client(ClientIndex(0)).value());
}

TEST_CASE("pool: a length that fits no class is an error with the length and the largest",
          "[unit]") {
  PoolHarness pool(65536, small_options());
  REQUIRE(pool.pool().ensure_class(65537).error().code == Errc::kPoolTooSmall);
  REQUIRE_THAT(to_string(pool.pool().ensure_class(65537).error()),
               Catch::Contains("65536") && Catch::Contains("65537"));
  REQUIRE(pool.client(0).take(SizeClassIndex(0)).error().code == Errc::kInvalidArgument);
  REQUIRE(pool.client(0).take(SizeClassIndex(200)).error().code == Errc::kInvalidArgument);
}

TEST_CASE("pool: a put is found at once, and by the index after the agent's turn", "[unit]") {
  PoolHarness pool(65536, small_options());
  REQUIRE(pool.put_queued(0, key_of(1), 4000));
  REQUIRE_FALSE(pool.holds(key_of(1)));
  REQUIRE(pool.client(0).pending_count() == 1);
  const Key128 keys[] = {key_of(2), key_of(1), key_of(1)};
  LookupResult results[3] = {};
  REQUIRE(pool.pool().find_pending(keys, results, 3) == 2);
  REQUIRE(results[0].count == 0);
  REQUIRE(results[1].count == 1);
  REQUIRE(results[2].count == 1);
  REQUIRE(pool.read(results[1].locations[0]));
  pool.step();
  REQUIRE(pool.client(0).pending_count() == 0);
  LookupResult after[3] = {};
  REQUIRE(pool.pool().find_pending(keys, after, 3) == 0);
  const LookupResult found = pool.find(key_of(1));
  REQUIRE(found.count == 1);
  const Location& location = found.locations[0];
  REQUIRE(location.node == NodeId(77));
  REQUIRE(location.incarnation == Incarnation(5));
  REQUIRE(location.region == RegionIndex(1));
  REQUIRE(location.offset_bytes == location.slot.value() * 1024);
  REQUIRE(pool.read(location));
  REQUIRE(pool.listener.published.size() == 1);
  REQUIRE(pool.stats().objects_count == 1);
  REQUIRE(pool.stats().bytes_used == 4000);
  REQUIRE(pool.stats().bytes_capacity == 65536);
}

TEST_CASE("pool: pending publishes do not disturb results that are there", "[unit]") {
  PoolHarness pool(65536, small_options(2));
  REQUIRE(pool.put_queued(0, key_of(1), 4000));
  REQUIRE(pool.put_queued(1, key_of(1), 3000));  // newer
  LookupResult results[2] = {};
  results[1].count = 1;
  const Key128 keys[] = {key_of(1), key_of(1)};
  // Both clients' messages are still queued, unless a turn was needed to get slots.
  pool.pool().find_pending(keys, results, 2);
  REQUIRE(results[0].count == 1);
  REQUIRE(results[0].locations[0].length_bytes == 3000);
  REQUIRE(results[1].locations[0].length_bytes != 3000);
}

TEST_CASE("pool: one page more than fits evicts the oldest, and only then", "[unit]") {
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  pool.settle();
  REQUIRE(pool.stats().objects_count == 16);
  REQUIRE(pool.stats().evicted_count == 0);
  REQUIRE(pool.put(0, key_of(17), 4096));
  REQUIRE(pool.stats().evicted_count == 1);
  REQUIRE_FALSE(pool.holds(key_of(1)));
  REQUIRE(pool.holds(key_of(17)));
  REQUIRE(pool.listener.retired.size() == 1);
  REQUIRE(pool.listener.retired[0].key == key_of(1));
}

TEST_CASE("pool: a page that is held already is not stored twice", "[unit]") {
  PoolHarness pool(65536, small_options());
  REQUIRE(pool.put(0, key_of(1), 4096));
  const Location first = pool.find(key_of(1)).locations[0];
  REQUIRE(pool.put(0, key_of(2), 4096));
  REQUIRE(pool.put(0, key_of(1), 4096));
  REQUIRE(pool.stats().duplicates_count == 1);
  REQUIRE(pool.stats().objects_count == 2);
  REQUIRE(pool.find(key_of(1)).locations[0].slot == first.slot);
  REQUIRE(pool.listener.published.size() == 2);
  REQUIRE(pool.listener.retired.empty());
  // It counted as a use.
  for (uint64_t i = 3; i <= 17; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  REQUIRE(pool.holds(key_of(1)));
  REQUIRE_FALSE(pool.holds(key_of(2)));
}

TEST_CASE("pool: another length or layout under the same key replaces", "[unit]") {
  PoolHarness pool(65536, small_options());
  REQUIRE(pool.put(0, key_of(1), 4096));
  const Location first = pool.find(key_of(1)).locations[0];
  REQUIRE(pool.put(0, key_of(1), 4000));
  const Location second = pool.find(key_of(1)).locations[0];
  REQUIRE(second.length_bytes == 4000);
  REQUIRE(pool.read(second));
  REQUIRE(pool.read(first));  // retired: readers that hold it are served until the slot is reused
  REQUIRE(pool.put(0, key_of(1), 4000, {}, /*layout_digest_id=*/8));
  const Location third = pool.find(key_of(1)).locations[0];
  REQUIRE(third.slot != second.slot);
  REQUIRE(pool.stats().objects_count == 1);
  REQUIRE(pool.stats().duplicates_count == 0);
  REQUIRE(pool.listener.published.size() == 3);
  REQUIRE(pool.listener.retired.size() == 2);
  REQUIRE(pool.listener.retired[0].slot == first.slot);
}

TEST_CASE("pool: eviction takes tails before heads and whole groups", "[unit]") {
  PoolHarness pool(65536, small_options());
  // A prefix of 8 pages with two objects each: fills the pool.
  for (uint64_t page = 1; page <= 8; ++page) {
    REQUIRE(pool.put(0, key_of(page), 4096, chain(page, page - 1)));
    REQUIRE(pool.put(0, key_of(100 + page), 4096, chain(page, page - 1)));
  }
  REQUIRE(pool.stats().objects_count == 16);
  for (uint64_t page = 8; page >= 5; --page) {
    REQUIRE(pool.holds(key_of(page)));
    REQUIRE(pool.put(0, key_of(1000 + 2 * page), 4096));
    REQUIRE_FALSE(pool.holds(key_of(page)));
    REQUIRE_FALSE(pool.holds(key_of(100 + page)));
    REQUIRE(pool.put(0, key_of(1001 + 2 * page), 4096));
    REQUIRE(pool.stats().objects_count == 16);
  }
  for (uint64_t page = 1; page <= 4; ++page) {
    REQUIRE(pool.holds(key_of(page)));
    REQUIRE(pool.holds(key_of(100 + page)));
  }
}

TEST_CASE("pool: a touch keeps a page", "[unit]") {
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  const Key128 used[] = {key_of(1), key_of(999), key_of(2)};
  pool.client(0).touch(used);
  REQUIRE(pool.put(0, key_of(17), 4096));
  REQUIRE(pool.holds(key_of(1)));
  REQUIRE(pool.holds(key_of(2)));
  REQUIRE_FALSE(pool.holds(key_of(3)));
}

TEST_CASE("pool: remove and clear take effect with the agent's turn", "[unit]") {
  PoolHarness pool(65536, small_options());
  for (uint64_t i = 1; i <= 6; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096, chain(i, i - 1)));
  }
  const Key128 gone[] = {key_of(2), key_of(77)};
  REQUIRE(pool.client(0).remove(gone).has_value());
  REQUIRE(pool.holds(key_of(2)));
  pool.step();
  REQUIRE_FALSE(pool.holds(key_of(2)));
  REQUIRE(pool.stats().removed_count == 1);
  REQUIRE(pool.client(0).clear().has_value());
  pool.step();
  REQUIRE(pool.stats().objects_count == 0);
  REQUIRE(pool.stats().bytes_used == 0);
  REQUIRE(pool.stats().removed_count == 6);
  REQUIRE(pool.listener.retired.size() == 6);
  for (uint64_t i = 1; i <= 16; ++i) {
    REQUIRE(pool.put(0, key_of(i), 4096));
  }
  REQUIRE(pool.stats().objects_count == 16);
  REQUIRE(pool.stats().evicted_count == 0);
}

TEST_CASE("pool: more removes than the ring holds are refused whole", "[unit]") {
  PoolHarness pool(65536, small_options());
  const std::vector<Key128> keys(limits::kPoolMessages + 1, key_of(1));
  REQUIRE(pool.client(0).remove(keys).error().code == Errc::kRingFull);
  REQUIRE(pool.client(0).pending_count() == 0);
}

TEST_CASE("pool: a full message ring leaves the slot with its client", "[unit]") {
  PoolHarness pool(65536, small_options());
  const auto grant = pool.take(0, 4096);
  REQUIRE(grant.has_value());
  const Generation generation = pool.fill(0, *grant, key_of(1), 4096);
  const std::vector<Key128> keys(limits::kPoolMessages, key_of(5));
  REQUIRE(pool.client(0).remove(keys).has_value());
  REQUIRE(pool.publish(0, *grant, generation, key_of(1), 4096, {}).error().code == Errc::kRingFull);
  REQUIRE(pool.client(0).clear().error().code == Errc::kRingFull);
  REQUIRE(pool.client(0).header(*grant).state == SlotState::kFilling);
  pool.settle();
  REQUIRE(pool.publish(0, *grant, generation, key_of(1), 4096, {}).has_value());
  pool.step();
  REQUIRE(pool.holds(key_of(1)));
}

TEST_CASE("pool: touches leave room for publishes", "[unit]") {
  PoolHarness pool(65536, small_options());
  const std::vector<Key128> keys(2 * limits::kPoolMessages, key_of(5));
  pool.client(0).touch(keys);
  REQUIRE(pool.client(0).pending_count() == limits::kPoolMessages / 2);
  pool.client(0).touch(keys);
  REQUIRE(pool.client(0).pending_count() == limits::kPoolMessages / 2);
}

// Keys whose records all lie in the same two buckets of the index.
std::vector<uint64_t> crowded_numbers(uint64_t bucket_count, size_t count) {
  std::vector<uint64_t> numbers;
  for (uint64_t number = 1; numbers.size() < count; ++number) {
    const BucketPair pair = candidate_buckets(key_of(number), bucket_count);
    const auto fits = [](uint64_t index) { return index == 3 || index == 4; };
    if (fits(pair.first_index) && fits(pair.second_index) &&
        pair.first_index != pair.second_index) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

TEST_CASE("pool: a page whose record is dropped from full buckets goes with its tails", "[unit]") {
  PoolHarness pool(65536, small_options());
  const auto numbers = crowded_numbers(pool.pool().index().bucket_count(), 9);
  // The oldest record is the head of a prefix; its tail lies elsewhere.
  REQUIRE(pool.put(0, key_of(numbers[0]), 1024, chain(numbers[0], 0)));
  REQUIRE(pool.put(0, key_of(1'000'000), 1024, chain(1'000'000, numbers[0])));
  for (size_t i = 1; i < 8; ++i) {
    REQUIRE(pool.put(0, key_of(numbers[i]), 1024));
  }
  REQUIRE(pool.stats().objects_count == 9);
  REQUIRE(pool.put(0, key_of(numbers[8]), 1024));
  REQUIRE(pool.stats().index_dropped_count == 1);
  REQUIRE(pool.stats().evicted_count == 2);
  REQUIRE(pool.stats().objects_count == 8);
  REQUIRE_FALSE(pool.holds(key_of(numbers[0])));
  REQUIRE_FALSE(pool.holds(key_of(1'000'000)));
  REQUIRE(pool.holds(key_of(numbers[8])));
  REQUIRE(pool.listener.retired.size() == 2);
}

}  // namespace
}  // namespace peercache
