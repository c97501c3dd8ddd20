#pragma once

#include <memory>
#include <vector>

#include "tests/conformance/fixture_options.h"
#include "tests/support/sim_cluster.h"

namespace peercache::test {

/// The engine over rails of the simulated fabric, everything stepped by the test.
///
/// THREAD:     the test's.
class SimFixture {
 public:
  static constexpr const char* kName = "sim";
  static constexpr OpKind kBlocks = OpKind::kRead;
  static constexpr uint32_t kRailsMax = 8;

  explicit SimFixture(const FixtureOptions& options) : cluster_(cluster_options(options)) {
    for (uint32_t p = 0; p < options.peers_count; ++p) {
      SimPeer& memory = cluster_.peer(p);
      owners_.push_back(OwnerView{.bytes = memory.bytes(),
                                  .headers = &memory.header(0),
                                  .buckets = memory.buckets(),
                                  .writable = memory.writable(),
                                  .slots_count = options.slots_count,
                                  .owner = p,
                                  .pattern = &pattern_});
      for (uint32_t i = 0; i < options.initial_count; ++i) {
        const Location at = owners_[p].publish(i * options.initial_stride, options.initial_bytes);
        PC_ASSERT(owners_[p].insert(at));
      }
      PeerInfo info;
      info.node = owners_[p].node();
      info.incarnation = Incarnation(1);
      for (const RegionDescriptor& region : memory.regions()) {
        info.regions[info.region_count++] = region;
      }
      const PeerIndex index = peers_->add(info).value();
      PC_ASSERT(index == PeerIndex(static_cast<uint16_t>(p)), index);
      peers_->set_state(index, PeerState::kUp);
    }
    if (options.slow_rail_percent != 100) {
      SimFaults slow = link_faults();
      slow.slow_percent = options.slow_rail_percent;
      cluster_.fabric().set_rail_faults(cluster_.transport(0), slow);
    }
    for (uint32_t c = 0; c < options.clients_count; ++c) {
      clients_.push_back(Client::open(ClientIndex(static_cast<uint16_t>(c)), options.engine,
                                      cluster_.handles(), *peers_, cluster_.clock())
                             .value());
    }
  }

  Client& client(uint32_t c = 0) { return *clients_[c]; }
  PeerIndex peer(uint32_t p = 0) const { return PeerIndex(static_cast<uint16_t>(p)); }
  const OwnerView& owner(uint32_t p = 0) const { return owners_[p]; }
  const PagePattern& pattern() const { return pattern_; }
  PeerDirectory& peers() { return *peers_; }
  Nanos now() const { return cluster_.now(); }
  SimCluster& cluster() { return cluster_; }

  template <class Done>
  bool run_until(Done&& done) {
    return cluster_.run_until([&] {
      for (const auto& client : clients_) {
        client->poll();
      }
      return done();
    });
  }

  void turn() {
    cluster_.turn();
    cluster_.fabric().step();
    for (const auto& client : clients_) {
      client->poll();
    }
  }

  void freeze(uint32_t p) {
    SimFaults lost = link_faults();
    lost.lost = true;
    lost.lost_write_ns = 400'000;  // bytes still arrive, until the fence
    cluster_.fabric().set_node_faults(cluster_.node(p), lost);
  }
  void thaw(uint32_t p) { cluster_.fabric().set_node_faults(cluster_.node(p), link_faults()); }
  void kill(uint32_t p) { cluster_.fabric().kill(cluster_.node(p)); }

  void check_invariants() {
    cluster_.check_invariants();
    for (const auto& client : clients_) {
      client->check_invariants();
    }
  }

 private:
  static SimFaults link_faults() {
    SimFaults faults;
    faults.jitter_ns = 500;
    faults.bandwidth_bytes_per_s = 12'500'000'000;  // 100 Gb/s
    faults.reorder_ppm = 50'000;
    faults.torn_ppm = 100'000;
    return faults;
  }
  static SimClusterOptions cluster_options(const FixtureOptions& options) {
    SimClusterOptions out;
    out.peers_count = options.peers_count;
    out.rails_count = options.rails_count;
    out.slots_count = options.slots_count;
    out.granule_bytes = kGranuleBytes;
    out.buckets_count = kBucketCount;
    out.writable_bytes = kWritableBytes;
    out.faults = link_faults();
    out.rail.operation_timeout_ms = options.operation_timeout_ms;
    return out;
  }

  const PagePattern pattern_{};
  SimCluster cluster_;
  std::vector<OwnerView> owners_;
  std::unique_ptr<PeerDirectory> peers_ = std::make_unique<PeerDirectory>();
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace peercache::test
