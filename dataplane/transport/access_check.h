#pragma once

#include <cstdint>

#include "dataplane/transport/work_request.h"
#include "dataplane/wire/region_descriptor.h"

namespace peercache {

/// Whether the kind of a region allows an operation (wire/region_descriptor.h says what each kind
/// is for).
[[nodiscard]] constexpr bool kind_allows(RegionKind kind, OpKind op) noexcept {
  switch (op) {
    case OpKind::kRead:
      return kind != RegionKind::kDestination;
    case OpKind::kWrite:
      return kind == RegionKind::kWritable;
    case OpKind::kLookup:
      return kind == RegionKind::kDirectory;
  }
  return false;
}

/// Judges a request against the region it names, before any byte is touched: kOk, or kOutOfBounds
/// for a kind that does not allow it, a range outside the region, an empty READ or WRITE, or a
/// directory that is not whole buckets.
[[nodiscard]] constexpr OpStatus check_access(const RegionDescriptor& region,
                                              const WorkRequest& request) noexcept {
  if (!kind_allows(region.kind, request.kind)) {
    return OpStatus::kOutOfBounds;
  }
  if (request.kind == OpKind::kLookup) {
    const bool whole = region.length_bytes != 0 && region.length_bytes % sizeof(Bucket) == 0;
    return whole && request.remote_offset_bytes == 0 ? OpStatus::kOk : OpStatus::kOutOfBounds;
  }
  const bool inside = request.length_bytes != 0 && request.length_bytes <= region.length_bytes &&
                      request.remote_offset_bytes <= region.length_bytes - request.length_bytes;
  return inside ? OpStatus::kOk : OpStatus::kOutOfBounds;
}

}  // namespace peercache
