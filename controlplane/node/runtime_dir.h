#pragma once

#include <string>

#include "dataplane/base/result.h"

namespace peercache {

/// Finds or makes the directory for sockets and core claims: `wanted` if not empty, else /run/peercache if writable, else
/// /tmp/peercache-UID. Mode 0700; a directory that belongs to another user or that others may write is refused.
/// Errors: kSystem, kPermission.
Result<std::string> open_runtime_dir(const std::string& wanted);

/// The kernel's boot id: equal for all processes of a host, containers included. Empty if it cannot be read.
std::string boot_id();

}  // namespace peercache
