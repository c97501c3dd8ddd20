#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "dataplane/base/cacheline.h"
#include "dataplane/base/counters.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/units.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/pool/grant_ring.h"
#include "dataplane/pool/pool_client.h"
#include "dataplane/pool/published_pool.h"
#include "dataplane/queue/spsc_ring.h"

namespace peercache {

/// What a client wants of one class; one word, so that both halves are of the same call.
///
/// THREAD:     any; a value.
struct Announcement {
  uint32_t wanted_count;
  uint32_t taken_before_count;  ///< GrantRing::taken_count when the call began
};

/// The supply of one client with slots of one class.
///
/// THREAD:     grouped below.
/// OWNS:       the ring.
struct ClassSupply {
  // set-up (under the pool's lock); read by both through the atomic
  std::unique_ptr<GrantRing> ring_owner;
  std::atomic<GrantRing*> ring{nullptr};

  // client_ writes
  std::atomic<Announcement> announcement{Announcement{}};
  std::atomic<uint32_t> starving{0};  // set by the client, taken by the agent

  // agent_: what it saw last
  struct alignas(kFalseSharingBytes) Seen {
    Announcement announcement{};
    uint32_t taken_count = 0;
    uint32_t demand_count = 0;     // the last announcement that was not 0
    uint32_t remaining_count = 0;  // of the call under way
    bool asked = false;            // it found its ring empty and got nothing since
    Nanos active_at{0};
  };
  Seen seen;
};
static_assert(std::atomic<Announcement>::is_always_lock_free);

/// What a client and the pool agent share.
///
/// THREAD:     `messages`, `returns`: client to agent; the rest as grouped.
/// BORROWS:    the pool's memory, options and agent event: the pool outlives its clients' use.
struct PoolClient::Shared {
  Shared(const PoolMemory& pool_memory,
         const PoolOptions& pool_options,
         const std::atomic<WakeEvent*>& pool_agent_event,
         std::unique_ptr<WakeEvent> own_event)
      : memory(pool_memory),
        options(pool_options),
        agent_event(pool_agent_event),
        event(std::move(own_event)) {}

  /// A client holds at most this many slots, in its rings and out of them.
  static constexpr size_t kReturnsMax = 2 * limits::kOpsPerClient;

  void wake_agent() const {
    // P1 acquire: meets P2 in PublishedPool::set_agent_event(); the event is complete.
    if (WakeEvent* agent = agent_event.load(std::memory_order_acquire); agent != nullptr) {
      agent->wake_if_sleeping();
    }
  }

  GrantRing* ring(SizeClassIndex size_class) const {
    // P3 acquire: meets P4 in PublishedPool::State::add_ring(); the ring is complete.
    return supplies[size_class.value()].ring.load(std::memory_order_acquire);
  }

  const PoolMemory& memory;
  const PoolOptions& options;
  const std::atomic<WakeEvent*>& agent_event;
  const std::unique_ptr<WakeEvent> event;
  SpscRing<PoolMessage> messages{limits::kPoolMessages};
  SpscRing<SlotIndex> returns{kReturnsMax};
  std::array<ClassSupply, limits::kSizeClassesMax> supplies;
  Counter starved_count;  // client_
};

}  // namespace peercache
