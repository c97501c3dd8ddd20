#include "dataplane/base/histogram.h"

#include <algorithm>
#include <cmath>

#include "dataplane/base/assert.h"

namespace peercache {

namespace histogram {

static_assert(bucket_of(31) == 31 && bucket_of(32) == 32 && bucket_of(64) == 64 &&
              bucket_of(66) == 65);
static_assert(bucket_floor(bucket_of(1'000'000)) <= 1'000'000 &&
              bucket_floor(bucket_of(1'000'000) + 1) > 1'000'000);
static_assert(bucket_of(UINT64_MAX) == kBuckets - 1);

Nanos Snapshot::mean() const noexcept {
  return count_ == 0 ? Nanos(0) : Nanos(static_cast<int64_t>(sum_ns_ / count_));
}

Nanos Snapshot::percentile(double percent) const noexcept {
  PC_ASSERT(percent >= 0 && percent <= 100);
  if (count_ == 0) {
    return Nanos(0);
  }
  // The rank of the value asked for, from 1: the smallest value that has `percent` of the values at
  // or below it.
  const double exact = std::ceil(percent / 100 * static_cast<double>(count_));
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(exact), 1, count_);
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) {
      const uint64_t floor = bucket_floor(bucket);
      const uint64_t last = bucket + 1 < kBuckets ? bucket_floor(bucket + 1) - 1 : floor;
      return Nanos(
          static_cast<int64_t>(std::min(floor + (last - floor) / 2, std::max(max_ns_, floor))));
    }
  }
  return max();
}

void Snapshot::merge(const Snapshot& other) noexcept {
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    buckets_[bucket] += other.buckets_[bucket];
  }
  count_ += other.count_;
  sum_ns_ += other.sum_ns_;
  max_ns_ = std::max(max_ns_, other.max_ns_);
}

void Snapshot::subtract(const Snapshot& earlier) noexcept {
  PC_ASSERT(count_ >= earlier.count_, count_, earlier.count_);
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    buckets_[bucket] -= earlier.buckets_[bucket];
  }
  count_ -= earlier.count_;
  sum_ns_ -= earlier.sum_ns_;
}

}  // namespace histogram

histogram::Snapshot LatencyHistogram::snapshot() const noexcept {
  // Relaxed throughout: see bump.
  histogram::Snapshot result;
  for (size_t bucket = 0; bucket < histogram::kBuckets; ++bucket) {
    result.buckets_[bucket] = buckets_[bucket].load(std::memory_order_relaxed);
    result.count_ += result.buckets_[bucket];
  }
  result.sum_ns_ = sum_ns_.load(std::memory_order_relaxed);
  result.max_ns_ = max_ns_.load(std::memory_order_relaxed);
  return result;
}

}  // namespace peercache
