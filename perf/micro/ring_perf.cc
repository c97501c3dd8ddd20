// The SPSC ring: 8-byte entries (what a lane carries), one thread and two.

#include <array>
#include <atomic>
#include <thread>

#include "dataplane/queue/spsc_ring.h"
#include "perf/harness/perf_case.h"

namespace {

using peercache::Nanos;
using peercache::SpscRing;
namespace perf = peercache::perf;

constexpr size_t kEntries = 1024;
constexpr size_t kBatch = 32;

double one_thread(Nanos time, size_t batch) {
  SpscRing<uint64_t> ring(kEntries);
  std::array<uint64_t, kBatch> items{};
  return perf::rate_of(time, [&] {
    for (int i = 0; i < 1000; ++i) {
      static_cast<void>(ring.push_many(std::span<const uint64_t>(items.data(), batch)));
      static_cast<void>(ring.pop_many(std::span<uint64_t>(items.data(), batch)));
    }
    return 1000.0 * static_cast<double>(batch);
  });
}

double two_threads(Nanos time) {
  SpscRing<uint64_t> ring(kEntries);
  std::atomic<bool> stop{false};
  std::thread producer([&] {
    std::array<uint64_t, kBatch> items{};
    // Relaxed: the flag only ends the loop.
    while (!stop.load(std::memory_order_relaxed)) {
      static_cast<void>(ring.push_many(items));
    }
  });
  std::array<uint64_t, kBatch> items{};
  const double rate = perf::rate_of(time, [&] {
    double popped = 0;
    for (int i = 0; i < 1000; ++i) popped += static_cast<double>(ring.pop_many(items));
    return popped;
  });
  stop.store(true, std::memory_order_relaxed);  // as above
  producer.join();
  return rate;
}

void run(const perf::PerfOptions& options,
         const char* name,
         const std::function<double()>& subject) {
  if (!options.wants(name)) return;
  perf::PerfRow row;
  row.bench = "ring";
  row.case_name = name;
  row.unit = "entries/s";
  perf::run_interleaved(options, row, nullptr, subject);
  perf::report(options, row);
}

}  // namespace

int main(int argc, char** argv) {
  const perf::PerfOptions options =
      perf::parse_perf_options(argc, argv, "ring_perf: throughput of the SPSC ring");
  run(options, "one thread, one entry", [&] { return one_thread(options.run_time(), 1); });
  run(options, "one thread, 32 entries", [&] { return one_thread(options.run_time(), kBatch); });
  run(options, "two threads, 32 entries", [&] { return two_threads(options.run_time()); });
  return 0;
}
