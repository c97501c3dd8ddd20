#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "dataplane/base/assert.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/units.h"
#include "dataplane/engine/op.h"

namespace peercache {

/// Counts the operations of each submitted batch that are not final, and says when the last one ends.
///
/// THREAD:     owned by one Client thread. Rails never touch it; they return records whose ticket fields are the cookie.
/// OWNS:       a fixed array of limits::kTicketsPerClient entries, each with room for the record numbers of a batch; no
///             allocation after construction.
/// INVARIANTS: (I1) an entry's `remaining` is the number of its operations not yet returned by `finish`.
///             (I2) a cookie carries its entry's generation; `finish` with a stale one is a bug, not an error.
///             (I3) the generation of an entry changes when it is closed, so a released ticket stays stale.
/// COST:       open, finish and close are O(1), one cache line each. 512 KiB of record numbers, touched as far as used:
///             a closed entry is the next one opened.
class TicketTable {
 public:
  /// Counts of one batch.
  struct Entry {
    Nanos deadline_at{0};
    uint32_t generation_id = 1;  ///< 0 is never valid, so that a Ticket{} is stale
    uint32_t total = 0;
    uint32_t remaining = 0;
    uint32_t ok = 0;
    uint32_t failed = 0;
    uint32_t rails_used = 0;            ///< bit per rail of the client that got an operation of it
    uint32_t cancels_owed = 0;          ///< bit per rail whose lane was too full for the cancel
    bool open = false;
    bool cancelled = false;
  };

  TicketTable()
      : records_(std::make_unique_for_overwrite<uint16_t[]>(limits::kTicketsPerClient *
                                                            limits::kBatchOpsMax)) {
    for (uint32_t i = 0; i < limits::kTicketsPerClient; ++i) {
      free_[i] = static_cast<uint8_t>(limits::kTicketsPerClient - 1 - i);
    }
  }

  [[nodiscard]] bool full() const noexcept { return free_count_ == 0; }
  [[nodiscard]] uint32_t open_count() const noexcept {
    return static_cast<uint32_t>(limits::kTicketsPerClient) - free_count_;
  }

  /// Opens an entry for a batch of `total` operations. REQUIRES: not full(); 0 < total <= limits::kBatchOpsMax.
  Ticket open(uint32_t total, Nanos deadline_at) noexcept {
    PC_ASSERT(free_count_ != 0);
    PC_ASSERT(total != 0 && total <= limits::kBatchOpsMax, total);
    const uint32_t index = free_[--free_count_];
    Entry& entry = entries_[index];
    PC_ASSERT(!entry.open, index);
    entry.deadline_at = deadline_at;
    entry.total = total;
    entry.remaining = total;
    entry.ok = 0;
    entry.failed = 0;
    entry.rails_used = 0;
    entry.cancels_owed = 0;
    entry.open = true;
    entry.cancelled = false;
    return Ticket{.index = index, .generation_id = entry.generation_id};
  }

  /// Counts one operation as final; true if it was the batch's last. (I2) is checked.
  bool finish(uint32_t index, uint32_t generation_id, bool ok) noexcept {
    Entry& entry = at(index, generation_id);
    PC_ASSERT(entry.remaining != 0, index, generation_id);  // (I1)
    entry.ok += ok ? 1 : 0;
    entry.failed += ok ? 0 : 1;
    return --entry.remaining == 0;
  }

  /// Frees the entry of a batch that is done.
  void close(Ticket ticket) noexcept {
    Entry& entry = at(ticket.index, ticket.generation_id);
    PC_ASSERT(entry.remaining == 0, ticket.index, entry.remaining);
    entry.open = false;
    entry.generation_id = entry.generation_id == UINT32_MAX ? 1 : entry.generation_id + 1;  // (I3)
    free_[free_count_++] = static_cast<uint8_t>(ticket.index);
  }

  [[nodiscard]] bool is_stale(Ticket ticket) const noexcept {
    return ticket.index >= limits::kTicketsPerClient || !entries_[ticket.index].open ||
           entries_[ticket.index].generation_id != ticket.generation_id;
  }

  /// REQUIRES: the cookie is not stale.
  [[nodiscard]] Entry& at(uint32_t index, uint32_t generation_id) noexcept {
    PC_ASSERT(index < limits::kTicketsPerClient, index);
    Entry& entry = entries_[index];
    PC_ASSERT(entry.open, index, generation_id);
    PC_ASSERT(entry.generation_id == generation_id, index, generation_id, entry.generation_id);
    return entry;
  }
  [[nodiscard]] const Entry& at(uint32_t index, uint32_t generation_id) const noexcept {
    return const_cast<TicketTable*>(this)->at(index, generation_id);
  }
  [[nodiscard]] Entry& at(Ticket ticket) noexcept { return at(ticket.index, ticket.generation_id); }
  [[nodiscard]] const Entry& at(Ticket ticket) const noexcept {
    return at(ticket.index, ticket.generation_id);
  }
  /// By place, open or not; for walks over all of them.
  [[nodiscard]] Entry& slot(uint32_t index) noexcept { return entries_[index]; }
  [[nodiscard]] const Entry& slot(uint32_t index) const noexcept { return entries_[index]; }

  /// Numbers of the records of a batch, in the order of its operations; limits::kBatchOpsMax of them.
  [[nodiscard]] uint16_t* records(uint32_t index) noexcept {
    return records_.get() + size_t{index} * limits::kBatchOpsMax;
  }
  [[nodiscard]] const uint16_t* records(uint32_t index) const noexcept {
    return records_.get() + size_t{index} * limits::kBatchOpsMax;
  }

  void check_invariants() const {
    uint32_t open = 0;
    for (const Entry& entry : entries_) {
      PC_ASSERT(entry.generation_id != 0);
      PC_ASSERT(entry.open || entry.remaining == 0, entry.remaining);
      PC_ASSERT(entry.ok + entry.failed + entry.remaining == entry.total, entry.total);
      open += entry.open ? 1 : 0;
    }
    PC_ASSERT(open == open_count(), open, open_count());
  }

 private:
  std::array<Entry, limits::kTicketsPerClient> entries_{};
  std::array<uint8_t, limits::kTicketsPerClient> free_{};
  uint32_t free_count_ = limits::kTicketsPerClient;
  std::unique_ptr<uint16_t[]> records_;
};

}  // namespace peercache
