#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>

namespace peercache {

/// The name of an object: 128 bits of hash over namespace, the serving engine's key, and component
/// (design 8). Every part of it is uniform, so that a table takes any bits of it as an index.
///
/// THREAD:     any; a value of 16 bytes that crosses the wire as two little-endian words, low
/// first.
struct Key128 {
  uint64_t low = 0;
  uint64_t high = 0;

  friend constexpr auto operator<=>(const Key128&, const Key128&) = default;
};
static_assert(sizeof(Key128) == 16 && std::is_trivially_copyable_v<Key128>);

/// XXH3-128 over the three parts, each preceded by its length: no two different triples feed the
/// same bytes. The result is part of the wire format (`hash version` of the hello); golden values
/// are in the test. No allocation. `key_namespace` may be any text or digest.
[[nodiscard]] Key128 hash_key(std::string_view key_namespace,
                              std::string_view key,
                              std::string_view component) noexcept;

/// XXH3-64 of bytes, seed 0: payload and record checksums.
[[nodiscard]] uint64_t hash_bytes64(const void* data, size_t bytes) noexcept;

}  // namespace peercache

template <>
struct std::hash<peercache::Key128> {
  size_t operator()(const peercache::Key128& key) const noexcept { return key.low; }
};
