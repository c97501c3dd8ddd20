#pragma once

#include <cstdint>

#include "dataplane/base/key.h"

namespace peercache {

/// Where an object stands in a prefix: eviction takes tails before heads and all objects of a group
/// together.
///
/// THREAD:     any; a value.
struct GroupPlace {
  Key128 group;             ///< usually the page's own key; shared by all objects of one page
  Key128 parent;            ///< group before it in the prefix, or zero
  uint32_t position_index;  ///< in the prefix, as far as the call's key order tells
};

}  // namespace peercache
