#include "dataplane/transport/sim/sim_transport.h"

namespace peercache {

SimTransport::SimTransport(SimFabric& fabric, SimTransportOptions options)
    : fabric_(fabric), options_(options), operations_(options.depth_count) {
  free_.reserve(options.depth_count);
  for (uint32_t i = options.depth_count; i > 0; --i) {
    free_.push_back(narrow<uint16_t>(i - 1));
  }
  completed_.resize(options.depth_count);
  node_of_.fill(kNoNode);
}

Result<std::unique_ptr<SimTransport>> SimTransport::open(SimFabric& fabric,
                                                         SimTransportOptions options) {
  if (options.depth_count == 0 || options.depth_count > UINT16_MAX) {
    return make_error(Errc::kOutOfRange, "sim: depth {} is not in 1 to 65535", options.depth_count);
  }
  if (fabric.transports_.size() == fabric.options_.transports_max_count) {
    return make_error(Errc::kOutOfRange, "sim: more than {} transports",
                      fabric.options_.transports_max_count);
  }
  auto transport = std::unique_ptr<SimTransport>(new SimTransport(fabric, options));
  // One event for each request in flight, and one fence per peer under way.
  transport->index_ =
      fabric.attach(*transport, options.depth_count + static_cast<uint32_t>(limits::kPeersMax));
  return transport;
}

SimTransport::~SimTransport() { fabric_.detach(index_); }

Result<void> SimTransport::connect(PeerIndex peer, SimNode node) {
  if (peer.value() >= limits::kPeersMax) {
    return make_error(Errc::kTooManyPeers, "sim: peer {} of at most {}", peer, limits::kPeersMax);
  }
  if (node.value() >= fabric_.nodes_.size()) {
    return make_error(Errc::kNotFound, "sim: no node {}", node);
  }
  if (node_of_[peer.value()] != kNoNode) {
    return make_error(Errc::kAlreadyExists, "sim: peer {} is connected", peer);
  }
  node_of_[peer.value()] = node.value();
  return {};
}

Result<LocalKey> SimTransport::register_memory(const MemorySpec& /*memory*/) { return LocalKey{0}; }

void SimTransport::disconnect(PeerIndex peer) {
  PC_ASSERT(peer.value() < limits::kPeersMax, peer);
  node_of_[peer.value()] = kNoNode;
  for (uint32_t slot = 0; slot < operations_.size(); ++slot) {
    if (operations_[slot].in_flight && operations_[slot].request.peer == peer) {
      finish(static_cast<uint16_t>(slot), OpStatus::kPeerLost);
    }
  }
  fabric_.drop_dead_events(index_);
}

void SimTransport::check_invariants() const {
  uint32_t in_flight_count = 0;
  for (const Operation& operation : operations_) {
    in_flight_count += operation.in_flight ? 1 : 0;
    PC_ASSERT(operation.chunks_done <= operation.chunk_count, operation.chunks_done);
  }
  PC_ASSERT(in_flight_count == in_flight_count_, in_flight_count, in_flight_count_);
  PC_ASSERT(free_.size() + in_flight_count_ == options_.depth_count, free_.size());  // (T1)
  PC_ASSERT(in_flight_count_ + completed_count_ <= options_.depth_count, completed_count_);
}

}  // namespace peercache
