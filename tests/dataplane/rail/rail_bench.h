#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/rail/lane.h"
#include "dataplane/rail/op_record.h"
#include "tests/support/sim_cluster.h"

namespace peercache::test {

/// One client's lane on one rail of a cluster, and its records: what an engine would do, step by
/// step. Checks that every operation comes back exactly once.
///
/// THREAD:     the test's.
/// BORROWS:    the cluster.
class RailBench {
 public:
  explicit RailBench(SimCluster& cluster, uint32_t rail = 0, uint16_t client = 0)
      : cluster_(cluster),
        rail_(cluster.rail(rail)),
        lane_(*rail_.attach_lane(ClientIndex(client), nullptr).value()) {}

  /// One operation with its destination.
  struct Op {
    OpRecord record{};
    std::vector<std::byte> buffer;
    std::vector<LocalPiece> pieces;
    LookupBatch lookup{};
    uint32_t returns = 0;

    OpStatus status() const { return returns == 0 ? OpStatus::kPending : record.status; }
  };

  /// A validated READ of an object, not yet pushed.
  Op& read(uint16_t peer, const Location& location, uint32_t ticket = 0) {
    Op& op = add(peer, OpKind::kRead, location.length_bytes, ticket);
    op.record.target = location;
    op.record.region = location.region;
    op.record.headers_region = kSimHeaders;
    op.record.validation = Validation::kHeader;
    return op;
  }
  Op& write(uint16_t peer, uint64_t offset, uint32_t bytes, uint32_t ticket = 0) {
    Op& op = add(peer, OpKind::kWrite, bytes, ticket);
    op.record.target.offset_bytes = offset;
    op.record.region = kSimWritable;
    return op;
  }
  Op& lookup(uint16_t peer, const std::vector<Key128>& keys, std::vector<LookupResult>& results) {
    Op& op = add(peer, OpKind::kLookup, 0, 0);
    results.resize(keys.size());
    op.lookup = LookupBatch{keys.data(), results.data(), static_cast<uint32_t>(keys.size())};
    op.record.lookup = &op.lookup;
    op.record.piece_count = 0;
    op.record.region = kSimDirectory;
    return op;
  }

  Op& push(Op& op) {
    REQUIRE(lane_.requests.push(LaneRequest{.op = &op.record}));
    ++pushed_;
    return op;
  }
  void cancel(uint32_t ticket) {
    REQUIRE(lane_.requests.push(LaneRequest{.op = nullptr, .cancel_ticket_index = ticket}));
  }

  /// Takes what has come back. Returns how many.
  uint32_t drain() {
    uint32_t count = 0;
    OpRecord* record = nullptr;
    while (lane_.completions.pop(record)) {
      Op* op = ops_.at(record->op_index).get();
      REQUIRE(&op->record == record);
      ++op->returns;
      REQUIRE(op->returns == 1);
      REQUIRE(record->status != OpStatus::kPending);
      REQUIRE(record->status != OpStatus::kFlushed);
      REQUIRE(record->rail == rail_.index());
      ++returned_;
      ++count;
    }
    cluster_.check_invariants();
    return count;
  }
  bool all_back() {
    drain();
    return returned_ == pushed_;
  }
  /// Runs until everything pushed is back.
  void finish(Nanos limit = Nanos(10'000'000'000)) {
    REQUIRE(cluster_.run_until([&] { return all_back(); }, limit));
  }
  void run_for(Nanos time) {
    cluster_.run_for(time);
    drain();
  }
  uint32_t count(OpStatus status) const {
    uint32_t count = 0;
    for (const auto& op : ops_) {
      count += op->status() == status ? 1 : 0;
    }
    return count;
  }
  bool right(const Op& op) const { return SimPeer::holds_pattern(op.buffer, op.record.target); }

  SimCluster& cluster() { return cluster_; }
  ManagedRail& rail() { return rail_; }
  Lane& lane() { return lane_; }
  uint32_t returned() const { return returned_; }
  Op& op(size_t i) { return *ops_.at(i); }
  Nanos deadline = Nanos(60'000'000'000);  ///< given to operations that are made from now on

 private:
  Op& add(uint16_t peer, OpKind kind, uint32_t bytes, uint32_t ticket) {
    ops_.push_back(std::make_unique<Op>());
    Op& op = *ops_.back();
    op.buffer.resize(bytes);
    // Two uneven pieces, where there is room for two.
    const uint32_t first = bytes > 16 ? bytes / 3 : bytes;
    op.pieces.push_back(LocalPiece{op.buffer.data(), first, LocalKey(0)});
    if (first != bytes) {
      op.pieces.push_back(LocalPiece{op.buffer.data() + first, bytes - first, LocalKey(0)});
    }
    op.record.pieces = op.pieces.data();
    op.record.piece_count = static_cast<uint16_t>(op.pieces.size());
    op.record.length_bytes = bytes;
    op.record.deadline_at = deadline;
    op.record.ticket_index = ticket;
    op.record.op_index = static_cast<uint32_t>(ops_.size() - 1);
    op.record.peer = PeerIndex(peer);
    op.record.kind = kind;
    return op;
  }

  SimCluster& cluster_;
  ManagedRail& rail_;
  Lane& lane_;
  std::vector<std::unique_ptr<Op>> ops_;
  uint32_t pushed_ = 0;
  uint32_t returned_ = 0;
};

inline std::vector<RailEventKind> news(ManagedRail& rail) {
  std::vector<RailEventKind> out;
  RailEvent event;
  while (rail.proxy().next_event(event)) {
    out.push_back(event.kind);
  }
  return out;
}

inline bool has(const std::vector<RailEventKind>& events, RailEventKind kind) {
  return std::find(events.begin(), events.end(), kind) != events.end();
}

inline constexpr Nanos kMillisecond{1'000'000};
inline constexpr Nanos kMicrosecond{1'000};

inline Key128 key_of(uint64_t i) {
  return Key128{.low = i * 0x9e3779b97f4a7c15 + 1, .high = i + 7};
}

}  // namespace peercache::test
