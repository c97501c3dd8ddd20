#include "dataplane/wire/region_descriptor.h"

#include <vector>

#include <catch2/catch.hpp>

#include "tests/dataplane/wire/samples.h"
#include "tests/support/golden.h"

namespace peercache {
namespace {

using test::sample_location;
using test::sample_region;
using test::sample_regions;

void require_error(const std::vector<RegionDescriptor>& regions, Errc code) {
  const Result<void> result = check_region_table(regions);
  REQUIRE_FALSE(result.has_value());
  INFO(to_string(result.error()));
  REQUIRE(result.error().code == code);
}

TEST_CASE("region descriptor: keeps its golden bytes", "[unit]") {
  test::require_golden_struct("region_descriptor", sample_regions()[0]);
}

TEST_CASE("region table: a right one is accepted, an empty one too", "[unit]") {
  REQUIRE(check_region_table(sample_regions()).has_value());
  REQUIRE(check_region_table({}).has_value());
}

TEST_CASE("region table: kinds that are unknown or never leave their node are refused", "[unit]") {
  auto regions = sample_regions();
  regions[3].kind = RegionKind::kDestination;
  require_error(regions, Errc::kBadEnum);
  regions[3].kind = static_cast<RegionKind>(0);
  require_error(regions, Errc::kBadEnum);
  regions[3].kind = static_cast<RegionKind>(77);
  require_error(regions, Errc::kBadEnum);
}

TEST_CASE("region table: lengths must be multiples of what the region holds", "[unit]") {
  for (size_t i = 0; i < 3; ++i) {
    auto regions = sample_regions();
    ++regions[i].length_bytes;
    require_error(regions, Errc::kBadLength);
    regions[i].length_bytes = 0;
    require_error(regions, Errc::kBadLength);
  }
  auto regions = sample_regions();
  for (const uint32_t granule_bytes : {0U, 32U, 4095U, 3U * 4096U, 2U << 20U}) {
    regions[0].granule_bytes = granule_bytes;
    require_error(regions, Errc::kBadLength);
  }
  regions = sample_regions();
  regions[0].length_bytes = 1ULL << 52U;  // more slots than a slot index can name
  require_error(regions, Errc::kBadLength);
  regions = sample_regions();
  regions[3].remote_address_id = UINT64_MAX - 5;
  require_error(regions, Errc::kBadLength);
}

TEST_CASE("region table: indices and addresses do not collide", "[unit]") {
  auto regions = sample_regions();
  regions[3].region = RegionIndex(3);
  require_error(regions, Errc::kRegionOverlap);
  regions = sample_regions();
  regions[3].remote_address_id = regions[0].remote_address_id + regions[0].length_bytes - 1;
  require_error(regions, Errc::kRegionOverlap);
  ++regions[3].remote_address_id;
  REQUIRE(check_region_table(regions).has_value());
  regions[3].region = RegionIndex(64);
  require_error(regions, Errc::kNoSuchRegion);
}

TEST_CASE("region table: a published region has headers of its own for all its slots", "[unit]") {
  auto regions = sample_regions();
  regions[1].length_bytes -= sizeof(SlotHeader);
  require_error(regions, Errc::kBadLength);
  regions = sample_regions();
  regions[0].headers_region = RegionIndex(3);  // a directory
  require_error(regions, Errc::kNoSuchRegion);
  regions[0].headers_region = RegionIndex(33);  // nothing
  require_error(regions, Errc::kNoSuchRegion);
  regions = sample_regions();
  RegionDescriptor second = sample_region(RegionKind::kPublished, 20, 16 * 4096);
  second.headers_region = RegionIndex(2);
  regions.push_back(second);
  require_error(regions, Errc::kRegionOverlap);
}

TEST_CASE("region table: more regions than the limit are refused before they are looked at",
          "[unit]") {
  const std::vector<RegionDescriptor> regions(65);
  require_error(regions, Errc::kBadLength);
}

TEST_CASE("record check: only ranges inside a published region, at the slot's own offset",
          "[unit]") {
  const auto regions = sample_regions();
  const auto code = [&](const Location& location) {
    const auto result = check_location(location, regions);
    return result ? 0 : static_cast<int>(result.error().code);
  };
  Location location = sample_location();
  REQUIRE(code(location) == 0);
  location.region = RegionIndex(2);
  REQUIRE(code(location) == static_cast<int>(Errc::kNoSuchRegion));
  location.region = RegionIndex(50);
  REQUIRE(code(location) == static_cast<int>(Errc::kNoSuchRegion));
  location = sample_location();
  location.slot = SlotIndex(8);
  REQUIRE(code(location) == static_cast<int>(Errc::kBadSlot));
  location = sample_location();
  ++location.offset_bytes;
  REQUIRE(code(location) == static_cast<int>(Errc::kBadSlot));
  location = sample_location();
  location.length_bytes = 0;
  REQUIRE(code(location) == static_cast<int>(Errc::kOutOfBounds));
  location.length_bytes = 9 * 4096;  // up to the last byte
  REQUIRE(code(location) == 0);
  ++location.length_bytes;
  REQUIRE(code(location) == static_cast<int>(Errc::kOutOfBounds));
  location.offset_bytes = UINT64_MAX - 4095;  // offset + length wraps to a small number
  location.length_bytes = 2 * 4096;
  REQUIRE(code(location) == static_cast<int>(Errc::kOutOfBounds));
}

}  // namespace
}  // namespace peercache
