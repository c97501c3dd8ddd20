// Validated READs and LOOKUPs over shared memory, beside a copy of the same pieces in the same order by one thread.

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "dataplane/base/clock.h"
#include "perf/harness/copy_ceiling.h"
#include "perf/harness/perf_case.h"
#include "perf/harness/shm_setup.h"

namespace {

using namespace peercache;        // NOLINT: a program, not a header
using namespace peercache::perf;  // NOLINT

constexpr size_t kBatch = 128;
constexpr size_t kPieces = 2;  // K and V

/// Objects in random order into destination pages in random order, without repeats: nothing is in a cache.
struct Plan {
  std::vector<Op> ops;
  std::vector<LocalPiece> pieces;
  std::vector<CopyStep> steps;
};

Plan make_plan(const ShmSetup& setup, std::byte* to, uint64_t to_bytes, uint32_t object_bytes) {
  std::vector<uint32_t> objects(setup.objects_count());
  std::iota(objects.begin(), objects.end(), 0U);
  std::shuffle(objects.begin(), objects.end(), std::mt19937(7));
  std::vector<uint32_t> pages(to_bytes / object_bytes);
  std::iota(pages.begin(), pages.end(), 0U);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(11));
  Plan plan;
  plan.pieces.reserve(objects.size() * kPieces);
  const uint32_t half = object_bytes / kPieces;
  for (size_t i = 0; i + kBatch <= objects.size(); ++i) {
    std::byte* page = to + uint64_t{pages[i % pages.size()]} * object_bytes;
    for (size_t p = 0; p < kPieces; ++p) {
      plan.pieces.push_back({page + p * half, half, LocalKey(0)});
      plan.steps.push_back({page + p * half, setup.object(objects[i]) + p * half, half});
    }
    Op op;
    op.peer = setup.peer();
    op.target = setup.location(objects[i]);
    op.pieces = std::span(plan.pieces).last(kPieces);
    plan.ops.push_back(op);
  }
  return plan;
}

std::byte* take_memory(uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "shm_perf: no memory for %lu bytes\n", bytes);
    std::exit(1);
  }
  return static_cast<std::byte*>(memory);
}

void read_case(const PerfOptions& options, uint32_t object_bytes, double budget) {
  PerfRow row;
  row.bench = "shm";
  row.case_name = "READ " + std::to_string(object_bytes >> 10) + " KiB x 128, validated, one thread";
  if (!options.wants(row.case_name)) return;
  row.unit = "GB/s";
  row.budget_ratio = budget;
  const bool small = object_bytes <= 4096;
  row.ceiling_name = small ? "memcpy" : "faster of memcpy and streaming copy";
  ShmSetup setup({.region_bytes = options.smoke ? 64ULL << 20 : 1ULL << 30, .object_bytes = object_bytes});
  const uint64_t to_bytes = options.smoke ? 32ULL << 20 : 512ULL << 20;
  std::byte* to = take_memory(to_bytes);
  Plan plan = make_plan(setup, to, to_bytes, object_bytes);
  size_t cursor = 0;
  const auto ceiling = [&] {
    const double plain = memcpy_rate(plan.steps, cursor, options.run_time());
    if (small) return plain / 1e9;
    return std::max(plain, streaming_rate(plan.steps, cursor, options.run_time())) / 1e9;
  };
  size_t next = 0;
  run_interleaved(options, row, ceiling, [&] {
    return rate_of(options.run_time(), [&] {
      if (next + kBatch > plan.ops.size()) next = 0;
      setup.run(std::span(plan.ops).subspan(next, kBatch));
      next += kBatch;
      return static_cast<double>(kBatch * object_bytes) / 1e9;
    });
  });
  report(options, row);
  munmap(to, to_bytes);
}

void lookup_case(const PerfOptions& options) {
  PerfRow row;
  row.bench = "shm";
  row.case_name = "LOOKUP of 2000 keys, one holder, p50";
  if (!options.wants(row.case_name)) return;
  row.unit = "us";
  row.higher_is_better = false;
  row.budget_value = 1000;
  const uint64_t records_count = options.smoke ? 20000 : 1000000;  // 107 MB of buckets: far beyond the caches
  ShmSetup setup({.region_bytes = 64ULL << 20, .object_bytes = 65536, .records_count = records_count});
  std::vector<Key128> keys(2000);
  std::vector<LookupResult> results(keys.size());
  std::mt19937_64 random(3);
  run_interleaved(options, row, nullptr, [&] {
    std::vector<double> times_us;
    const Nanos until = monotonic_now() + options.run_time();
    do {
      for (Key128& key : keys) key = shm_key(random() % records_count);
      const LookupBatch batch{keys.data(), results.data(), static_cast<uint32_t>(keys.size())};
      Op op;
      op.kind = OpKind::kLookup;
      op.validation = Validation::kNone;
      op.peer = setup.peer();
      op.target.region = kShmTable;
      op.lookup = &batch;
      const Nanos began_at = monotonic_now();
      setup.run({&op, 1});
      times_us.push_back(std::chrono::duration<double, std::micro>(monotonic_now() - began_at).count());
    } while (monotonic_now() < until);
    std::nth_element(times_us.begin(), times_us.begin() + static_cast<ptrdiff_t>(times_us.size() / 2), times_us.end());
    return times_us[times_us.size() / 2];
  });
  report(options, row);
}

}  // namespace

int main(int argc, char** argv) {
  const PerfOptions options = parse_perf_options(
      argc, argv, "shm_perf: validated READs and LOOKUPs over shared memory against a copy of the same pieces");
  read_case(options, 4096, 0.74);
  read_case(options, 128 << 10, 0.9);
  read_case(options, 2 << 20, 0.9);
  lookup_case(options);
  return 0;
}
