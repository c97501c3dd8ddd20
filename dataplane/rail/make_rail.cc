#include "dataplane/rail/make_rail.h"

#include <utility>

#include "dataplane/rail/rail.h"
#include "dataplane/transport/null/null_transport.h"
#include "dataplane/transport/shm/shm_transport.h"
#include "dataplane/transport/sim/sim_transport.h"

namespace peercache {

namespace {

template <Transport T>
Result<std::unique_ptr<ManagedRail>> make(const RailOptions& options,
                                          std::unique_ptr<T> transport) {
  PC_TRY_ASSIGN(std::unique_ptr<ManagedRail> rail, Rail<T>::open(options, std::move(transport)));
  return rail;
}

}  // namespace

Result<std::unique_ptr<ManagedRail>> make_rail(const RailOptions& options,
                                               std::unique_ptr<NullTransport> transport) {
  return make(options, std::move(transport));
}

Result<std::unique_ptr<ManagedRail>> make_rail(const RailOptions& options,
                                               std::unique_ptr<SimTransport> transport) {
  return make(options, std::move(transport));
}

Result<std::unique_ptr<ManagedRail>> make_rail(const RailOptions& options,
                                               std::unique_ptr<ShmTransport> transport) {
  return make(options, std::move(transport));
}

}  // namespace peercache
