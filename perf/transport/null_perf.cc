// Cost of an operation without a NIC: client, lanes and rail over the null device.

#include <atomic>
#include <thread>

#include "perf/harness/allocation_count.h"
#include "perf/harness/null_setup.h"
#include "perf/harness/perf_case.h"

namespace {

using namespace peercache;        // NOLINT: a program, not a header
using namespace peercache::perf;  // NOLINT

constexpr double kBudget = 5e6;  // operations per second and client thread, design.md 14

std::string name_of(const char* what, uint32_t count, Validation validation) {
  return std::string(what) + ", batch " + std::to_string(count) +
         (validation == Validation::kHeader ? ", validated" : ", plain");
}

void stepped_case(const PerfOptions& options, uint32_t count, Validation validation) {
  PerfRow row;
  row.bench = "null";
  row.case_name = name_of("client and rail in one thread", count, validation);
  if (!options.wants(row.case_name)) return;
  row.unit = "operations/s";
  if (count == 128 && validation == Validation::kNone) row.budget_value = kBudget;
  NullSetup setup(false, 1);
  const std::vector<Op> batch = setup.make_batch(0, count, validation);
  setup.run_batch(setup.client(0), batch);
  const uint64_t allocations_before = allocations_of_this_thread();
  uint64_t operations = 0;
  const auto subject = [&] {
    return rate_of(options.run_time(), [&] {
      for (int i = 0; i < 16; ++i) setup.run_batch(setup.client(0), batch);
      operations += 16 * count;
      return 16.0 * count;
    });
  };
  run_interleaved(options, row, nullptr, subject);
  const uint64_t allocated = allocations_of_this_thread() - allocations_before;
  row.extra = {{"allocations_per_operation",
                static_cast<double>(allocated) / static_cast<double>(operations)}};
  report(options, row);
}

void threaded_case(const PerfOptions& options, uint32_t count, uint32_t clients_count) {
  PerfRow row;
  row.bench = "null";
  row.case_name = "rail with its own thread, " + std::to_string(clients_count) +
                  " client(s), batch " + std::to_string(count) + ", plain, per rail";
  if (!options.wants(row.case_name)) return;
  row.unit = "operations/s";
  if (count == 128 && clients_count == 1) row.budget_value = kBudget;
  NullSetup setup(true, clients_count);
  run_interleaved(options, row, nullptr, [&] {
    std::atomic<uint64_t> operations{0};
    std::vector<std::thread> others;
    const Nanos until = monotonic_now() + options.run_time();
    const auto drive = [&](uint32_t i) {
      const std::vector<Op> batch = setup.make_batch(i * 1000, count, Validation::kNone);
      uint64_t mine = 0;
      while (monotonic_now() < until) {
        for (int n = 0; n < 16; ++n) setup.run_batch(setup.client(i), batch);
        mine += 16 * count;
      }
      operations.fetch_add(mine, std::memory_order_relaxed);  // a sum, read after the join
    };
    const Nanos began_at = monotonic_now();
    for (uint32_t i = 1; i < clients_count; ++i) others.emplace_back(drive, i);
    drive(0);
    for (std::thread& other : others) other.join();
    const double seconds = std::chrono::duration<double>(monotonic_now() - began_at).count();
    return static_cast<double>(operations.load(std::memory_order_relaxed)) /
           seconds;  // after the join
  });
  report(options, row);
}

}  // namespace

int main(int argc, char** argv) {
  const PerfOptions options = parse_perf_options(
      argc, argv, "null_perf: operations per second over a device that completes at once");
  for (const Validation validation : {Validation::kNone, Validation::kHeader}) {
    for (const uint32_t count : {1U, 16U, 128U}) stepped_case(options, count, validation);
  }
  for (const uint32_t count : {16U, 128U}) threaded_case(options, count, 1);
  return 0;
}
