#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/rail/make_rail.h"
#include "dataplane/rail/managed_rail.h"
#include "dataplane/rail/rail_options.h"
#include "dataplane/transport/sim/sim_fabric.h"
#include "dataplane/transport/sim/sim_transport.h"
#include "dataplane/wire/location.h"
#include "dataplane/wire/region_descriptor.h"
#include "dataplane/wire/slot_header.h"

namespace peercache::test {

/// Regions of every simulated peer.
inline constexpr RegionIndex kSimPublished{0};
inline constexpr RegionIndex kSimHeaders{1};
inline constexpr RegionIndex kSimDirectory{2};
inline constexpr RegionIndex kSimWritable{3};

/// THREAD: any; a value.
struct SimClusterOptions {
  uint64_t seed = 1;
  uint32_t peers_count = 2;
  uint32_t rails_count = 1;
  uint32_t slots_count = 256;  ///< granules per peer
  uint32_t granule_bytes = 4096;
  uint32_t buckets_count = 256;
  uint64_t writable_bytes = 1 << 20;
  SimFaults faults{};  ///< of all links, to begin with
  RailOptions rail{};  ///< index and clock are set per rail
  uint32_t depth_count = limits::kInflightPerRail;
  bool drive_on_poll = false;  ///< for code that waits (SimFabricOptions)
};

/// A peer of the simulation: its memory, and a minimal owner that publishes patterns whose every
/// word depends on key, generation and offset, so that a byte of another life or place is found
/// out.
///
/// THREAD:     the fabric's.
/// OWNS:       published bytes, header table, directory table, writable region.
class SimPeer {
 public:
  SimPeer(const SimClusterOptions& options, uint64_t node)
      : granule_bytes_(options.granule_bytes),
        node_(node),
        bytes_(size_t{options.slots_count} * options.granule_bytes / sizeof(Line)),
        headers_(options.slots_count),
        buckets_(options.buckets_count),
        writable_(options.writable_bytes / sizeof(Line)) {
    for (size_t i = 0; i < headers_.size(); ++i) {
      headers_[i].offset_bytes = i * granule_bytes_;
    }
  }

  /// The table as peers see it.
  std::vector<RegionDescriptor> regions() const {
    std::vector<RegionDescriptor> out;
    for (const SimRegion& region : sim_regions()) {
      out.push_back(region.descriptor);
    }
    return out;
  }
  std::vector<SimRegion> sim_regions() const {
    const auto region = [](RegionIndex index, RegionKind kind, const auto& memory,
                           uint32_t granule_bytes) {
      SimRegion out;
      out.descriptor.length_bytes = memory.size() * sizeof(memory[0]);
      out.descriptor.region = index;
      out.descriptor.kind = kind;
      out.descriptor.headers_region = granule_bytes != 0 ? kSimHeaders : RegionIndex(0);
      out.descriptor.granule_bytes = granule_bytes;
      out.memory = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(memory.data()));
      return out;
    };
    return {region(kSimPublished, RegionKind::kPublished, bytes_, granule_bytes_),
            region(kSimHeaders, RegionKind::kHeaders, headers_, 0),
            region(kSimDirectory, RegionKind::kDirectory, buckets_, 0),
            region(kSimWritable, RegionKind::kWritable, writable_, 0)};
  }

  std::byte* bytes() { return reinterpret_cast<std::byte*>(bytes_.data()); }
  std::byte* writable() { return reinterpret_cast<std::byte*>(writable_.data()); }
  SlotHeader& header(uint32_t slot) { return headers_[slot]; }
  Bucket* buckets() { return buckets_.data(); }
  uint64_t bucket_count() const { return buckets_.size(); }

