#include "dataplane/base/stream_hash.h"

#define XXH_INLINE_ALL
#include <new>
#include <xxhash.h>

namespace peercache {

static_assert(sizeof(XXH3_state_t) <= 576 && alignof(XXH3_state_t) <= 64);

StreamHash64::StreamHash64() noexcept {
  auto* state = new (state_.data()) XXH3_state_t;
  XXH3_INITSTATE(state);
  XXH3_64bits_reset(state);
}

void StreamHash64::update(const void* data, size_t bytes) noexcept {
  XXH3_64bits_update(reinterpret_cast<XXH3_state_t*>(state_.data()), data, bytes);
}

uint64_t StreamHash64::digest() const noexcept {
  return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t*>(state_.data()));
}

}  // namespace peercache
