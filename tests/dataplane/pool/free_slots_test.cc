#include "dataplane/pool/free_slots.h"

#include <deque>
#include <random>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

TEST_CASE("free slots: oldest first; what was not used goes out next", "[unit]") {
  FreeSlots free;
  REQUIRE(free.open(10).has_value());
  const SizeClassIndex size_class(3);
  REQUIRE_FALSE(free.pop_front(size_class).has_value());
  free.push_back(size_class, SlotIndex(5));
  free.push_back(size_class, SlotIndex(0));
  free.push_back(size_class, SlotIndex(9));
  free.push_front(size_class, SlotIndex(2));
  free.push_back(SizeClassIndex(0), SlotIndex(7));
  REQUIRE(free.count(size_class) == 4);
  free.remove(size_class, SlotIndex(0));
  REQUIRE(free.pop_front(size_class) == SlotIndex(2));
  REQUIRE(free.pop_front(size_class) == SlotIndex(5));
  REQUIRE(free.pop_front(size_class) == SlotIndex(9));
  REQUIRE(free.count(size_class) == 0);
  REQUIRE(free.pop_front(SizeClassIndex(0)) == SlotIndex(7));
}

TEST_CASE("free slots: behave like a deque", "[unit]") {
  const uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  FreeSlots free;
  REQUIRE(free.open(64).has_value());
  std::deque<uint32_t> model;
  const SizeClassIndex size_class(0);
  for (int i = 0; i < 20000; ++i) {
    const auto slot = static_cast<uint32_t>(random() % 64);
    const auto found = std::find(model.begin(), model.end(), slot);
    if (found != model.end()) {
      free.remove(size_class, SlotIndex(slot));
      model.erase(found);
    } else if (random() % 2 == 0) {
      free.push_back(size_class, SlotIndex(slot));
      model.push_back(slot);
    } else {
      free.push_front(size_class, SlotIndex(slot));
      model.push_front(slot);
    }
    std::vector<uint32_t> listed;
    free.for_each(size_class, [&](SlotIndex at) { listed.push_back(at.value()); });
    REQUIRE(std::equal(listed.begin(), listed.end(), model.begin(), model.end()));
  }
}

}  // namespace
}  // namespace peercache
