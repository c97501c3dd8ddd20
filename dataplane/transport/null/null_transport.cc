#include "dataplane/transport/null/null_transport.h"

namespace peercache {

Result<std::unique_ptr<NullTransport>> NullTransport::open(NullOptions options) {
  return std::unique_ptr<NullTransport>(new NullTransport(options));
}

Result<void> NullTransport::add_peer(PeerIndex peer, std::span<const NullRegion> regions) {
  if (peer.value() >= limits::kPeersMax) {
    return make_error(Errc::kTooManyPeers, "null: peer {} of at most {}", peer, limits::kPeersMax);
  }
  if (regions.size() > limits::kRegionsPerNodeMax) {
    return make_error(Errc::kTooManyRegions, "null: {} regions of at most {}", regions.size(),
                      limits::kRegionsPerNodeMax);
  }
  auto& entry = peers_[peer.value()];
  if (entry.load(std::memory_order_relaxed) != nullptr) {  // its own store
    return make_error(Errc::kAlreadyExists, "null: peer {} exists", peer);
  }
  auto table = std::make_unique<PeerTable>();
  for (const NullRegion& region : regions) {
    const uint16_t index = region.descriptor.region.value();
    if (index >= limits::kRegionsPerNodeMax) {
      return make_error(Errc::kNoSuchRegion, "null: region {} of at most {}", index,
                        limits::kRegionsPerNodeMax);
    }
    table->regions[index] = region;
  }
  // N2 release: meets N3 in execute; the table is complete.
  entry.store(table.get(), std::memory_order_release);
  tables_.push_back(std::move(table));
  return {};
}

Result<LocalKey> NullTransport::register_memory(const MemorySpec& /*memory*/) {
  return LocalKey{0};
}

void NullTransport::disconnect(PeerIndex peer) {
  PC_ASSERT(peer.value() < limits::kPeersMax, peer);
  // Relaxed is enough: the table stays where it is, whoever still sees it may use it.
  peers_[peer.value()].store(nullptr, std::memory_order_relaxed);
}

}  // namespace peercache
