#include "dataplane/pool/extent_allocator.h"

#include <map>
#include <random>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

TEST_CASE("extent allocator: first fit from the low end, and neighbours are joined", "[unit]") {
  ExtentAllocator allocator(100, 50);
  REQUIRE(allocator.allocate(10) == GranuleRun{0, 10});
  REQUIRE(allocator.allocate(20) == GranuleRun{10, 20});
  REQUIRE(allocator.allocate(70) == GranuleRun{30, 70});
  REQUIRE_FALSE(allocator.allocate(1).has_value());
  allocator.free({10, 20});
  REQUIRE_FALSE(allocator.allocate(21).has_value());
  REQUIRE(allocator.allocate(5) == GranuleRun{10, 5});
  allocator.free({0, 10});
  REQUIRE(allocator.free_runs().size() == 2);
  allocator.free({10, 5});  // joins both sides
  REQUIRE(allocator.free_runs().size() == 1);
  REQUIRE(allocator.longest_free_count() == 30);
  allocator.free({30, 70});
  REQUIRE(allocator.free_runs()[0] == GranuleRun{0, 100});
  allocator.check_invariants();
}

TEST_CASE("extent allocator: random use keeps every granule in one hand", "[unit]") {
  const uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  ExtentAllocator allocator(500, 501);
  std::map<uint64_t, uint64_t> out;  // first -> count
  uint64_t out_count = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0) {
      const uint64_t count = random() % 40 + 1;
      const uint64_t longest = allocator.longest_free_count();
      const auto run = allocator.allocate(count);
      REQUIRE(run.has_value() == (count <= longest));
      if (run) {
        const auto after = out.lower_bound(run->first_index);
        REQUIRE((after == out.end() || after->first >= run->end_index()));
        REQUIRE((after == out.begin() ||
                 std::prev(after)->first + std::prev(after)->second <= run->first_index));
        out[run->first_index] = run->count;
        out_count += count;
      }
    } else if (!out.empty()) {
      const auto chosen = std::next(out.begin(), static_cast<ptrdiff_t>(random() % out.size()));
      allocator.free({chosen->first, chosen->second});
      out_count -= chosen->second;
      out.erase(chosen);
    }
    allocator.check_invariants();
    REQUIRE(allocator.free_count() + out_count == 500);
  }
}

}  // namespace
}  // namespace peercache
