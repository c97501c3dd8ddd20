#include "perf/harness/copy_ceiling.h"

#include <cstring>

#include "dataplane/base/clock.h"
#include "dataplane/base/copy.h"
#include "dataplane/base/ordering.h"

namespace peercache::perf {
namespace {

template <class Copy>
double rate(std::span<const CopyStep> plan, size_t& cursor, Nanos time, Copy copy) {
  const Nanos began_at = monotonic_now();
  Nanos now = began_at;
  double bytes = 0;
  do {
    for (int i = 0; i < 16; ++i) {
      if (cursor >= plan.size()) cursor = 0;
      const CopyStep& step = plan[cursor++];
      copy(step);
      bytes += static_cast<double>(step.bytes);
    }
    now = monotonic_now();
  } while (now - began_at < time);
  return bytes / std::chrono::duration<double>(now - began_at).count();
}

}  // namespace

double memcpy_rate(std::span<const CopyStep> plan, size_t& cursor, Nanos time) {
  return rate(plan, cursor, time,
              [](const CopyStep& step) { std::memcpy(step.to, step.from, step.bytes); });
}

double streaming_rate(std::span<const CopyStep> plan, size_t& cursor, Nanos time) {
  return rate(plan, cursor, time, [](const CopyStep& step) {
    test_copy_streaming(copy_kernel(), step.to, step.from, step.bytes);
    copy_done_fence();
  });
}

}  // namespace peercache::perf
