#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/base/assert.h"
#include "dataplane/base/cacheline.h"
#include "dataplane/base/units.h"
#include "dataplane/rail/op_record.h"
#include "dataplane/transport/work_request.h"

namespace peercache {

/// Where a slot of the in-flight table stands. What is posted is the transport's to end; the others
/// are the rail's.
enum class InflightPhase : uint8_t {
  kFree = 0,
  kReady,        ///< waits in the queue of data requests
  kHeaderReady,  ///< its data are here; waits in the queue of header READs
  kHeld,         ///< its peer is being fenced or tried; not in a queue
  kHeaderHeld,
  kDropped,  ///< ended while in a queue; freed when it comes up there
  kData,     ///< posted
  kHeader,   ///< header READ posted
  kProbe,    ///< a probe of the rail's own, posted
};

/// One operation under way on a rail: one cache line.
///
/// THREAD: the rail's driver.
struct alignas(kCacheLineBytes) InflightSlot {
  OpRecord* op = nullptr;     ///< null for probes and dropped slots
  Nanos posted_at{0};         ///< of the data, or of their latest posting
  Nanos expires_at{0};        ///< of a posted slot that is doomed: not looked at any more
  LocalPiece header_piece{};  ///< where the header lands
  uint32_t generation_id = 0;
  uint32_t length_bytes = 0;  ///< counted against the byte budget while in phase kData
  PeerIndex peer{};
  uint8_t lane_index = 0;
  InflightPhase phase = InflightPhase::kFree;
  OpStatus doom = OpStatus::kPending;  ///< how it ends once quiet, if not by itself
  uint8_t repost_count = 0;
};
static_assert(sizeof(InflightSlot) == kCacheLineBytes);

/// The fixed table of operations under way. A request's cookie is its slot's index and the
/// generation of this use, so that a completion that comes twice, or for an operation that ended
/// long ago, is found out: it is a bug of the transport and aborts.
///
/// THREAD:     the rail's driver.
/// OWNS:       `capacity` slots.
/// INVARIANTS: (I1) free + used = capacity. (I2) a cookie is valid from posting to completion,
///             once.
/// COST:       acquire, release and posted are O(1) on one line; the slot used last is used next,
///             so few lines are hot.
class InflightTable {
 public:
  /// REQUIRES: 0 < capacity <= UINT16_MAX.
  explicit InflightTable(uint32_t capacity)
      : capacity_(capacity),
        slots_(std::make_unique<InflightSlot[]>(capacity)),
        free_(std::make_unique<uint16_t[]>(capacity)) {
    PC_ASSERT(capacity != 0 && capacity <= UINT16_MAX, capacity);
    for (uint32_t i = 0; i < capacity; ++i) {
      free_[i] = static_cast<uint16_t>(capacity - 1 - i);
    }
    free_count_ = capacity;
  }

  [[nodiscard]] uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] uint32_t free_count() const noexcept { return free_count_; }
  [[nodiscard]] InflightSlot& operator[](uint16_t index) noexcept { return slots_[index]; }
  [[nodiscard]] const InflightSlot& operator[](uint16_t index) const noexcept {
    return slots_[index];
  }

  /// Takes a slot for a new operation. REQUIRES: free_count() > 0. The caller sets its fields.
  [[nodiscard]] uint16_t acquire() noexcept {
    PC_ASSERT(free_count_ != 0);
    return free_[--free_count_];
  }

  /// Gives a slot back; its cookies are invalid from now on.
  void release(uint16_t index) noexcept {
    InflightSlot& slot = slots_[index];
    PC_ASSERT(slot.phase != InflightPhase::kFree, index);
    PC_ASSERT(free_count_ < capacity_, free_count_);  // (I1)
    slot.phase = InflightPhase::kFree;
    slot.op = nullptr;
    ++slot.generation_id;
    free_[free_count_++] = index;
  }

  /// The cookie of one posting; a slot that is posted again (header READ, after a flush) gets a new
  /// one.
  [[nodiscard]] uint64_t new_cookie(uint16_t index) noexcept {
    const uint32_t generation_id = ++slots_[index].generation_id;
    return (uint64_t{generation_id} << 32) | index;
  }

  /// The slot of a completion. Aborts if it is not posted in the generation that the cookie names
  /// (I2).
  [[nodiscard]] uint16_t posted(uint64_t cookie_id) const noexcept {
    const auto index = static_cast<uint32_t>(cookie_id);
    const auto generation_id = static_cast<uint32_t>(cookie_id >> 32);
    PC_ASSERT(index < capacity_, index);
    const InflightSlot& slot = slots_[index];
    PC_ASSERT(slot.generation_id == generation_id, index, slot.generation_id, generation_id);
    PC_ASSERT(slot.phase >= InflightPhase::kData, index, slot.phase);
    return static_cast<uint16_t>(index);
  }

  /// Calls fn(index, slot) for each slot in use.
  template <class Fn>
  void for_each_used(Fn&& fn) {
    if (free_count_ == capacity_) {
      return;
    }
    for (uint32_t i = 0; i < capacity_; ++i) {
      if (slots_[i].phase != InflightPhase::kFree) {
        fn(static_cast<uint16_t>(i), slots_[i]);
      }
    }
  }

  void check_invariants() const {
    uint32_t used_count = 0;
    for (uint32_t i = 0; i < capacity_; ++i) {
      const InflightSlot& slot = slots_[i];
      used_count += slot.phase != InflightPhase::kFree ? 1 : 0;
      const bool without_op = slot.phase == InflightPhase::kFree ||
                              slot.phase == InflightPhase::kProbe ||
                              slot.phase == InflightPhase::kDropped;
      PC_ASSERT((slot.op == nullptr) == without_op, i, slot.phase);
    }
    PC_ASSERT(used_count + free_count_ == capacity_, used_count, free_count_);  // (I1)
  }

 private:
  const uint32_t capacity_;
  const std::unique_ptr<InflightSlot[]> slots_;
  const std::unique_ptr<uint16_t[]> free_;
  uint32_t free_count_ = 0;
};

}  // namespace peercache
