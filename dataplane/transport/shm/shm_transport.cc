#include "dataplane/transport/shm/shm_transport.h"

#include "dataplane/base/assert.h"

namespace peercache {

static_assert(Transport<ShmTransport>);

Result<std::unique_ptr<ShmTransport>> ShmTransport::open(ShmEndpoint& endpoint,
                                                         WakeEvent* client_event) {
  ShmPort* port = endpoint.lease_port(client_event);
  if (port == nullptr) {
    return make_error(Errc::kNoClient, "all {} ports of the shm endpoint are leased",
                      limits::kClientsMax);
  }
  return std::unique_ptr<ShmTransport>(new ShmTransport(endpoint, *port));
}

ShmTransport::~ShmTransport() {
  check_invariants();
  PC_ASSERT(under_way() == 0, small_.count(), bulk_.count(), port_.board.running(), writes_count_);
  endpoint_.release_port(port_);
}

Result<LocalKey> ShmTransport::register_memory(const MemorySpec& /*memory*/) { return LocalKey(0); }

void ShmTransport::check_invariants() const {
  PC_ASSERT(under_way() <= kDepth, under_way());  // (S1)
  PC_ASSERT(writes_count_ <= ShmPort::kWritesMax, writes_count_);
}

}  // namespace peercache
