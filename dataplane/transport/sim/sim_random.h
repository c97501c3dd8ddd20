#pragma once

#include <cstdint>

namespace peercache {

/// The random numbers of a simulation: the same seed gives the same run on every machine.
/// SOURCE: splitmix64, Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
///         2014.
///
/// THREAD: owned by its fabric or test.
class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) noexcept : state_(seed) {}

  uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound); 0 for bound 0. The bias is below 2^-32 for the bounds used here (times
  /// and counts).
  uint64_t below(uint64_t bound) noexcept {
    return bound <= UINT32_MAX ? ((next() >> 32) * bound) >> 32 : next() % bound;
  }

  /// True with a probability of `ppm` in a million.
  bool chance(uint32_t ppm) noexcept { return ppm != 0 && below(1'000'000) < ppm; }

 private:
  uint64_t state_;
};

}  // namespace peercache
