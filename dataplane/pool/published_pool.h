#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dataplane/base/clock.h"
#include "dataplane/base/result.h"
#include "dataplane/base/thread_role.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/pool/bucket_table.h"
#include "dataplane/pool/pool_client.h"
#include "dataplane/pool/pool_options.h"
#include "dataplane/wire/location.h"
#include "dataplane/wire/slot_header.h"

namespace peercache {

/// Memory that a pool lives in; provided by the composition root (an shm region, or plain memory in
/// tests).
struct PoolMemory {
  std::byte* bytes = nullptr;  ///< the published region
  Bytes length{0};
  SlotHeader* headers = nullptr;  ///< zeroed; one per granule
  uint64_t header_count = 0;
  RegionIndex region{0};
};

/// Told of every change of what the pool holds. Called by the pool agent's thread from inside
/// poll_once.
class PoolListener {
 public:
  virtual ~PoolListener() = default;
  virtual void on_published(const Location& location) = 0;
  virtual void on_retired(const Location& location) = 0;
};

/// Snapshot of the pool's counters; per class figures in `classes`.
struct PoolStats {
  uint64_t objects_count = 0;
  uint64_t bytes_used = 0;  ///< object bytes published
  uint64_t bytes_capacity = 0;
  uint64_t published_count = 0;   ///< ever
  uint64_t duplicates_count = 0;  ///< publishes of a key already held: the new slot was freed
  uint64_t evicted_count = 0;
  uint64_t removed_count = 0;
  uint64_t index_dropped_count = 0;  ///< records dropped since both buckets were full
  uint64_t refills_count = 0;
  uint64_t starved_count = 0;  ///< a client found its ring of free slots empty
};

/// The published pool and its agent: size classes over one region, page table (local index),
/// eviction, and the supply of free slots. All decisions are made in poll_once on the agent's
/// thread; clients fill slots in their own threads.
///
/// Space: the region is divided in granules (default 4 KiB); slot index = offset / granule of the
/// object's first byte, so a slot's header follows from its offset. A size class (object length
/// rounded up to the granule) takes extents of several slots from a granule allocator on demand.
/// When no space is free it evicts its own oldest; a class that is below its share (region /
/// classes in use) may take whole extents from classes above theirs, chosen *before* anything is
/// evicted, so that nothing is evicted for an allocation that then fails. Old slots of such an
/// extent pass end_geometry(). Freed slots are handed out oldest first.
///
/// THREAD:     pool agent (run by the conductor's thread), except `index`, `stats`, `attach_client`
/// as noted. BORROWS:    the memory and the listener; both outlive it. INVARIANTS: (P1) a header
/// says PUBLISHED before the index names the slot. (P2) a slot is in exactly one of: free, granted
///             to a client, published, retired. (P3) a class's slots come only from its own
///             extents. (P4) evicting a group evicts all its objects, and a group with resident
///             children (by parent key) goes after them.
/// COST:       poll_once: no allocation in the steady state.
class PublishedPool {
 public:
  /// Errors: kPoolTooSmall, kInvalidArgument.
  static Result<std::unique_ptr<PublishedPool>> open(const PoolOptions& options,
                                                     const PoolMemory& memory,
                                                     PoolListener* listener,
                                                     const Clock& clock);
  ~PublishedPool();

  /// One turn: take publish, remove, clear and touch messages; evict; refill free-slot rings.
  /// Returns the work done.
  int poll_once(Nanos now);

  /// Makes sure that a class for objects of this length exists (called before the first put of a
  /// length; any thread, at set-up; may take a lock). Errors: kNoSizeClass with length and the
  /// largest possible, kPoolTooSmall.
  Result<SizeClassIndex> ensure_class(uint32_t length_bytes);

  /// A put handle for one client; see pool_client.h. Conductor, before the client's first put.
  Result<PoolClient*> attach_client(ClientIndex client);

  /// Key -> location of what this node holds; read by any thread, validated by the slot header like
  /// any location.
  const BucketTable& index() const;

  /// Adds what clients have published and the agent has not taken up yet: for each key without a
  /// result, the sealed location from the publish rings. Call *before* reading the index, or a
  /// publish can be missed in between. Any thread. Returns the number found. COST: no allocation;
  /// nothing to do when all rings are empty.
  uint32_t find_pending(const Key128* keys,
                        LookupResult* results,
                        uint32_t key_count) const noexcept;

  /// Event that wakes the agent's thread.
  void set_agent_event(WakeEvent* event);

  PoolStats stats() const;  ///< any thread

  /// Calls back for every object held (re-publish). Agent's thread.
  template <class Fn>
  void for_each_object(Fn&& fn) const {
    index().for_each(static_cast<Fn&&>(fn));
  }

  void check_invariants() const;

 private:
  struct State;
  explicit PublishedPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace peercache
