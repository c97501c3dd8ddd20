#include "dataplane/pool/slot_space.h"

#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/pool/slot_life.h"

namespace peercache {
namespace {

struct Space {
  Space() : headers(64), classes(1024, 64 * 1024), space(classes, headers.data(), 64, 8 * 1024) {
    REQUIRE(space.open().has_value());
  }

  SlotIndex publish(SizeClassIndex size_class) {
    const SlotIndex slot = space.grant(size_class).value();
    SlotHeader& header = headers[slot.value()];
    begin_life(header);
    publish_life(header, PublishedObject{.key = Key128{.low = slot.value() + 1, .high = 1},
                                         .length_bytes = 1,
                                         .layout_digest_id = 0,
                                         .payload_hash = {},
                                         .sequence = Sequence(1)});
    space.publish(slot);
    return slot;
  }

  std::vector<SlotHeader> headers;
  SizeClasses classes;
  SlotSpace space;
};

TEST_CASE("slot space: extents are cut as wanted, and smaller where the region ends", "[unit]") {
  Space s;
  const SizeClassIndex three = s.classes.ensure(3 * 1024).value();
  uint32_t extent_count = 0;
  while (s.space.grow(three)) {
    ++extent_count;
    s.space.check_invariants();
  }
  // 2 slots of 3 granules to an extent of 8 KiB: 10 of them, and one slot in the rest of 4
  // granules.
  REQUIRE(extent_count == 11);
  REQUIRE(s.space.free_count(three) == 21);
  REQUIRE(s.space.granules().free_count() == 1);
  REQUIRE(s.space.class_bytes(three) == 63 * 1024);
}

TEST_CASE("slot space: retired slots are granted oldest first and read until then", "[unit]") {
  Space s;
  const SizeClassIndex one = s.classes.ensure(1024).value();
  REQUIRE(s.space.grow(one));
  std::vector<SlotIndex> slots;
  for (int i = 0; i < 8; ++i) {
    slots.push_back(s.publish(one));
  }
  REQUIRE_FALSE(s.space.grant(one).has_value());
  for (const int i : {5, 2, 7}) {
    s.space.retire(slots[static_cast<size_t>(i)]);
    REQUIRE(s.headers[slots[static_cast<size_t>(i)].value()].state == SlotState::kRetired);
  }
  s.space.check_invariants();
  for (const int i : {5, 2, 7}) {
    const auto granted = s.space.grant(one);
    REQUIRE(granted == slots[static_cast<size_t>(i)]);
    REQUIRE(s.headers[granted->value()].state == SlotState::kRetired);  // until it is taken
    REQUIRE(s.headers[granted->value()].generation == Generation(1));
  }
  s.space.check_invariants();
}

TEST_CASE("slot space: what comes back unused goes out first, what was begun goes out last",
          "[unit]") {
  Space s;
  const SizeClassIndex one = s.classes.ensure(1024).value();
  REQUIRE(s.space.grow(one));
  const SlotIndex a = s.space.grant(one).value();
  const SlotIndex b = s.space.grant(one).value();
  s.space.ungrant(a);
  REQUIRE(s.space.grant(one) == a);
  begin_life(s.headers[b.value()]);
  s.space.discard(b);
  REQUIRE(s.headers[b.value()].state == SlotState::kFree);
  for (int i = 0; i < 6; ++i) {
    REQUIRE(s.space.grant(one) != b);
  }
  REQUIRE(s.space.grant(one) == b);
}

TEST_CASE("slot space: a released extent moves the generations of its slots on", "[unit]") {
  Space s;
  const SizeClassIndex two = s.classes.ensure(2 * 1024).value();
  const SizeClassIndex one = s.classes.ensure(1024).value();
  REQUIRE(s.space.grow(two));
  const SlotIndex first = s.publish(two);
  const SlotIndex second = s.publish(two);
  s.space.retire(first);
  s.space.retire(second);
  REQUIRE(s.space.idle_extent_count() == 1);
  s.space.release(s.space.by_address()[0]);
  s.space.check_invariants();
  REQUIRE(s.headers[first.value()].generation == Generation(2));
  REQUIRE(s.headers[second.value()].generation == Generation(2));
  REQUIRE(s.headers[1].generation == Generation(0));  // no slot began there
  REQUIRE(s.space.grow(one));
  for (int i = 0; i < 8; ++i) {
    s.publish(one);
  }
  s.space.check_invariants();
  REQUIRE(s.headers[second.value()].generation == Generation(3));
}

}  // namespace
}  // namespace peercache
