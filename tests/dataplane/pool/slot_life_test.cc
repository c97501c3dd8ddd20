#include "dataplane/pool/slot_life.h"

#include <catch2/catch.hpp>

#include "dataplane/wire/location.h"

namespace peercache {
namespace {

const PublishedObject kObject{.key = Key128{.low = 1, .high = 2},
                              .length_bytes = 100,
                              .layout_digest_id = 9,
                              .payload_hash = PayloadHash(3),
                              .sequence = Sequence(4)};

Location location_of(const SlotHeader& header) {
  Location location{};
  location.key = kObject.key;
  location.generation = header.generation;
  location.length_bytes = kObject.length_bytes;
  location.offset_bytes = header.offset_bytes;
  return location;
}

TEST_CASE("slot life: a location proves from publish to the next life, and never again", "[unit]") {
  SlotHeader header{};
  header.offset_bytes = 4096;
  const Generation first = begin_life(header);
  REQUIRE(first == Generation(1));
  REQUIRE(header.state == SlotState::kFilling);
  const Location location = location_of(header);
  REQUIRE_FALSE(header_proves(header, location));
  publish_life(header, kObject);
  REQUIRE(header.layout_digest_id == 9);
  REQUIRE(header.payload_hash == PayloadHash(3));
  REQUIRE(header.sequence == Sequence(4));
  REQUIRE(header_proves(header, location));
  retire_life(header);
  REQUIRE(header_proves(header, location));
  free_life(header);
  REQUIRE(header.generation == first);
  REQUIRE_FALSE(header_proves(header, location));
  REQUIRE(begin_life(header) == Generation(2));
  REQUIRE_FALSE(header_proves(header, location));
  publish_life(header, kObject);
  REQUIRE_FALSE(header_proves(header, location));
}

TEST_CASE("slot life: a life that was given up leaves its generation used", "[unit]") {
  SlotHeader header{};
  REQUIRE(begin_life(header) == Generation(1));
  free_life(header);
  REQUIRE(begin_life(header) == Generation(2));
}

TEST_CASE("slot life: the end of a geometry moves the generation on and clears the key", "[unit]") {
  SlotHeader header{};
  begin_life(header);
  publish_life(header, kObject);
  const Location location = location_of(header);
  retire_life(header);
  end_geometry(header);
  REQUIRE(header.state == SlotState::kFree);
  REQUIRE(header.generation == Generation(2));
  REQUIRE(header.key == Key128{});
  REQUIRE_FALSE(header_proves(header, location));
}

TEST_CASE("slot life: generations wrap without stopping", "[unit]") {
  SlotHeader header{};
  header.generation = Generation(UINT32_MAX);
  REQUIRE(begin_life(header) == Generation(0));
}

}  // namespace
}  // namespace peercache
