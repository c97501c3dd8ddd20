#include "dataplane/base/histogram.h"

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

TEST_CASE("histogram: buckets tile the range without gaps or overlaps", "[unit]") {
  for (size_t bucket = 0; bucket < histogram::kBuckets; ++bucket) {
    const uint64_t floor = histogram::bucket_floor(bucket);
    REQUIRE(histogram::bucket_of(floor) == bucket);
    if (bucket > 0) {
      REQUIRE(histogram::bucket_of(floor - 1) == bucket - 1);
    }
  }
}

TEST_CASE("histogram: percentiles are within the stated error of the exact ones", "[unit]") {
  const unsigned seed = 20240601;
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> latency_ns(10, 1.5);
  LatencyHistogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(static_cast<int64_t>(latency_ns(random)));
    histogram.record(Nanos(values.back()));
  }
  std::sort(values.begin(), values.end());
  const histogram::Snapshot snapshot = histogram.snapshot();
  CHECK(snapshot.count() == values.size());
  CHECK(snapshot.max() == Nanos(values.back()));
  for (const double percent : {1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const size_t rank =
        static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
    const auto exact = static_cast<double>(values[rank - 1]);
    const auto reported = static_cast<double>(snapshot.percentile(percent).count());
    CAPTURE(seed, percent, exact, reported);
    CHECK(std::abs(reported - exact) <= exact / 64 + 1);
  }
}

TEST_CASE("histogram: nothing recorded gives zeros", "[unit]") {
  const LatencyHistogram histogram;
  CHECK(histogram.snapshot().count() == 0);
  CHECK(histogram.snapshot().percentile(99) == Nanos(0));
  CHECK(histogram.snapshot().mean() == Nanos(0));
}

TEST_CASE("histogram: negative and huge values are counted at the ends", "[unit]") {
  LatencyHistogram histogram;
  histogram.record(Nanos(-5));
  histogram.record(Nanos::max());
  const histogram::Snapshot snapshot = histogram.snapshot();
  CHECK(snapshot.count() == 2);
  CHECK(snapshot.bucket_count(0) == 1);
  CHECK(snapshot.bucket_count(histogram::kBuckets - 1) == 1);
}

TEST_CASE("histogram: snapshots merge, and a difference is an interval", "[unit]") {
  LatencyHistogram first;
  LatencyHistogram second;
  first.record(Nanos(10));
  second.record(Nanos(20));
  histogram::Snapshot sum = first.snapshot();
  sum.merge(second.snapshot());
  CHECK(sum.count() == 2);
  CHECK(sum.sum() == Nanos(30));
  CHECK(sum.max() == Nanos(20));
  const histogram::Snapshot before = first.snapshot();
  first.record(Nanos(12));
  histogram::Snapshot interval = first.snapshot();
  interval.subtract(before);
  CHECK(interval.count() == 1);
  CHECK(interval.percentile(50) == Nanos(12));
}

TEST_CASE("histogram: a reader sees counts while the writer records", "[unit]") {
  constexpr uint64_t kValues = 50'000;
  LatencyHistogram histogram;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kValues; ++i) {
      histogram.record(Nanos(static_cast<int64_t>(i)));
    }
  });
  while (histogram.snapshot().count() < kValues) {
  }
  writer.join();
  CHECK(histogram.snapshot().count() == kValues);
}

}  // namespace
}  // namespace peercache
