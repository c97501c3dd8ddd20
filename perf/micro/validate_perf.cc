// What validation adds to a batch of 128: the same READs over shared memory with and without the header READ.

#include <sys/mman.h>

#include <string>
#include <vector>

#include "dataplane/base/clock.h"
#include "perf/harness/perf_case.h"
#include "perf/harness/shm_setup.h"

namespace {

using namespace peercache;        // NOLINT: a program, not a header
using namespace peercache::perf;  // NOLINT

constexpr size_t kBatch = 128;

double batch_us(const PerfOptions& options, ShmSetup& setup, std::vector<Op>& ops, Validation validation, size_t& next) {
  double batches = 0;
  const Nanos began_at = monotonic_now();
  Nanos now = began_at;
  do {
    if (next + kBatch > ops.size()) next = 0;
    for (size_t i = next; i < next + kBatch; ++i) ops[i].validation = validation;
    setup.run(std::span(ops).subspan(next, kBatch));
    next += kBatch;
    ++batches;
    now = monotonic_now();
  } while (now - began_at < options.run_time());
  return std::chrono::duration<double, std::micro>(now - began_at).count() / batches;
}

void run_case(const PerfOptions& options, uint32_t object_bytes) {
  PerfRow row;
  row.bench = "validate";
  row.case_name = "batch of 128 x " + std::to_string(object_bytes >> 10) + " KiB, validated";
  if (!options.wants(row.case_name)) return;
  row.unit = "us";
  row.higher_is_better = false;
  row.ceiling_name = "the same without validation";
  const uint64_t region_bytes = options.smoke ? 64ULL << 20 : 1ULL << 30;
  ShmSetup setup({.region_bytes = region_bytes, .object_bytes = object_bytes});
  std::vector<std::byte> to(256ULL << 20);
  std::vector<LocalPiece> pieces;
  std::vector<Op> ops;
  pieces.reserve(setup.objects_count());
  for (uint32_t i = 0; i < setup.objects_count(); ++i) {
    const uint32_t object = static_cast<uint32_t>(uint64_t{i} * 7919 % setup.objects_count());
    pieces.push_back({to.data() + uint64_t{i} * object_bytes % to.size(), object_bytes, LocalKey(0)});
    Op op;
    op.peer = setup.peer();
    op.target = setup.location(object);
    op.pieces = std::span(pieces).last(1);
    ops.push_back(op);
  }
  size_t next = 0;
  run_interleaved(
      options, row, [&] { return batch_us(options, setup, ops, Validation::kNone, next); },
      [&] { return batch_us(options, setup, ops, Validation::kHeader, next); });
  report(options, row);
}

}  // namespace

int main(int argc, char** argv) {
  const PerfOptions options =
      parse_perf_options(argc, argv, "validate_perf: extra time of the header READ per batch of 128");
  for (const uint32_t object_bytes : {4096U, 128U << 10, 2U << 20}) run_case(options, object_bytes);
  return 0;
}
