#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "dataplane/base/units.h"

namespace peercache {

class LatencyHistogram;

/// The form that all latency histograms share: buckets of equal width within each power of two.
namespace histogram {

/// 32 buckets per power of two: a bucket is at most 1/32 of its lower bound wide, and its middle is
/// reported, so a percentile is within 1/64 (1.6 %) of the true value.
inline constexpr unsigned kSubBucketBits = 5;
inline constexpr uint64_t kSubBuckets = 1U << kSubBucketBits;
/// 2^40 ns are 18 minutes: longer than any deadline. Longer values count in the last bucket.
inline constexpr unsigned kValueBits = 40;
inline constexpr size_t kBuckets = (kValueBits - kSubBucketBits + 1) * kSubBuckets;

[[nodiscard]] constexpr size_t bucket_of(uint64_t value) noexcept {
  if (value < kSubBuckets) {
    return static_cast<size_t>(value);
  }
  const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kSubBucketBits - 1;
  const size_t bucket = static_cast<size_t>((uint64_t{shift} << kSubBucketBits) + (value >> shift));
  return bucket < kBuckets ? bucket : kBuckets - 1;
}

/// The smallest value of a bucket.
[[nodiscard]] constexpr uint64_t bucket_floor(size_t bucket) noexcept {
  if (bucket < 2 * kSubBuckets) {
    return bucket;
  }
  const unsigned shift = static_cast<unsigned>(bucket >> kSubBucketBits) - 1;
  return ((bucket & (kSubBuckets - 1)) + kSubBuckets) << shift;
}

/// Counts at one moment; mergeable, and a later one minus an earlier one is an interval.
///
/// THREAD:     any; a value of 9 KiB.
class Snapshot {
 public:
  [[nodiscard]] uint64_t count() const noexcept { return count_; }
  [[nodiscard]] Nanos sum() const noexcept { return Nanos(static_cast<int64_t>(sum_ns_)); }
  /// The longest since the histogram exists (not of an interval).
  [[nodiscard]] Nanos max() const noexcept { return Nanos(static_cast<int64_t>(max_ns_)); }
  [[nodiscard]] Nanos mean() const noexcept;

  /// The value below which `percent` of the values lie, within 1/64 of it; 0 if there are none.
  /// REQUIRES: 0 <= percent <= 100.
  [[nodiscard]] Nanos percentile(double percent) const noexcept;

  void merge(const Snapshot& other) noexcept;
  /// REQUIRES: `earlier` is a snapshot of the same histogram(s), taken before.
  void subtract(const Snapshot& earlier) noexcept;

  [[nodiscard]] uint64_t bucket_count(size_t bucket) const noexcept { return buckets_[bucket]; }

 private:
  friend class peercache::LatencyHistogram;

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ns_ = 0;
  uint64_t max_ns_ = 0;
};

}  // namespace histogram

/// How long something took, over all its values since start.
///
/// THREAD:     record: one writer; snapshot: any.
/// OWNS:       9 KiB of counts.
/// COST:       record is a few instructions and two or three stores to the writer's own lines.
class LatencyHistogram {
 public:
  LatencyHistogram() = default;
  LatencyHistogram(const LatencyHistogram&) = delete;
  LatencyHistogram& operator=(const LatencyHistogram&) = delete;

  /// Negative values count as 0.
  void record(Nanos value) noexcept {
    const uint64_t value_ns = value.count() < 0 ? 0 : static_cast<uint64_t>(value.count());
    bump(buckets_[histogram::bucket_of(value_ns)], 1);
    bump(sum_ns_, value_ns);
    if (value_ns > max_ns_.load(std::memory_order_relaxed)) {  // its own value, as in bump
      max_ns_.store(value_ns, std::memory_order_relaxed);
    }
  }

  /// A value being recorded meanwhile may be in the count and not yet in the sum.
  [[nodiscard]] histogram::Snapshot snapshot() const noexcept;

 private:
  static void bump(std::atomic<uint64_t>& cell, uint64_t by) noexcept {
    // Relaxed is enough: the only writer reads back its own value; readers want recent numbers, not
    // an order.
    cell.store(cell.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, histogram::kBuckets> buckets_{};
  std::atomic<uint64_t> sum_ns_{0};
  std::atomic<uint64_t> max_ns_{0};
};

}  // namespace peercache