  /// One step of a slot's life each, in the order that design 6 asks for.
  void begin_life(uint32_t slot) {
    SlotHeader& header = headers_[slot];
    header.generation = next(header.generation);
    header.state = SlotState::kFilling;
    header.key = Key128{};
  }
  void fill(uint32_t slot, const Key128& key, uint32_t length_bytes) {
    fill_pattern({bytes() + size_t{slot} * granule_bytes_, length_bytes}, key,
                 headers_[slot].generation);
  }
  Location finish_life(uint32_t slot, const Key128& key, uint32_t length_bytes) {
    SlotHeader& header = headers_[slot];
    header.key = key;
    header.length_bytes = length_bytes;
    header.state = SlotState::kPublished;
    Location location{};
    location.key = key;
    location.node = NodeId(node_);
    location.offset_bytes = header.offset_bytes;
    location.sequence = Sequence(++sequence_);
    location.slot = SlotIndex(slot);
    location.generation = header.generation;
    location.length_bytes = length_bytes;
    location.incarnation = Incarnation(1);
    location.region = kSimPublished;
    seal(location);
    return location;
  }
  /// A whole life at one instant. REQUIRES: the object fits between the slot and the end of the
  /// region.
  Location publish(uint32_t slot, const Key128& key, uint32_t length_bytes) {
    begin_life(slot);
    fill(slot, key, length_bytes);
    return finish_life(slot, key, length_bytes);
  }
  void retire(uint32_t slot) { headers_[slot].state = SlotState::kRetired; }

  /// Puts a record into the first free place of its buckets. False if both are full.
  bool insert(const Location& location) {
    const BucketPair pair = candidate_buckets(location.key, buckets_.size());
    for (const uint64_t at : {pair.first_index, pair.second_index}) {
      for (Location& record : buckets_[at].records) {
        if (is_empty(record)) {
          record = location;
          return true;
        }
      }
    }
    return false;
  }

  static uint64_t pattern_word(const Key128& key, Generation generation, uint64_t at) {
    uint64_t word = key.low ^ (key.high << 1) ^ (uint64_t{generation.value()} << 40) ^ at;
    word *= 0x9e3779b97f4a7c15;
    return word ^ (word >> 29);
  }
  static void fill_pattern(std::span<std::byte> out, const Key128& key, Generation generation) {
    for (size_t at = 0; at < out.size(); at += sizeof(uint64_t)) {
      const uint64_t word = pattern_word(key, generation, at);
      std::memcpy(out.data() + at, &word, std::min(sizeof(word), out.size() - at));
    }
  }
  /// Whether `bytes` are, from the first to the last, what the life that `location` names holds.
  static bool holds_pattern(std::span<const std::byte> bytes, const Location& location) {
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
      const uint64_t word = pattern_word(location.key, location.generation, at);
      if (std::memcmp(bytes.data() + at, &word, std::min(sizeof(word), bytes.size() - at)) != 0) {
        return false;
      }
    }
    return true;
  }

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes{};
  };

  const uint32_t granule_bytes_;
  const uint64_t node_;
  uint64_t sequence_ = 0;
  std::vector<Line> bytes_;
  std::vector<SlotHeader> headers_;
  std::vector<Bucket> buckets_;
  std::vector<Line> writable_;
};

/// A simulated fabric with some peers (peer i is PeerIndex i on every rail) and some rails of this
/// node, all connected, and nothing else: everything runs on the test's thread, time moves when
/// told.
///
/// THREAD:     the test's.
/// OWNS:       fabric, peers, rails; RailHandles may be taken out for an engine, which must then go
///             first.
class SimCluster {
 public:
  explicit SimCluster(SimClusterOptions options = {})
      : options_(options),
        fabric_(SimFabricOptions{.seed = options.seed,
                                 .nodes_max_count = std::max(options.peers_count, 1U) + 8,
                                 .transports_max_count = options.rails_count + 8,
                                 .drive_on_poll = options.drive_on_poll}) {
    fabric_.set_faults(options.faults);
    for (uint32_t i = 0; i < options.peers_count; ++i) {
      peers_.push_back(std::make_unique<SimPeer>(options, i + 1));
      nodes_.push_back(fabric_.add_node(peers_.back()->sim_regions()).value());
    }
    for (uint32_t i = 0; i < options.rails_count; ++i) {
      add_rail(options.rail);
    }
  }

