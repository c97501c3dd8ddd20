#include "dataplane/pool/extent_allocator.h"

#include <algorithm>

#include "dataplane/base/assert.h"

namespace peercache {

ExtentAllocator::ExtentAllocator(uint64_t granule_count, uint64_t runs_max)
    : granule_count_(granule_count), free_count_(granule_count) {
  PC_ASSERT(granule_count > 0 && runs_max > 0, granule_count, runs_max);
  free_runs_.reserve(runs_max);
  free_runs_.push_back(GranuleRun{.first_index = 0, .count = granule_count});
}

std::optional<GranuleRun> ExtentAllocator::allocate(uint64_t count) {
  PC_ASSERT(count > 0);
  const auto found =
      std::ranges::find_if(free_runs_, [&](const GranuleRun& run) { return run.count >= count; });
  if (found == free_runs_.end()) {
    return std::nullopt;
  }
  const GranuleRun taken{.first_index = found->first_index, .count = count};
  found->first_index += count;
  found->count -= count;
  if (found->count == 0) {
    free_runs_.erase(found);
  }
  free_count_ -= count;
  return taken;
}

void ExtentAllocator::free(GranuleRun run) {
  PC_ASSERT(run.count > 0 && run.end_index() <= granule_count_, run.first_index, run.count,
            granule_count_);
  const auto after =
      std::ranges::upper_bound(free_runs_, run.first_index, {}, &GranuleRun::first_index);
  PC_ASSERT(after == free_runs_.end() || run.end_index() <= after->first_index, run.first_index,
            run.count);
  const bool has_before = after != free_runs_.begin();
  PC_ASSERT(!has_before || std::prev(after)->end_index() <= run.first_index, run.first_index,
            run.count);
  free_count_ += run.count;
  const bool joins_before = has_before && std::prev(after)->end_index() == run.first_index;
  const bool joins_after = after != free_runs_.end() && run.end_index() == after->first_index;
  if (joins_before) {
    std::prev(after)->count += run.count + (joins_after ? after->count : 0);
    if (joins_after) {
      free_runs_.erase(after);
    }
  } else if (joins_after) {
    after->first_index = run.first_index;
    after->count += run.count;
  } else {
    PC_ASSERT(free_runs_.size() < free_runs_.capacity(), free_runs_.capacity());
    free_runs_.insert(after, run);
  }
}

uint64_t ExtentAllocator::longest_free_count() const {
  uint64_t longest = 0;
  for (const GranuleRun& run : free_runs_) {
    longest = std::max(longest, run.count);
  }
  return longest;
}

void ExtentAllocator::check_invariants() const {
  uint64_t free_count = 0;
  uint64_t last_end = 0;
  for (size_t i = 0; i < free_runs_.size(); ++i) {
    const GranuleRun& run = free_runs_[i];
    PC_ASSERT(run.count > 0, i);                                          // (E1)
    PC_ASSERT(i == 0 || run.first_index > last_end, i, run.first_index);  // (E1)
    PC_ASSERT(run.end_index() <= granule_count_, i, run.first_index);     // (E1)
    last_end = run.end_index();
    free_count += run.count;
  }
  PC_ASSERT(free_count == free_count_, free_count, free_count_);  // (E2)
}

}  // namespace peercache
