#include "dataplane/base/key.h"

// Inlined into this file: no library to link, and short keys are hashed without a call per part.
#define XXH_INLINE_ALL
#include <array>
#include <bit>
#include <xxhash.h>

namespace peercache {

static_assert(std::endian::native == std::endian::little,
              "lengths are hashed as they lie in memory");

Key128 hash_key(std::string_view key_namespace,
                std::string_view key,
                std::string_view component) noexcept {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset(&state);
  for (const std::string_view part : std::array{key_namespace, key, component}) {
    const uint64_t length_bytes = part.size();
    XXH3_128bits_update(&state, &length_bytes, sizeof(length_bytes));
    XXH3_128bits_update(&state, part.data(), part.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return Key128{.low = hash.low64, .high = hash.high64};
}

uint64_t hash_bytes64(const void* data, size_t bytes) noexcept { return XXH3_64bits(data, bytes); }

}  // namespace peercache