  /// One more rail, connected to all peers.
  ManagedRail& add_rail(RailOptions rail_options) {
    rail_options.rail = RailIndex(static_cast<uint16_t>(transports_.size()));
    rail_options.clock = fabric_.clock();
    auto transport =
        SimTransport::open(fabric_, SimTransportOptions{.depth_count = options_.depth_count});
    transports_.push_back(transport.value().get());
    std::unique_ptr<ManagedRail> rail =
        make_rail(rail_options, std::move(transport).value()).value();
    for (uint16_t p = 0; p < nodes_.size(); ++p) {
      transports_.back()->connect(PeerIndex(p), nodes_[p]).value();
      rail->proxy().connect_peer(PeerIndex(p), probe_target()).value();
    }
    rail_pointers_.push_back(rail.get());
    rails_.push_back(std::move(rail));
    return *rail_pointers_.back();
  }

  static ProbeTarget probe_target() { return ProbeTarget{.region = kSimHeaders, .exists = true}; }

  SimFabric& fabric() { return fabric_; }
  Clock clock() const { return fabric_.clock(); }
  Nanos now() const { return fabric_.now(); }
  SimPeer& peer(uint32_t p) { return *peers_[p]; }
  SimNode node(uint32_t p) const { return nodes_[p]; }
  ManagedRail& rail(uint32_t r = 0) { return *rail_pointers_[r]; }
  SimTransport& transport(uint32_t r = 0) { return *transports_[r]; }
  SimFaults& link(uint32_t r, uint32_t p) { return fabric_.link(*transports_[r], nodes_[p]); }
  uint32_t rails_count() const { return static_cast<uint32_t>(rail_pointers_.size()); }

  std::vector<RailHandle*> handles() const {
    return {rail_pointers_.begin(), rail_pointers_.end()};
  }
  /// Hands the rails over (to an engine that owns them); rail() keeps working while they live.
  std::vector<std::unique_ptr<RailHandle>> take_rails() {
    std::vector<std::unique_ptr<RailHandle>> out;
    for (auto& rail : rails_) {
      out.push_back(std::move(rail));
    }
    rails_.clear();
    return out;
  }

  /// One turn of each rail. Returns the work done.
  int turn() {
    int work = 0;
    for (ManagedRail* rail : rail_pointers_) {
      work += rail->poll_once(fabric_.now());
    }
    return work;
  }

  /// Turns and events until `done()` or until `limit` of virtual time has passed. True if done.
  template <class Done>
  bool run_until(Done&& done, Nanos limit = Nanos(10'000'000'000)) {
    const Nanos end = fabric_.now() + limit;
    while (true) {
      const int work = turn();
      if (done()) {
        return true;
      }
      if (work != 0) {
        continue;
      }
      if (fabric_.now() >= end) {
        return false;
      }
      const Nanos soon = std::min(fabric_.now() + kTick, end);
      const std::optional<Nanos> next_at = fabric_.next_event_at();
      if (next_at.has_value() && *next_at <= soon) {
        fabric_.step();
      } else {
        fabric_.run_until(soon);
      }
    }
  }
  /// The same, for a stretch of time.
  void run_for(Nanos time) {
    const Nanos end = fabric_.now() + time;
    run_until([&] { return fabric_.now() >= end; }, time);
  }

  void check_invariants() const {
    fabric_.check_invariants();
    for (const ManagedRail* rail : rail_pointers_) {
      rail->check_invariants();
    }
  }

 private:
  /// Time passes in steps of at most this, so that a rail's timers are seen in time.
  static constexpr Nanos kTick{100'000};

  const SimClusterOptions options_;
  SimFabric fabric_;
  std::vector<std::unique_ptr<SimPeer>> peers_;
  std::vector<SimNode> nodes_;
  std::vector<SimTransport*> transports_;
  std::vector<std::unique_ptr<ManagedRail>> rails_;
  std::vector<ManagedRail*> rail_pointers_;
};

}  // namespace peercache::test
