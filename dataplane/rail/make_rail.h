#pragma once

#include <memory>

#include "dataplane/base/result.h"
#include "dataplane/rail/managed_rail.h"
#include "dataplane/rail/rail_options.h"

namespace peercache {

class NullTransport;
class ShmTransport;
class SimTransport;

/// Makes a rail over a transport that was opened by its own function: make_rail.cc is the one
/// shared place where transports are named and `Rail` is instantiated for them. The caller may keep
/// the transport's address for its cold half; the rail owns it. Errors: those of Rail::open.
Result<std::unique_ptr<ManagedRail>> make_rail(const RailOptions& options,
                                               std::unique_ptr<NullTransport> transport);
Result<std::unique_ptr<ManagedRail>> make_rail(const RailOptions& options,
                                               std::unique_ptr<SimTransport> transport);

Result<std::unique_ptr<ManagedRail>> make_rail(const RailOptions& options,
                                               std::unique_ptr<ShmTransport> transport);

}  // namespace peercache
