#include "dataplane/pool/size_classes.h"

#include <numeric>
#include <random>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

std::string error_of(const Result<SizeClassIndex>& result, Errc code) {
  REQUIRE_FALSE(result.has_value());
  REQUIRE(result.error().code == code);
  return to_string(result.error());
}

TEST_CASE("size classes: lengths are rounded up to the granule, and equal sizes share a class",
          "[unit]") {
  SizeClasses classes(4096, 1U << 20U);
  REQUIRE(classes.ensure(1).value() == SizeClassIndex(0));
  REQUIRE(classes.ensure(4096).value() == SizeClassIndex(0));
  REQUIRE(classes.ensure(4097).value() == SizeClassIndex(1));
  REQUIRE(classes.count() == 2);
  REQUIRE(classes.slot_bytes(SizeClassIndex(1)) == 8192);
  REQUIRE(classes.slot_granules(SizeClassIndex(1)) == 2);
}

TEST_CASE("size classes: errors carry the length and what would be possible", "[unit]") {
  SizeClasses classes(4096, 65536);
  REQUIRE_THAT(error_of(classes.ensure(0), Errc::kInvalidArgument), Catch::Contains("0 bytes"));
  REQUIRE_THAT(error_of(classes.ensure(65537), Errc::kPoolTooSmall),
               Catch::Contains("65536") && Catch::Contains("65537"));
  REQUIRE_THAT(error_of(classes.ensure(UINT32_MAX), Errc::kNoSizeClass),
               Catch::Contains("4294967295") && Catch::Contains("65536"));
  REQUIRE(classes.ensure(60000).has_value());
  REQUIRE_THAT(error_of(classes.ensure(8192), Errc::kPoolTooSmall),
               Catch::Contains("65536") && Catch::Contains("8192") && Catch::Contains("61440"));
  REQUIRE(classes.count() == 1);
}

TEST_CASE("size classes: when all are in use the smallest with little waste serves", "[unit]") {
  SizeClasses classes(64, 1U << 30U);
  for (uint32_t i = 0; i < limits::kSizeClassesMax; ++i) {
    REQUIRE(classes.ensure(1024 + i * 1024).has_value());
  }
  REQUIRE(classes.ensure(1024).value() == SizeClassIndex(0));
  REQUIRE(classes.ensure(10 * 1024 - 100).value() == SizeClassIndex(9));
  REQUIRE(classes.ensure(1536).value() == SizeClassIndex(1));  // exactly a quarter wasted
  REQUIRE_THAT(error_of(classes.ensure(1535 - 64), Errc::kNoSizeClass),
               Catch::Contains("1471") && Catch::Contains("32768"));
  REQUIRE_THAT(error_of(classes.ensure(40000), Errc::kNoSizeClass),
               Catch::Contains("40000") && Catch::Contains("32768"));
}

TEST_CASE("class shares: an even division, but one slot at least for each", "[unit]") {
  std::array<uint32_t, limits::kSizeClassesMax> slots{};
  slots[0] = 4096;
  slots[2] = 2048;
  auto shares = class_shares(65536, slots);
  REQUIRE(shares[0] == 32768);
  REQUIRE(shares[1] == 0);
  REQUIRE(shares[2] == 32768);
  slots[1] = 49152;
  shares = class_shares(65536, slots);
  REQUIRE(shares[1] == 49152);
  REQUIRE(shares[0] == 8192);
  REQUIRE(shares[2] == 8192);
}

TEST_CASE("class shares: never more than the region, never less than a slot", "[unit]") {
  const uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::array<uint32_t, limits::kSizeClassesMax> slots{};
    uint64_t sum = 0;
    for (uint32_t& bytes : slots) {
      bytes = random() % 3 == 0 ? static_cast<uint32_t>(1U << (random() % 20)) : 0;
      sum += bytes;
    }
    const uint64_t region_bytes = sum + random() % (2 * sum + 1) + 1;
    const auto shares = class_shares(region_bytes, slots);
    for (size_t i = 0; i < slots.size(); ++i) {
      REQUIRE(shares[i] >= slots[i]);
      REQUIRE((slots[i] != 0 || shares[i] == 0));
    }
    REQUIRE(std::accumulate(shares.begin(), shares.end(), uint64_t{0}) <= region_bytes);
  }
}

}  // namespace
}  // namespace peercache
