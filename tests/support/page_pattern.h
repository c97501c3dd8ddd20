#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dataplane/base/assert.h"
#include "dataplane/base/key.h"
#include "dataplane/base/ordering.h"

namespace peercache::test {

/// Contents that say what they are: each 8 bytes depend on the object's key and on their offset in it, so that a byte
/// of another object, of another life or from another place is found out.
///
/// THREAD:     immutable after construction.
class PagePattern {
 public:
  static constexpr size_t kBytesMax = 64 * 1024;  ///< beyond it the offsets repeat, mixed with the block's number

  PagePattern() {
    uint64_t state = 0x9e3779b97f4a7c15;
    for (uint64_t& word : by_offset_) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      word = state;
    }
  }

  [[nodiscard]] uint64_t word(const Key128& key, size_t word_index) const {
    const size_t block = word_index / by_offset_.size();
    return ((key.low + block) ^ by_offset_[word_index % by_offset_.size()]) + key.high;
  }

  /// Writes bytes [begin, end) of the object. REQUIRES: both are multiples of 8.
  void fill(std::byte* object, const Key128& key, size_t begin, size_t end) const {
    for_blocks(begin, end, [&](size_t at, size_t block, size_t first, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        const uint64_t value = ((key.low + block) ^ by_offset_[first + i]) + key.high;
        std::memcpy(object + at + i * sizeof(value), &value, sizeof(value));
      }
    });
  }

  /// True if all `bytes` are this object's. A tail of less than 8 bytes is compared as far as it goes.
  [[nodiscard]] bool matches(const std::byte* object, const Key128& key, size_t bytes) const {
    uint64_t difference = 0;
    const size_t whole = bytes / sizeof(uint64_t) * sizeof(uint64_t);
    for_blocks(0, whole, [&](size_t at, size_t block, size_t first, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        uint64_t value;
        std::memcpy(&value, object + at + i * sizeof(value), sizeof(value));
        difference |= value ^ (((key.low + block) ^ by_offset_[first + i]) + key.high);
      }
    });
    const uint64_t last = word(key, whole / sizeof(uint64_t));
    return difference == 0 && std::memcmp(object + whole, &last, bytes - whole) == 0;
  }

 private:
  template <class Fn>
  void for_blocks(size_t begin, size_t end, Fn&& fn) const {
    PC_ASSERT(begin % sizeof(uint64_t) == 0 && end % sizeof(uint64_t) == 0, begin, end);
    while (begin < end) {
      const size_t block = begin / kBytesMax;
      const size_t stop = end < (block + 1) * kBytesMax ? end : (block + 1) * kBytesMax;
      fn(begin, block, begin % kBytesMax / sizeof(uint64_t), (stop - begin) / sizeof(uint64_t));
      begin = stop;
    }
  }

  std::array<uint64_t, kBytesMax / sizeof(uint64_t)> by_offset_{};
};

/// The key of the n-th object of a run.
[[nodiscard]] inline Key128 numbered_key(uint64_t number) noexcept {
  uint64_t z = (number + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return Key128{.low = z ^ (z >> 31), .high = z * 0xd6e8feb86659fd93 | 1};
}

/// Random numbers of a test: a seed gives the same run everywhere (xorshift64*).
///
/// THREAD:     the test's.
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
  }
  /// Uniform in [0, bound). REQUIRES: bound > 0.
  uint64_t below(uint64_t bound) { return ((next() >> 32) * bound) >> 32; }

 private:
  uint64_t state_;
};

}  // namespace peercache::test
