#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

#include "dataplane/base/assert.h"
#include "dataplane/base/cacheline.h"
#include "dataplane/base/units.h"

namespace peercache {

/// Free slots on their way from the pool agent to one client, oldest first. Unlike in a plain ring
/// the producer may take back what the client has not taken yet, newest first, so that slots that
/// an idle client holds are not lost to the others.
///
/// THREAD:     push, reclaim: the agent; take: the client; counts: both, as hints (exact for the
/// agent once it has seen that
///             the client starves).
/// OWNS:       its entries.
/// INVARIANTS: (G1) filled entries are neighbours, from the client's cursor to the agent's. (G2)
/// whoever exchanges an
///             entry for 0 owns the slot that was in it.
/// COST:       one locked instruction per take or reclaim, none per push; no allocation after
/// construction.
class GrantRing {
 public:
  explicit GrantRing(uint32_t capacity_count)
      : mask_(std::bit_ceil(capacity_count) - 1),
        entries_(std::make_unique<std::atomic<uint32_t>[]>(mask_ + 1)) {
    PC_ASSERT(capacity_count > 0 && capacity_count <= 1U << 20U, capacity_count);
  }
  GrantRing(const GrantRing&) = delete;
  GrantRing& operator=(const GrantRing&) = delete;

  [[nodiscard]] uint32_t capacity() const noexcept { return mask_ + 1; }

  /// False if the ring is full.
  [[nodiscard]] bool push(SlotIndex slot) noexcept {
    const uint32_t cursor = agent_.cursor.load(std::memory_order_relaxed);  // its own
    std::atomic<uint32_t>& entry = entries_[cursor & mask_];
    // Relaxed is enough: a client that has emptied it has nothing else to show.
    if (entry.load(std::memory_order_relaxed) != 0) {
      return false;
    }
    // G1 release: meets G2 in take(); the slot's header is as the agent left it.
    entry.store(slot.value() + 1, std::memory_order_release);
    agent_.cursor.store(cursor + 1, std::memory_order_relaxed);  // for ready_count only
    return true;
  }

  /// False if nothing is left to take back.
  [[nodiscard]] bool reclaim(SlotIndex& slot) noexcept {
    // Relaxed is enough: the entry's slot was the agent's own before, and the client has not
    // touched it.
    const uint32_t cursor = agent_.cursor.load(std::memory_order_relaxed);  // its own
    const uint32_t entry = entries_[(cursor - 1) & mask_].exchange(0, std::memory_order_relaxed);
    if (entry == 0) {
      return false;
    }
    agent_.cursor.store(cursor - 1, std::memory_order_relaxed);  // for ready_count only
    slot = SlotIndex(entry - 1);
    return true;
  }

  /// False if the ring is empty.
  [[nodiscard]] bool take(SlotIndex& slot) noexcept {
    const uint32_t cursor = client_.cursor.load(std::memory_order_relaxed);  // its own
    // G2 acquire: meets G1 in push(); the slot's header is as the agent left it.
    const uint32_t entry = entries_[cursor & mask_].exchange(0, std::memory_order_acquire);
    if (entry == 0) {
      return false;
    }
    // Relaxed is enough: for ready_count only.
    client_.cursor.store(cursor + 1, std::memory_order_relaxed);
    slot = SlotIndex(entry - 1);
    return true;
  }

  /// Slots that wait in the ring.
  [[nodiscard]] uint32_t ready_count() const noexcept {
    const uint32_t taken = client_.cursor.load(std::memory_order_relaxed);  // see THREAD
    const uint32_t pushed = agent_.cursor.load(std::memory_order_relaxed);  // see THREAD
    return pushed - taken <= mask_ + 1 ? pushed - taken : 0;
  }
  /// How many the client has taken, ever (wraps).
  [[nodiscard]] uint32_t taken_count() const noexcept {
    return client_.cursor.load(std::memory_order_relaxed);  // a hint
  }

  /// Calls fn(SlotIndex) for each waiting slot. REQUIRES: neither side runs.
  template <class Fn>
  void test_for_each(Fn&& fn) const {
    for (uint32_t i = 0; i <= mask_; ++i) {
      if (const uint32_t entry = entries_[i].load(std::memory_order_relaxed); entry != 0) {
        fn(SlotIndex(entry - 1));
      }
    }
  }

 private:
  struct alignas(kFalseSharingBytes) Agent {
    std::atomic<uint32_t> cursor{0};
  };
  struct alignas(kFalseSharingBytes) Client {
    std::atomic<uint32_t> cursor{0};
  };

  const uint32_t mask_;
  const std::unique_ptr<std::atomic<uint32_t>[]> entries_;
  Agent agent_;
  Client client_;
};

}  // namespace peercache
