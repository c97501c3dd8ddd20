#include "dataplane/engine/striping.h"

#include <bit>

#include "dataplane/base/assert.h"

namespace peercache {

namespace {

// A degraded rail (errors lately, or probing after a failure) still gets work, so that its recovery is noticed, but a
// small share: with four times the weight it carries a fifth beside one healthy rail.
constexpr uint64_t kDegradedWeight = 4;

constexpr RailMask bit(uint32_t position) { return RailMask{1} << position; }

uint64_t cost(const RailLoad& load, uint64_t bytes) noexcept {
  const uint64_t after = load.bytes_in_flight + bytes;
  return load.state == RailState::kDegraded ? after * kDegradedWeight : after;
}

}  // namespace

RailMask candidate_rails(std::span<const RailLoad> loads,
                         RailMask reachable,
                         RailMask avoid) noexcept {
  RailMask up = 0;
  RailMask local = 0;
  for (RailMask rest = reachable & ~avoid; rest != 0; rest &= rest - 1) {
    const auto position = static_cast<uint32_t>(std::countr_zero(rest));
    PC_ASSERT(position < loads.size(), position, loads.size());
    if (loads[position].state != RailState::kDown) {
      up |= bit(position);
      local |= loads[position].client_driven ? bit(position) : 0;
    }
  }
  return local != 0 ? local : up;
}

RailChoice pick_rail(std::span<const RailLoad> loads,
                     RailMask reachable,
                     RailMask avoid,
                     uint64_t bytes,
                     const StripingPolicy& policy) noexcept {
  const RailMask candidates = candidate_rails(loads, reachable, avoid);
  if (candidates == 0) {
    return {.kind = RailChoice::Kind::kNone, .position = 0};
  }
  const bool has_choice = (candidates & (candidates - 1)) != 0;
  // Bits from first_position upwards come first, then those below it.
  const RailMask low = bit(policy.first_position % 32) - 1;
  RailChoice best{.kind = RailChoice::Kind::kWait, .position = 0};
  uint64_t best_cost = 0;
  for (const RailMask part : {candidates & ~low, candidates & low}) {
    for (RailMask rest = part; rest != 0; rest &= rest - 1) {
      const auto position = static_cast<uint32_t>(std::countr_zero(rest));
      const RailLoad& load = loads[position];
      const bool in_window =
          !has_choice || load.bytes_mine == 0 || load.bytes_mine + bytes <= policy.lane_window_bytes;
      if (!load.has_room || !in_window) {
        continue;
      }
      const uint64_t this_cost = cost(load, bytes);
      if (best.kind == RailChoice::Kind::kWait || this_cost < best_cost) {
        best = {.kind = RailChoice::Kind::kRail, .position = position};
        best_cost = this_cost;
      }
    }
  }
  return best;
}

}  // namespace peercache
