#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "controlplane/directory/hash_ring.h"
#include "controlplane/wire/messages.h"
#include "dataplane/base/key.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/pool/bucket_table.h"
#include "dataplane/pool/published_pool.h"
#include "dataplane/wire/location.h"

namespace peercache {

/// THREAD:     any; a value.
struct DirectoryClientOptions {
  NodeId node{};
  Incarnation incarnation{};
  uint32_t replicas_count = 2;
  uint32_t batch_records_count = 1024;  ///< an update is sent when so many wait ...
  /// ... or the oldest has waited for so long. Short: others see a page only after it, and while an
  /// update is under way the next one gathers company by itself.
  uint32_t flush_delay_us = 50;
  /// Per holder; when full the queue is dropped and everything published again.
  uint32_t queue_records_count = 65536;
  uint32_t call_timeout_ms = 1000;
  uint32_t retry_ms_min = 20;  ///< pause after a failed update, doubled up to
  uint32_t retry_ms_max = 1000;
  uint32_t republish_buckets_count = 4096;  ///< of the pool's index, per step: 1 MiB, some 100 us
};

/// One update to send: `on_reply` must be called once for it.
///
/// THREAD:     any; a value.
struct OutgoingUpdate {
  uint32_t holder_index = 0;  ///< as the ring numbers them
  Nanos timeout{0};
  std::shared_ptr<const DirectoryUpdateMessage> update;
};

/// Snapshot of a client's counters.
///
/// THREAD:     any; a value.
struct DirectoryClientStats {
  uint64_t published_count = 0;  ///< events
  uint64_t retired_count = 0;
  uint64_t coalesced_count = 0;  ///< changes that undid or replaced one that still waited
  uint64_t updates_count = 0;    ///< sent, retries included
  uint64_t retries_count = 0;
  uint64_t acknowledged_count = 0;  ///< records
  uint64_t refused_count = 0;       ///< records that a shard refused for good
  uint64_t overflows_count = 0;     ///< queues dropped since they were full
  uint64_t republished_count = 0;   ///< records queued again for a holder that came back
};

/// Tells the shards what this node's pool holds: a queue per shard holder, batches, retries, and
/// publishing again for a holder that lost its records. Pure: events and time in, updates out.
///
/// The pool's index is the truth. Queues only shorten the way: one that overflows, or whose holder
/// was away, is dropped, and the index is published again, in steps.
///
/// THREAD:     the pool agent's, which is the conductor's.
/// BORROWS:    the ring (shared) and, for the time of a step, the pool's index.
/// INVARIANTS: (C1) at most one update per holder is under way, and a retry of it is the same
/// update. (C2) a record is
///             queued at most once per holder and key, as a delete of the old and a put of the new.
///             (C3) flushed(t) never turns true while a live holder may lack something published up
///             to t.
/// COST:       an event is a hash table operation per replica; no scan but for publishing again.
class DirectoryClient final : public PoolListener {
 public:
  DirectoryClient(const DirectoryClientOptions& options, std::shared_ptr<const HashRing> ring);

  /// Pool events.
  void on_published(const Location& location) override;
  void on_retired(const Location& location) override;

  /// A holder can be reached (again) and is this incarnation. A new incarnation, a return from
  /// kDown or another purged_count mean that it lacks our records: they are published again.
  void holder_up(uint32_t holder_index, Incarnation incarnation, Nanos now);
  /// From heartbeat replies.
  void holder_purged(uint32_t holder_index, uint64_t purged_count, Nanos now);
  /// Nothing is queued for it or expected of it until holder_up.
  void holder_down(uint32_t holder_index);

  /// Appends the updates that are due and goes on publishing again from `index` (the pool's own;
  /// may be null in tests). Returns the work done.
  int step(Nanos now, const BucketTable* index, std::vector<OutgoingUpdate>& outgoing);
  Nanos next_due() const;

  /// How an update ended.
  void on_reply(uint32_t holder_index,
                uint64_t update_id,
                const Result<DirectoryUpdateReplyMessage>& reply,
                Nanos now);

  /// Stands for everything published so far; makes the next step send what waits without delay.
  uint64_t flush_target();
  /// True when every live holder has acknowledged what was published up to the target (or what
  /// replaced it).
  bool flushed(uint64_t target) const;

  /// Records that the slowest live holder has not acknowledged yet.
  uint64_t lag() const;

  DirectoryClientStats stats() const { return stats_; }
  void check_invariants() const;

 private:
  /// A change of one key that waits: first the delete, then the put.
  struct Change {
    Key128 key;
    uint64_t number = 0;  ///< of the oldest event in it
    Nanos since{0};
    std::optional<Location> erase;
    std::optional<Location> put;
    bool put_is_new =
        false;  ///< the holder has never been sent it: a retirement undoes it without a trace
    bool empty() const { return !erase && !put; }
  };
  struct Holder {
    bool live = false;
    Incarnation incarnation{};
    std::optional<uint64_t> purged_count;
    std::deque<Change> queue;  ///< by `number`; the front is never empty of content
    uint64_t front_id = 0;     ///< of queue.front() in `places`
    std::unordered_map<Key128, uint64_t> places;           ///< key -> id of its change in the queue
    std::shared_ptr<const DirectoryUpdateMessage> update;  ///< under way or to be sent again
    uint64_t update_number = 0;                            ///< oldest event in it
    uint64_t update_id_last = 0;
    bool sent = false;
    bool flush_now = false;
    Nanos retry_at{0};
    Nanos retry{0};
    bool republishing = false;          ///< until everything of it was acknowledged
    uint64_t republish_left_count = 0;  ///< buckets of the index still to be looked at
    uint64_t republish_end_id = 0;      ///< the last change of it is before this one
  };
  static constexpr uint64_t kWholeIndex = UINT64_MAX;

  Change* change_of(Holder& holder, const Key128& key);
  Change* add_change(Holder& holder, const Key128& key);
  void drop_if_empty(Holder& holder, const Change& change);
  void queue_put(Holder& holder, const Location& location, bool is_new);
  void queue_erase(Holder& holder, const Location& location);
  void start_republish(Holder& holder);
  void clear_queue(Holder& holder);
  bool can_republish() const;
  int republish_step(const BucketTable* index);
  void republish(const Location& location);
  void end_republish_if_done(Holder& holder);
  void build_update(Holder& holder);
  Nanos due_at(const Holder& holder) const;
  bool settle(Holder& holder, const DirectoryUpdateReplyMessage& reply);
  void retry_later(Holder& holder, Nanos now);

  DirectoryClientOptions options_;
  std::shared_ptr<const HashRing> ring_;
  std::vector<Holder> holders_;
  uint64_t number_ = 0;  ///< of the last event
  uint64_t republish_cursor_index_ = 0;
  Nanos now_{0};  ///< of the last step: events carry no time
  DirectoryClientStats stats_;
};

}  // namespace peercache
