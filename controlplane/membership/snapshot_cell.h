#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "dataplane/base/assert.h"
#include "dataplane/base/cacheline.h"

namespace peercache {

/// Holds the current one of a series of immutable snapshots (views, rings, routes). A reader gets
/// one that is whole and stays so for as long as it is kept; the writer replaces it without waiting
/// for readers.
///
/// THREAD:     get: any; set, retained_count, destructor: one writer (the destructor when all
/// readers are gone). OWNS:       the current snapshot, and replaced ones until no reader can be in
/// the middle of taking them. INVARIANTS: (V1) a box that a reader may still be looking into is not
/// freed: a box is freed only after the writer, having
///             replaced it, saw no reader inside get().
/// COST:       get: three locked instructions, no lock and no allocation. set: one allocation.
template <class T>
class SnapshotCell {
 public:
  explicit SnapshotCell(std::shared_ptr<const T> first)
      : current_(std::make_unique<const Box>(Box{std::move(first)}).release()) {}
  SnapshotCell() : SnapshotCell(nullptr) {}
  SnapshotCell(const SnapshotCell&) = delete;
  SnapshotCell& operator=(const SnapshotCell&) = delete;
  ~SnapshotCell() {
    // Relaxed: readers are gone.
    PC_ASSERT(readers_.value.load(std::memory_order_relaxed) == 0);
    const std::unique_ptr<const Box> last(current_.load(std::memory_order_relaxed));
  }

  /// The current snapshot; null before the first set of a cell that began empty.
  [[nodiscard]] std::shared_ptr<const T> get() const noexcept {
    // V1 acq_rel RMW: meets V3 in set(). Of two read-modify-writes of one word one comes first:
    // the writer's, and then its new box is visible here; or this one, and the writer sees us.
    readers_.value.fetch_add(1, std::memory_order_acq_rel);
    // V2 acquire: meets V4 in set(); what the box holds is visible.
    std::shared_ptr<const T> snapshot = current_.load(std::memory_order_acquire)->snapshot;
    // V5 release: meets V3 in set(); the box was copied from before it is freed.
    readers_.value.fetch_sub(1, std::memory_order_release);
    return snapshot;
  }

  /// Replaces the snapshot. Readers that hold the old one keep it.
  void set(std::shared_ptr<const T> snapshot) {
    auto box = std::make_unique<const Box>(Box{std::move(snapshot)});
    retired_.reserve(retired_.size() + 1);
    // V4 release: meets V2 in get(); the new box is whole. Acquire: only this thread ever wrote it.
    retired_.emplace_back(current_.exchange(box.release(), std::memory_order_acq_rel));
    // V3 acq_rel RMW: meets V1 and V5 in get(). None inside now: whoever enters later sees the new
    // box, and whoever was inside has made its copy.
    if (readers_.value.fetch_add(0, std::memory_order_acq_rel) == 0) {
      retired_.clear();
    }
  }

  /// Boxes that wait for a moment without a reader in get(); they go with one of the next calls of
  /// set.
  [[nodiscard]] uint64_t retained_count() const noexcept { return retired_.size(); }

 private:
  struct Box {
    std::shared_ptr<const T> snapshot;
  };

  mutable Padded<std::atomic<uint64_t>> readers_;
  std::atomic<const Box*> current_;
  std::vector<std::unique_ptr<const Box>> retired_;
};

}  // namespace peercache
