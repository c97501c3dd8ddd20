#include "dataplane/base/clock.h"

#include <algorithm>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace peercache {

namespace {

// A thread takes a new base from the system's clock this often, so that an error of the measured
// rate (some 50 ns in the calibration's 1 ms, 5e-5) grows to half a microsecond before it is
// corrected.
constexpr int64_t kAnchorNs = 10'000'000;
constexpr int64_t kCalibrationNs = 1'000'000;

#if defined(__x86_64__)

uint64_t read_cycles() noexcept { return __rdtsc(); }

// SOURCE: Intel SDM vol. 3, 17.17.1 "Invariant TSC": CPUID.80000007H:EDX[8].
bool cycles_are_invariant() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(0x80000007U, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1U << 8)) != 0;
}

#elif defined(__aarch64__)

uint64_t read_cycles() noexcept {
  uint64_t cycles = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(cycles));
  return cycles;
}

bool cycles_are_invariant() noexcept {
  return true;
}  // SOURCE: Arm ARM, D11: the generic timer counts at a fixed rate

#else

uint64_t read_cycles() noexcept { return 0; }
bool cycles_are_invariant() noexcept { return false; }

#endif

// Both clocks read at (nearly) the same moment: of a few tries the one that was interrupted least.
// THREAD: any; a value.
struct ClockPair {
  uint64_t cycles = 0;
  int64_t time_ns = 0;
};

ClockPair read_both() noexcept {
  ClockPair best;
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < 4; ++i) {
    const uint64_t before = read_cycles();
    const int64_t time_ns = monotonic_now().count();
    const uint64_t took = read_cycles() - before;
    if (took < shortest) {
      shortest = took;
      best = ClockPair{.cycles = before + took / 2, .time_ns = time_ns};
    }
  }
  return best;
}

// Zero where the counter cannot be used.
double measured_ns_per_cycle() noexcept {
  if (!cycles_are_invariant()) {
    return 0;
  }
  const ClockPair start = read_both();
  while (monotonic_now().count() - start.time_ns < kCalibrationNs) {
  }
  const ClockPair end = read_both();
  return static_cast<double>(end.time_ns - start.time_ns) /
         static_cast<double>(end.cycles - start.cycles);
}

// Measured once per process, by the first caller.
double ns_per_cycle() noexcept {
  static const double rate = measured_ns_per_cycle();
  return rate;
}

// Nanoseconds per cycle as a fixed-point number: a multiplication of integers instead of a conversion to double.
constexpr unsigned kRateBits = 32;

// The pair of readings from which a thread extrapolates.
// THREAD: its own thread's.
struct Anchor {
  uint64_t cycles = 0;
  uint64_t cycles_max = 0;  // from here on a new pair is read; 0 before the first one
  uint64_t rate = 0;        // nanoseconds per cycle, times 2^kRateBits
  int64_t base_ns = 0;
  int64_t last_ns = 0;
};

// The slow way, once in 10 ms: a new pair. Without a usable counter every reading goes here.
Nanos anchored_now(Anchor& anchor) noexcept {
  const double rate = ns_per_cycle();
  if (rate <= 0) {
    return monotonic_now();
  }
  const ClockPair now = read_both();
  anchor.rate = static_cast<uint64_t>(rate * static_cast<double>(uint64_t{1} << kRateBits));
  anchor.cycles_max = static_cast<uint64_t>(static_cast<double>(kAnchorNs) / rate);
  anchor.cycles = now.cycles;
  anchor.base_ns = now.time_ns;
  anchor.last_ns = std::max(anchor.last_ns, now.time_ns);
  return Nanos(anchor.last_ns);
}

}  // namespace

Nanos monotonic_now() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return Nanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

Nanos fast_now() noexcept {
  thread_local Anchor anchor;
  // A counter that went back (another socket, a migrated machine) gives a huge difference and a new pair.
  const uint64_t elapsed_cycles = read_cycles() - anchor.cycles;
  if (elapsed_cycles >= anchor.cycles_max) [[unlikely]] {
    return anchored_now(anchor);
  }
  // No overflow: at most 10 ms, below 2^24 ns, times 2^kRateBits.
  const auto elapsed_ns = static_cast<int64_t>((elapsed_cycles * anchor.rate) >> kRateBits);
  anchor.last_ns = std::max(anchor.last_ns, anchor.base_ns + elapsed_ns);
  return Nanos(anchor.last_ns);
}

}  // namespace peercache
