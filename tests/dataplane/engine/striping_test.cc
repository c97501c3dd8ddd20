#include "dataplane/engine/striping.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

namespace peercache {
namespace {

using Kind = RailChoice::Kind;
constexpr StripingPolicy kPolicy{.lane_window_bytes = 1 << 20, .first_position = 0};

std::vector<RailLoad> idle(size_t count) { return std::vector<RailLoad>(count); }

// Gives `count` operations of `bytes` to rails of which each drains at its own rate; returns what each carried.
std::vector<uint64_t> simulate(std::vector<RailLoad> loads,
                               const std::vector<uint64_t>& bytes_per_step,
                               uint32_t count,
                               uint64_t bytes) {
  std::vector<uint64_t> carried(loads.size());
  std::vector<uint64_t> credit(loads.size());
  while (count > 0) {
    while (count > 0) {
      const RailChoice choice =
          pick_rail(loads, (RailMask{1} << loads.size()) - 1, 0, bytes, kPolicy);
      if (choice.kind != Kind::kRail) {
        break;
      }
      loads[choice.position].bytes_in_flight += bytes;
      loads[choice.position].bytes_mine += bytes;
      carried[choice.position] += bytes;
      --count;
    }
    for (size_t i = 0; i < loads.size(); ++i) {
      credit[i] += bytes_per_step[i];
      while (loads[i].bytes_mine >= bytes && credit[i] >= bytes) {
        credit[i] -= bytes;
        loads[i].bytes_mine -= bytes;
        loads[i].bytes_in_flight -= bytes;
      }
    }
  }
  return carried;
}

}  // namespace

TEST_CASE("striping: no candidate, a full one and a free one are told apart", "[unit]") {
  auto loads = idle(2);
  CHECK(pick_rail(loads, 0b00, 0, 4096, kPolicy).kind == Kind::kNone);
  CHECK(pick_rail(loads, 0b01, 0b01, 4096, kPolicy).kind == Kind::kNone);
  loads[0].has_room = false;
  CHECK(pick_rail(loads, 0b01, 0, 4096, kPolicy).kind == Kind::kWait);
  loads[0].has_room = true;
  const RailChoice choice = pick_rail(loads, 0b01, 0, 4096, kPolicy);
  CHECK(choice.kind == Kind::kRail);
  CHECK(choice.position == 0);
}

TEST_CASE("striping: a rail that is down gets nothing, a degraded one little", "[unit]") {
  auto loads = idle(2);
  loads[0].state = RailState::kDown;
  CHECK(pick_rail(loads, 0b11, 0, 4096, kPolicy).position == 1);
  CHECK(pick_rail(loads, 0b01, 0, 4096, kPolicy).kind == Kind::kNone);
  loads[0].state = RailState::kDegraded;
  std::array<int, 2> carried{};
  for (int i = 0; i < 100; ++i) {
    const RailChoice choice = pick_rail(loads, 0b11, 0, 4096, kPolicy);
    REQUIRE(choice.kind == Kind::kRail);
    ++carried[choice.position];
    loads[choice.position].bytes_in_flight += 4096;
  }
  CHECK(carried[0] >= 15);
  CHECK(carried[0] <= 25);
}

TEST_CASE("striping: equal rails share evenly and the answer is deterministic", "[unit]") {
  for (int run = 0; run < 2; ++run) {
    auto loads = idle(4);
    std::array<int, 4> carried{};
    for (int i = 0; i < 64; ++i) {
      const RailChoice choice = pick_rail(loads, 0b1111, 0, 4096, kPolicy);
      ++carried[choice.position];
      loads[choice.position].bytes_in_flight += 4096;
      CHECK(choice.position == static_cast<uint32_t>(i % 4));
    }
    CHECK(carried == std::array<int, 4>{16, 16, 16, 16});
  }
}

TEST_CASE("striping: clients start at different rails", "[unit]") {
  const auto loads = idle(4);
  for (uint32_t first = 0; first < 4; ++first) {
    const StripingPolicy policy{.lane_window_bytes = 1 << 20, .first_position = first};
    CHECK(pick_rail(loads, 0b1111, 0, 4096, policy).position == first);
  }
  const StripingPolicy last{.lane_window_bytes = 1 << 20, .first_position = 3};
  CHECK(pick_rail(loads, 0b0110, 0, 4096, last).position == 1);
}

TEST_CASE("striping: client-driven rails are preferred, unless they failed", "[unit]") {
  auto loads = idle(3);
  loads[1].client_driven = true;
  loads[1].bytes_in_flight = 1 << 19;
  CHECK(candidate_rails(loads, 0b111, 0) == 0b010);
  CHECK(pick_rail(loads, 0b111, 0, 4096, kPolicy).position == 1);
  CHECK(pick_rail(loads, 0b101, 0, 4096, kPolicy).position == 0);
  CHECK(candidate_rails(loads, 0b111, 0b010) == 0b101);
  CHECK(pick_rail(loads, 0b111, 0b010, 4096, kPolicy).position == 0);
}

TEST_CASE("striping: a retry goes to another rail than the one that failed", "[unit]") {
  auto loads = idle(2);
  loads[1].bytes_in_flight = 1 << 19;
  CHECK(pick_rail(loads, 0b11, 0b01, 4096, kPolicy).position == 1);
}

TEST_CASE("striping: above its window a rail waits only where another could help", "[unit]") {
  auto loads = idle(2);
  for (RailLoad& load : loads) {
    load.bytes_mine = load.bytes_in_flight = kPolicy.lane_window_bytes;
  }
  CHECK(pick_rail(loads, 0b11, 0, 4096, kPolicy).kind == Kind::kWait);
  CHECK(pick_rail(loads, 0b01, 0, 4096, kPolicy).kind == Kind::kRail);
  // One operation larger than the window still goes, alone.
  loads[1].bytes_mine = loads[1].bytes_in_flight = 0;
  const RailChoice choice = pick_rail(loads, 0b11, 0, 4 << 20, kPolicy);
  CHECK(choice.kind == Kind::kRail);
  CHECK(choice.position == 1);
}

TEST_CASE("striping: a rail of a quarter of the speed carries about a fifth", "[unit]") {
  const std::vector<uint64_t> carried = simulate(idle(2), {256 << 10, 64 << 10}, 4096, 64 << 10);
  const double share = static_cast<double>(carried[1]) / static_cast<double>(carried[0] + carried[1]);
  CHECK(share > 0.15);
  CHECK(share < 0.25);
}

}  // namespace peercache
