#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/units.h"

namespace peercache::perf {

/// One copy of the plan that ceiling and subject share: same pieces, same order, same memory.
struct CopyStep {
  std::byte* to;
  const std::byte* from;
  size_t bytes;
};

/// What one thread can do with these pieces: goes through the plan again and again until `time` has
/// passed, starting at
/// `cursor` (which moves on, so that the next run meets other pages). Bytes per second.
double memcpy_rate(std::span<const CopyStep> plan, size_t& cursor, Nanos time);
double streaming_rate(std::span<const CopyStep> plan, size_t& cursor, Nanos time);

}  // namespace peercache::perf
