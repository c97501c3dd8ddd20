#pragma once

#include <cstdint>
#include <span>

#include "dataplane/rail/rail_handle.h"

namespace peercache {

/// What the choice of a rail depends on; one entry per rail of a client.
struct RailLoad {
  uint64_t bytes_in_flight = 0;  ///< given to the rail and not back yet, by this client and (estimated) by others
  uint64_t bytes_mine = 0;       ///< this client's part
  RailState state = RailState::kUp;
  bool client_driven = false;
  bool has_room = true;          ///< its lane takes one more request
};

/// A set of rails of one client: bit i is the rail at position i.
using RailMask = uint32_t;

/// What `pick_rail` decided.
struct RailChoice {
  enum class Kind : uint8_t {
    kRail,   ///< use `position`
    kWait,   ///< all candidates are full: keep the operation and ask again
    kNone,   ///< no candidate at all
  };
  Kind kind = Kind::kNone;
  uint32_t position = 0;
};

/// How the caller wants rails weighed.
struct StripingPolicy {
  uint64_t lane_window_bytes = 0;  ///< see EngineOptions
  uint32_t first_position = 0;     ///< ties go to the first candidate from here on: clients start at different rails
};

/// Picks the rail of one operation. Pure: the same arguments give the same answer.
///
/// Rails of `reachable` that are down are left out, and so is every rail of `avoid` (where an earlier attempt failed).
/// If any of the rest is client-driven, only those count: the peer is on this host. Among what is left the rail with the
/// fewest bytes in flight gets the operation (a degraded one counts four times), so that a slow rail, whose bytes stay
/// longer, gets less. With more than one candidate a rail above its window does not get more: the operation waits until
/// the first of them drains. COST: one pass over the bits.
[[nodiscard]] RailChoice pick_rail(std::span<const RailLoad> loads,
                                   RailMask reachable,
                                   RailMask avoid,
                                   uint64_t bytes,
                                   const StripingPolicy& policy) noexcept;

/// The candidates that `pick_rail` chooses among: reachable, not down, not avoided, client-driven ones preferred.
[[nodiscard]] RailMask candidate_rails(std::span<const RailLoad> loads,
                                       RailMask reachable,
                                       RailMask avoid) noexcept;

}  // namespace peercache
