#pragma once

#include <string>
#include <vector>

#include "controlplane/node/node_options.h"

namespace peercache {

/// Ranges of single options and rules between them. Returns all faults, each a line with names and
/// values; empty if there are none.
std::vector<std::string> validate_options(const NodeOptions& options);

}  // namespace peercache
