#pragma once

#include <cstdint>

#include "dataplane/base/units.h"
#include "dataplane/wire/wire_types.h"

namespace peercache {

/// What a pool needs to know.
struct PoolOptions {
  uint32_t granule_bytes = 4096;    ///< smallest slot; a power of two, 64 to 1 MiB
  uint32_t client_count = 8;        ///< put handles
  uint32_t refill_max_count = 160;  ///< free slots kept ahead per client and class, at most
  uint64_t extent_bytes = 0;        ///< wanted bytes per extent; 0 = region / 64
  NodeId node{};                    ///< stamped into locations
  Incarnation incarnation{};
};

}  // namespace peercache
