#include "dataplane/wire/location.h"

#include <atomic>
#include <bit>
#include <random>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/base/ordering.h"
#include "tests/dataplane/wire/samples.h"
#include "tests/support/golden.h"

namespace peercache {
namespace {

using test::sample_header;
using test::sample_location;

Key128 random_key(std::mt19937_64& random) { return Key128{.low = random(), .high = random()}; }

TEST_CASE("location: record, bucket and slot header keep their golden bytes", "[unit]") {
  test::require_golden_struct("location", sample_location());
  Bucket bucket{};
  bucket.records[0] = sample_location(0);
  bucket.records[2] = sample_location(2);
  bucket.records[3] = sample_location(3);
  test::require_golden_struct("bucket", bucket);
  test::require_golden_struct("slot_header", sample_header());
}

TEST_CASE("location: a record with any bit changed is not sound", "[unit]") {
  const Location good = sample_location();
  REQUIRE(is_sound(good));
  for (size_t bit = 0; bit < sizeof(Location) * 8; ++bit) {
    auto bytes = std::bit_cast<std::array<std::byte, sizeof(Location)>>(good);
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto bad = std::bit_cast<Location>(bytes);
    INFO("bit " << bit);
    REQUIRE_FALSE(is_sound(bad));
  }
}

TEST_CASE("location: an empty record is not sound, even with a right checksum", "[unit]") {
  Location empty{};
  seal(empty);
  REQUIRE(is_empty(empty));
  REQUIRE_FALSE(is_sound(empty));
}

TEST_CASE("location: a header proves exactly the life that the record names", "[unit]") {
  const Location location = sample_location();
  SlotHeader header = sample_header();
  REQUIRE(header_proves(header, location));
  header.state = SlotState::kRetired;
  REQUIRE(header_proves(header, location));
  for (const SlotState state : {SlotState::kFree, SlotState::kFilling, SlotState::kQuarantined,
                                static_cast<SlotState>(5)}) {
    header.state = state;
    REQUIRE_FALSE(header_proves(header, location));
  }
  header = sample_header();
  header.generation = next(header.generation);
  REQUIRE_FALSE(header_proves(header, location));
  header = sample_header();
  header.key.high ^= 1;
  REQUIRE_FALSE(header_proves(header, location));
  header = sample_header();
  ++header.length_bytes;
  REQUIRE_FALSE(header_proves(header, location));
  header = sample_header();
  header.offset_bytes += 4096;
  REQUIRE_FALSE(header_proves(header, location));
}

TEST_CASE("location: candidate buckets are frozen, in range, and independent", "[unit]") {
  const BucketPair frozen = candidate_buckets(Key128{.low = 1, .high = 2}, 1000);
  REQUIRE(frozen.first_index == 504);
  REQUIRE(frozen.second_index == 30);

  std::mt19937_64 random(1);
  std::vector<uint32_t> hits(64);
  uint32_t coincide_count = 0;
  for (uint32_t i = 0; i < 64 * 1000; ++i) {
    // Keys of one shard share their upper bits: the pair must not depend on their being uniform.
    const BucketPair pair = candidate_buckets(Key128{.low = i, .high = 0}, hits.size());
    ++hits.at(pair.first_index);
    ++hits.at(pair.second_index);
    coincide_count += pair.first_index == pair.second_index ? 1 : 0;
  }
  for (const uint32_t count : hits) {
    REQUIRE(count > 1700);
    REQUIRE(count < 2300);
  }
  REQUIRE(coincide_count > 800);
  REQUIRE(coincide_count < 1200);
  REQUIRE(candidate_buckets(random_key(random), 1).first_index == 0);
  REQUIRE(candidate_buckets(random_key(random), 1).second_index == 0);
}

TEST_CASE("location: a lookup collects sound records of the key, newest first, at most three",
          "[unit]") {
  std::vector<Bucket> table(16);
  const Key128 key = sample_location().key;
  const BucketPair pair = candidate_buckets(key, table.size());
  REQUIRE(pair.first_index != pair.second_index);
  const auto record = [&](uint64_t sequence) {
    Location location = sample_location();
    location.sequence = Sequence(sequence);
    seal(location);
    return location;
  };
  table[pair.first_index].records = {record(5), record(30), record(7), Location{}};
  table[pair.second_index].records = {record(20), record(6), record(40), record(10)};
  table[pair.second_index].records[2].length_bytes ^= 1;  // torn: 40 does not count
  const Key128 keys[] = {key, Key128{}, Key128{.low = 5, .high = 5}};
  LookupResult results[3];
  lookup_buckets(table.data(), table.size(), keys, results, 3);
  REQUIRE(results[0].count == 3);
  REQUIRE(results[0].locations[0].sequence == Sequence(30));
  REQUIRE(results[0].locations[1].sequence == Sequence(20));
  REQUIRE(results[0].locations[2].sequence == Sequence(10));
  REQUIRE(results[1].count == 0);  // the empty key names nothing, though empty records have it
  REQUIRE(results[2].count == 0);
}

TEST_CASE("location: a table of random bytes yields nothing and is never left", "[unit]") {
  const uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<Bucket> table(33);
  std::vector<Key128> keys;
  for (Bucket& bucket : table) {
    for (Location& record : bucket.records) {
      std::array<uint64_t, 8> words;
      for (uint64_t& word : words) {
        word = random();
      }
      record = std::bit_cast<Location>(words);
      keys.push_back(record.key);
    }
  }
  std::vector<LookupResult> results(keys.size());
  lookup_buckets(table.data(), table.size(), keys.data(), results.data(),
                 static_cast<uint32_t>(keys.size()));
  for (const LookupResult& result : results) {
    REQUIRE(result.count == 0);
  }
}

TEST_CASE("location: a lookup beside a writer sees whole records only", "[unit]") {
  std::vector<Bucket> table(4);
  const Key128 key = sample_location().key;
  const uint64_t at = candidate_buckets(key, table.size()).first_index;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
      Location location = sample_location();
      location.sequence = Sequence(i);
      location.node = NodeId(i * 3);
      location.offset_bytes = i * 4096;
      seal(location);
      racy_copy(&table[at].records[1], &location, sizeof(location));
      for (int pause = 0; pause < 50; ++pause) {
        cpu_pause();  // a real writer does other things in between
      }
    }
  });
  uint32_t found_count = 0;
  for (uint32_t i = 0; i < 100'000'000 && found_count < 20000; ++i) {
    LookupResult result;
    lookup_buckets(table.data(), table.size(), &key, &result, 1);
    if (result.count == 0) {
      continue;
    }
    ++found_count;
    const Location& found = result.locations[0];
    if (found.node.value() != found.sequence.value() * 3 ||
        found.offset_bytes != found.sequence.value() * 4096) {
      stop.store(true, std::memory_order_relaxed);
      writer.join();
      FAIL("torn record " << found.sequence.value());
    }
  }
  stop.store(true, std::memory_order_relaxed);
  writer.join();
  REQUIRE(found_count == 20000);
}

}  // namespace
}  // namespace peercache
