#pragma once

#include <string>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace peercache {

/// What this process can still take without being killed.
///
/// THREAD:     any; a value.
struct MemoryBudget {
  Bytes host_available{};    ///< MemAvailable of the host
  Bytes cgroup_available{};  ///< least of limit minus usage over the cgroup and its ancestors;
                             ///< kNoLimit if none
  bool cgroup_limited = false;

  static constexpr Bytes kNoLimit{UINT64_MAX};

  [[nodiscard]] Bytes available() const noexcept {
    return host_available < cgroup_available ? host_available : cgroup_available;
  }
};

/// Reads the host's free memory and the limits of this process's cgroup and all its ancestors,
/// versions 1 and 2 (a host may mount both). Page cache that the kernel can drop counts as
/// available. `root` is put before every path, for tests on recorded trees. Errors: kSystem (no
/// meminfo), kBadValue (a file that does not say what it should).
[[nodiscard]] Result<MemoryBudget> read_memory_budget(const std::string& root = "");

/// An error instead of an OOM kill: whether `wanted` bytes can be taken with `headroom` left.
/// Errors: kMemoryBudget (values: wanted, headroom, available), and read_memory_budget's.
[[nodiscard]] Result<void> check_memory_budget(Bytes wanted,
                                               Bytes headroom,
                                               const std::string& root = "");

}  // namespace peercache
