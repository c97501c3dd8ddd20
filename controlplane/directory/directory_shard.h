#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "controlplane/membership/view.h"
#include "controlplane/wire/messages.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/pool/bucket_table.h"
#include "dataplane/wire/location.h"

namespace peercache {

/// Snapshot of a shard's counters.
///
/// THREAD:     any; a value.
struct ShardStats {
  uint64_t records_count = 0;
  uint64_t puts_count = 0;      ///< applied
  uint64_t deletes_count = 0;   ///< applied
  uint64_t stale_count = 0;     ///< older sequence or update
  uint64_t refused_count = 0;   ///< not the sender's, unknown sender, unsound
  uint64_t dropped_count = 0;   ///< records that full buckets pushed out
  uint64_t reported_count = 0;  ///< deleted since a reader found them missing
  uint64_t purged_count = 0;    ///< deleted since their incarnation is dead
  uint64_t lookups_count = 0;   ///< keys asked by RPC
};

/// The rules of this node's part of the directory, over a bucket table in memory that peers read
/// one-sidedly.
///
/// THREAD:     the conductor's; the table is read by anyone (BucketTable).
/// BORROWS:    the table's memory.
/// INVARIANTS: (D1) every record was put by its own node, in an incarnation that the view knew as
/// current at the time.
///             (D2) for one sender, updates are applied in the order of their ids.
/// COST:       apply: two buckets per record. Purging is done in steps: the table may be gigabytes.
class DirectoryShard {
 public:
  /// Memory for the records of `objects_count` objects, each held by `replicas_count` shards, at a
  /// load of 0.6: what one of equal nodes has to give. A multiple of the bucket's size, at least
  /// one page.
  static Bytes bytes_for(uint64_t objects_count, uint32_t replicas_count);

  /// REQUIRES: zeroed memory, aligned as Bucket. Errors: as BucketTable::open.
  static Result<DirectoryShard> open(std::byte* memory, Bytes length);

  /// Applies a peer's (or this node's own) update. The outcomes stand in the reply in the update's
  /// order.
  DirectoryUpdateReplyMessage apply(const DirectoryUpdateMessage& update, const View& view);

  /// Deletes exactly these records; returns how many there were.
  uint64_t report_missing(std::span<const Location> locations);

  /// Finds records by RPC; those of dead incarnations are left out.
  DirectoryLookupReplyMessage lookup(std::span<const Key128> keys, const View& view);

  /// Starts to drop the records of this incarnation; purge_step does it. When that is done
  /// purged_count(node) has grown, which tells the node, should it live after all, to publish
  /// again; an update of its own ends the purge at once.
  void purge(NodeId node, Incarnation incarnation);
  /// Looks at up to `buckets_count` buckets for records to drop; false when nothing is left to do.
  bool purge_step(uint64_t buckets_count);
  bool purging() const noexcept { return !purges_.empty(); }

  /// Times that records of this node were purged; for heartbeat replies.
  uint64_t purged_count(NodeId node) const;

  ShardStats stats() const;
  const BucketTable& table() const noexcept { return table_; }

  void check_invariants() const { table_.check_invariants(); }

 private:
  struct Sender {
    Incarnation incarnation{};
    uint64_t update_id_last = 0;
    uint64_t purged_count = 0;
  };
  struct Purge {
    NodeId node;
    Incarnation incarnation;
    uint64_t buckets_left_count;
  };

  explicit DirectoryShard(BucketTable table) : table_(table) {}
  UpdateOutcome apply_put(const Location& record, const DirectoryUpdateMessage& update);
  UpdateOutcome apply_delete(const Location& record,
                             const DirectoryUpdateMessage& update,
                             const View& view);
  void count(UpdateOutcome outcome, bool is_put);
  bool must_purge(const Location& record) const;
  void end_purge(NodeId node, Incarnation incarnation);

  BucketTable table_;
  std::unordered_map<NodeId, Sender> senders_;
  std::vector<Purge> purges_;
  uint64_t purge_cursor_index_ = 0;
  ShardStats stats_;
};

/// Drops the locations of incarnations that the view knows to be dead; keeps the order of the
/// others.
void drop_dead(LookupResult& result, const View& view) noexcept;

}  // namespace peercache
