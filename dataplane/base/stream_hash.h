#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace peercache {

/// XXH3-64 of bytes that lie in pieces: the same value as hash_bytes64 of their concatenation.
///
/// THREAD:     any; a value on the stack.
/// COST:       no allocation; 576 bytes of state.
class StreamHash64 {
 public:
  StreamHash64() noexcept;
  void update(const void* data, size_t bytes) noexcept;
  [[nodiscard]] uint64_t digest() const noexcept;

 private:
  alignas(64) std::array<std::byte, 576> state_;  // XXH3_state_t; asserted in the .cc
};

}  // namespace peercache
