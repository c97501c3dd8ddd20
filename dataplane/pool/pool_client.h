#pragma once

#include <cstdint>
#include <span>

#include "dataplane/base/key.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/pool/slot_life.h"
#include "dataplane/queue/spsc_ring.h"
#include "dataplane/transport/work_request.h"
#include "dataplane/wire/location.h"

namespace peercache {

/// A free slot handed to a client ahead of need.
struct SlotGrant {
  SlotIndex slot;
  SizeClassIndex size_class;
  uint64_t offset_bytes;
};

/// Where an object stands in a prefix: eviction takes tails before heads and all objects of a group together.
struct GroupPlace {
  Key128 group;            ///< usually the page's own key; shared by all objects of one page
  Key128 parent;           ///< group before it in the prefix, or zero
  uint32_t position_index; ///< in the prefix, as far as the call's key order tells
};

enum class PoolMessageKind : uint8_t { kPublish, kAbandon, kTouch, kRemove, kClear };

/// From a client to the pool agent.
struct PoolMessage {
  Location location;  ///< sealed; kPublish: the object; kTouch, kRemove: key only; kAbandon: slot only
  GroupPlace place;
  PoolMessageKind kind;
  SizeClassIndex size_class;
};

/// One client's side of the pool: free slots in, messages out.
///
/// THREAD:     its client; the agent is at the other end of the rings.
/// COST:       take and publish: no allocation, lock or system call (one wake-up when the agent sleeps).
class PoolClient {
 public:
  /// Takes a free slot of the class. kBusy when the ring is empty: the agent was asked for more; wait on `event` and try
  /// again within the own deadline.
  Result<SlotGrant> take(SizeClassIndex size_class);

  /// Tells the agent how many slots of the class the coming call wants.
  void announce(SizeClassIndex size_class, uint32_t wanted_count);

  /// Header of a granted slot (this process's writable mapping) and its first byte.
  SlotHeader& header(const SlotGrant& grant) const;
  std::byte* bytes(const SlotGrant& grant) const;

  /// After the bytes are in place: writes the header (PUBLISHED), then queues the message. kRingFull when the agent lags
  /// by limits::kPoolMessages: the slot is still the caller's; wait and try again.
  Result<void> publish(const SlotGrant& grant,
                       Generation generation,
                       const PublishedObject& object,
                       const GroupPlace& place);

  /// Gives a granted slot back unused (also after begin_life).
  void abandon(const SlotGrant& grant);

  /// Marks objects as recently used; best effort (dropped when the ring is full). Tail first.
  void touch(std::span<const Key128> keys);

  /// Removes own objects. Errors: kRingFull.
  Result<void> remove(std::span<const Key128> keys);
  Result<void> clear();

  /// Messages that the agent has not taken yet.
  uint32_t pending_count() const;

  WakeEvent& event();

 private:
  friend class PublishedPool;
  struct Shared;
  explicit PoolClient(Shared* shared) : shared_(shared) {}
  Shared* shared_;
};

}  // namespace peercache
