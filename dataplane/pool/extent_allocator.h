#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace peercache {

/// A run of neighbouring granules of a region.
struct GranuleRun {
  uint64_t first_index = 0;
  uint64_t count = 0;

  [[nodiscard]] uint64_t end_index() const { return first_index + count; }
  friend bool operator==(const GranuleRun&, const GranuleRun&) = default;
};

/// Which granules of a region belong to nobody. First fit from the low end; neighbours that come
/// back are joined. A pure value: it knows numbers, not memory.
///
/// THREAD:     its owner (the pool agent).
/// OWNS:       the list of free runs, reserved for `runs_max` at construction.
/// INVARIANTS: (E1) free runs are sorted, not empty, inside the region, and neither overlap nor
/// touch.
///             (E2) `free_count` is the sum of their counts.
/// COST:       O(free runs); there are at most as many as extents, plus one. No allocation after
/// construction.
class ExtentAllocator {
 public:
  /// REQUIRES: runs_max > 0: the most extents that are ever out at the same time, plus one.
  ExtentAllocator(uint64_t granule_count, uint64_t runs_max);

  /// Takes the first run of `count` granules. Nothing if no free run is that long.
  std::optional<GranuleRun> allocate(uint64_t count);

  /// Gives granules back. REQUIRES: they were allocated (a part of an allocated run may come back
  /// alone).
  void free(GranuleRun run);

  [[nodiscard]] uint64_t granule_count() const { return granule_count_; }
  [[nodiscard]] uint64_t free_count() const { return free_count_; }
  [[nodiscard]] uint64_t longest_free_count() const;
  [[nodiscard]] std::span<const GranuleRun> free_runs() const { return free_runs_; }

  void check_invariants() const;

 private:
  uint64_t granule_count_;
  uint64_t free_count_;
  std::vector<GranuleRun> free_runs_;
};

}  // namespace peercache
