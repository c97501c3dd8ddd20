#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "dataplane/base/counters.h"
#include "dataplane/base/thread_role.h"
#include "dataplane/pool/lru_eviction.h"
#include "dataplane/pool/pool_client_shared.h"
#include "dataplane/pool/published_pool.h"
#include "dataplane/pool/size_classes.h"
#include "dataplane/pool/slot_space.h"

namespace peercache {

/// The eviction policy in use; any type that is an EvictionPolicy.
using EvictionOf = LruEviction;

/// The inside of a PublishedPool. Functions are in the file of their action: pool_publish.cc
/// (messages), pool_evict.cc (who goes), pool_refill.cc (who gets), pool_pending.cc (what is under
/// way), published_pool.cc (the rest).
///
/// THREAD:     grouped below by owner.
struct PublishedPool::State {
  using Shared = PoolClient::Shared;
  using Shares = std::array<uint64_t, limits::kSizeClassesMax>;

  State(const PoolOptions& pool_options,
        const PoolMemory& pool_memory,
        PoolListener* pool_listener);
  Result<void> open();

  // -- set-up: any thread, under the lock
  // ------------------------------------------------------------------------------
  Result<SizeClassIndex> ensure_class(uint32_t length_bytes) PC_EXCLUDES(setup);
  Result<PoolClient*> attach_client(ClientIndex client) PC_EXCLUDES(setup);
  void add_ring(Shared& shared, uint32_t class_value) PC_REQUIRES(setup);

  // -- pool_publish.cc: messages
  // ---------------------------------------------------------------------------------------
  int drain(Shared& shared) PC_REQUIRES(agent);
  void publish_object(const PoolMessage& message) PC_REQUIRES(agent);
  void touch_objects(const PoolMessage* messages, uint32_t count) PC_REQUIRES(agent);
  void remove_object(const Key128& key) PC_REQUIRES(agent);
  void clear_objects() PC_REQUIRES(agent);

  // -- pool_evict.cc: who goes
  // -----------------------------------------------------------------------------------------
  Location location_of(SlotIndex slot) const PC_REQUIRES(agent);
  void note_gone(SlotIndex slot, const Location& location) PC_REQUIRES(agent);
  void retire_object(SlotIndex slot) PC_REQUIRES(agent);
  void evict_group(GroupIndex group) PC_REQUIRES(agent);
  void evict_with_descendants(GroupIndex group) PC_REQUIRES(agent);
  void evict_own(SizeClassIndex size_class, uint32_t needed_count) PC_REQUIRES(agent);
  std::optional<SlotIndex> any_published(SizeClassIndex size_class) const PC_REQUIRES(agent);

  /// Neighbouring extents, with the free granules around them, that would make room for a slot.
  struct Window {
    size_t first_position = 0;  // in SlotSpace::by_address
    size_t extent_count = 0;
    uint32_t object_count = 0;  // that would be evicted
    uint64_t newest_publish = 0;
  };
  enum class Donors : uint8_t { kIdleOnly, kAboveShare };
  std::optional<Window> find_window(SizeClassIndex size_class, Donors donors) PC_REQUIRES(agent);
  std::optional<Window> window_from(size_t position,
                                    SizeClassIndex size_class,
                                    Donors donors,
                                    const Shares& class_share,
                                    uint32_t& budget_count) PC_REQUIRES(agent);
  uint32_t objects_with(ExtentIndex extent, uint32_t limit_count) PC_REQUIRES(agent);
  bool take_window(SizeClassIndex size_class, Donors donors) PC_REQUIRES(agent);
  const Shares& shares_with(SizeClassIndex size_class) PC_REQUIRES(agent);

  // -- pool_refill.cc: who gets
  // ----------------------------------------------------------------------------------------
  int refill(Nanos now) PC_REQUIRES(agent);
  bool see_demand(ClassSupply& supply, Nanos now) PC_REQUIRES(agent);
  uint32_t supply_client(Shared& shared, SizeClassIndex size_class, uint64_t fair_count)
      PC_REQUIRES(agent);
  uint32_t grant_free(GrantRing& ring, SizeClassIndex size_class, uint32_t target_count)
      PC_REQUIRES(agent);
  void make_room(const Shared& shared,
                 SizeClassIndex size_class,
                 uint64_t fair_count,
                 uint32_t needed_count) PC_REQUIRES(agent);
  void take_windows(SizeClassIndex size_class, uint32_t needed_count) PC_REQUIRES(agent);
  void reclaim_excess(const Shared* except,
                      SizeClassIndex size_class,
                      uint64_t fair_count,
                      uint32_t needed_count) PC_REQUIRES(agent);
  uint64_t fair_count_of(SizeClassIndex size_class, uint32_t active_count) PC_REQUIRES(agent);

  // -- pool_pending.cc
  // -------------------------------------------------------------------------------------------------
  uint32_t find_pending(const Key128* keys,
                        LookupResult* results,
                        uint32_t key_count) const noexcept;

  void check_invariants() const;

  template <class Fn>
  void for_each_client(Fn&& fn) const {
    for (const std::atomic<Shared*>& client : clients) {
      // P5 acquire: meets P6 in attach_client(); the client is complete.
      if (Shared* shared = client.load(std::memory_order_acquire); shared != nullptr) {
        fn(*shared);
      }
    }
  }

  // immutable after open
  const PoolOptions options;
  const PoolMemory memory;
  PoolListener* const listener;

  // set-up. A lock, since callers are any threads before their first put, and what they wait for is
  // an allocation.
  Mutex setup;
  std::array<std::unique_ptr<Shared>, limits::kClientsMax> client_owners PC_GUARDED_BY(setup);
  std::array<std::unique_ptr<PoolClient>, limits::kClientsMax> handles PC_GUARDED_BY(setup);

  // any
  SizeClasses classes;  // `ensure` under the lock
  std::array<std::atomic<Shared*>, limits::kClientsMax> clients{};
  std::atomic<WakeEvent*> agent_event{nullptr};
  ZeroedArray<Bucket> index_memory;
  std::optional<BucketTable> index;  // written by the agent, read by any

  // agent
  mutable ThreadRole agent;
  SlotSpace space PC_GUARDED_BY(agent);
  EvictionOf policy PC_GUARDED_BY(agent);
  static constexpr uint32_t kDrainMax =
      256;  // messages per client and turn, so that a turn stays below a millisecond
  std::array<PoolMessage, kDrainMax> drained PC_GUARDED_BY(agent);
  uint32_t turn_count PC_GUARDED_BY(agent) = 0;
  static constexpr uint32_t kNoClass = UINT32_MAX;
  Shares shares PC_GUARDED_BY(agent){};  // as of `shares_version`
  uint64_t shares_version PC_GUARDED_BY(agent) = UINT64_MAX;
  uint32_t shares_extra_class PC_GUARDED_BY(agent) = kNoClass;

  // counters: written by the agent, read by any
  struct Counters {
    Counter objects_count;
    Counter bytes_used;
    Counter published_count;
    Counter duplicates_count;
    Counter evicted_count;
    Counter removed_count;
    Counter index_dropped_count;
    Counter refills_count;
  };
  Counters counters;
};

}  // namespace peercache
