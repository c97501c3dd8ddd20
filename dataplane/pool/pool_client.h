#pragma once

#include <cstdint>
#include <span>

#include "dataplane/base/key.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/pool/group_place.h"
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

enum class PoolMessageKind : uint8_t { kPublish, kTouch, kRemove, kClear };

/// From a client to the pool agent.
struct PoolMessage {
  Location location;  ///< sealed; kPublish: the object; kTouch, kRemove: key only
  GroupPlace place;
  PoolMessageKind kind;
  SizeClassIndex size_class;
};

/// One client's side of the pool: free slots in, messages out.
///
/// THREAD:     its client; the agent is at the other end of the rings.
/// COST:       take and publish: no allocation, lock or system call (one wake-up when the agent
/// sleeps).
class PoolClient {
 public:
  /// Takes a free slot of the class. kBusy when the ring is empty: the agent was asked for more;
  /// wait on `event` and try again within the own deadline.
  Result<SlotGrant> take(SizeClassIndex size_class);

  /// Tells the agent how many slots of the class the coming call wants, or with 0 that the call is
  /// over: what it did not take may then go to others, but as many as the last call wanted are kept
  /// ready where the pool is large enough.
  void announce(SizeClassIndex size_class, uint32_t wanted_count);

  /// Header of a granted slot (this process's writable mapping) and its first byte.
  SlotHeader& header(const SlotGrant& grant) const;
  std::byte* bytes(const SlotGrant& grant) const;

  /// After the bytes are in place: writes the header (PUBLISHED), then queues the message.
  /// kRingFull when the agent lags by limits::kPoolMessages: the slot is still the caller's; wait
  /// and try again.
  Result<void> publish(const SlotGrant& grant,
                       Generation generation,
                       const PublishedObject& object,
                       const GroupPlace& place);

  /// Gives a granted slot back unused (also after begin_life). Never fails.
  void abandon(const SlotGrant& grant);

  /// Marks objects as recently used; best effort: what does not fit half the ring is dropped.
  void touch(std::span<const Key128> keys);

  /// Removes own objects, once the agent has taken the message; until then, and in readers that
  /// hold a location, they can still be found. At most limits::kPoolMessages keys. Errors:
  /// kRingFull (nothing was queued).
  Result<void> remove(std::span<const Key128> keys);
  Result<void> clear();

  /// Messages whose effect is not complete yet.
  uint32_t pending_count() const;

  WakeEvent& event();

 private:
  friend class PublishedPool;
  struct Shared;
  explicit PoolClient(Shared* shared) : shared_(shared) {}
  Shared* shared_;
};

}  // namespace peercache
