#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/pool/zeroed_array.h"

namespace peercache {

/// The slots of each size class that hold nothing wanted, oldest first: a slot that was just
/// retired is reused last, so that a read in flight rarely loses its race. Lists through a table of
/// links, so that an extent's slots can be taken out.
///
/// THREAD:     its owner (the pool agent).
/// OWNS:       two links per slot.
/// INVARIANTS: (F1) a slot is in at most one list, and its owner knows in which. (F2) counts match
/// the lists. COST:       O(1), no allocation after open.
class FreeSlots {
 public:
  Result<void> open(uint64_t slot_count) { return links_.open(slot_count); }

  /// For a slot that was used: handed out after all others.
  void push_back(SizeClassIndex size_class, SlotIndex slot);
  /// For a slot that was not used since it was handed out: nobody reads it.
  void push_front(SizeClassIndex size_class, SlotIndex slot);
  std::optional<SlotIndex> pop_front(SizeClassIndex size_class);
  /// REQUIRES: the slot is in the list of this class.
  void remove(SizeClassIndex size_class, SlotIndex slot);

  [[nodiscard]] uint32_t count(SizeClassIndex size_class) const {
    return lists_[size_class.value()].count;
  }

  template <class Fn>
  void for_each(SizeClassIndex size_class, Fn&& fn) const {
    for (uint32_t at = lists_[size_class.value()].first; at != 0; at = links_[at - 1].next) {
      fn(SlotIndex(at - 1));
    }
  }

 private:
  // Slot index + 1; 0 is the end.
  struct Link {
    uint32_t next;
    uint32_t previous;
  };
  struct List {
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t count = 0;
  };

  ZeroedArray<Link> links_;
  std::array<List, limits::kSizeClassesMax> lists_{};
};

}  // namespace peercache
