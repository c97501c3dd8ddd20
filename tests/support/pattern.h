#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dataplane/base/key.h"

namespace peercache::testing {

/// Contents that say what they are: every 8 bytes depend on key and offset, so that a byte of another object, of another
/// place or of another life of a slot is seen.
inline uint64_t pattern_word(const Key128& key, uint64_t word_index) {
  uint64_t value =
      key.low ^ (key.high * 0x9e3779b97f4a7c15ULL) ^ (word_index * 0xbf58476d1ce4e5b9ULL);
  value ^= value >> 29;
  value *= 0x94d049bb133111ebULL;
  return value ^ (value >> 32);
}

inline void fill_pattern(const Key128& key, std::byte* to, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 8) {
    const uint64_t word = pattern_word(key, at / 8);
    std::memcpy(to + at, &word, bytes - at < 8 ? bytes - at : 8);
  }
}

/// Bytes that differ from the pattern.
inline size_t count_wrong(const Key128& key, const std::byte* from, size_t bytes) {
  size_t wrong = 0;
  for (size_t at = 0; at < bytes; at += 8) {
    const uint64_t word = pattern_word(key, at / 8);
    const size_t n = bytes - at < 8 ? bytes - at : 8;
    if (std::memcmp(from + at, &word, n) != 0) wrong += n;
  }
  return wrong;
}

}  // namespace peercache::testing
