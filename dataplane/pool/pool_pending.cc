#include <bit>

#include "dataplane/pool/published_pool_state.h"

namespace peercache {

namespace {

// Keys of one pass over the rings; more keys take several passes. With the table below half full,
// 16 KiB of stack.
constexpr uint32_t kPassKeys = 4096;
constexpr uint32_t kTableEntries = 2 * kPassKeys;

/// Which of up to kPassKeys keys a message is about.
///
/// THREAD:     its creator's; lives on the stack.
/// BORROWS:    the keys.
class KeySet {
 public:
  KeySet(const Key128* keys, uint32_t key_count)
      : keys_(keys), mask_(std::bit_ceil(2 * key_count) - 1) {
    for (uint32_t i = 0; i <= mask_; ++i) {
      entries_[i] = 0;
    }
  }

  void add(uint32_t key_index) {
    uint32_t at = home_of(keys_[key_index]);
    while (entries_[at] != 0) {
      at = (at + 1) & mask_;
    }
    entries_[at] = static_cast<uint16_t>(key_index + 1);
  }

  /// Calls fn(key_index) for each index whose key this is (a batch may name a key twice).
  template <class Fn>
  void for_each(const Key128& key, Fn&& fn) const {
    for (uint32_t at = home_of(key); entries_[at] != 0; at = (at + 1) & mask_) {
      if (keys_[entries_[at] - 1] == key) {
        fn(static_cast<uint32_t>(entries_[at] - 1));
      }
    }
  }

 private:
  [[nodiscard]] uint32_t home_of(const Key128& key) const {
    return static_cast<uint32_t>(key.low >> 7U) & mask_;
  }

  const Key128* keys_;
  uint32_t mask_;
  std::array<uint16_t, kTableEntries> entries_;  // key index + 1; only the masked part is used
};
static_assert(kPassKeys < UINT16_MAX);

// At most kPassKeys keys. Results that were there before are left alone.
template <class ForEachClient>
uint32_t find_in_rings(const Key128* keys,
                       LookupResult* results,
                       uint32_t key_count,
                       ForEachClient&& for_each_client) {
  KeySet wanted(keys, key_count);
  for (uint32_t i = 0; i < key_count; ++i) {
    if (results[i].count == 0) {
      wanted.add(i);
    }
  }
  uint32_t found_count = 0;
  for_each_client([&](const auto& shared) {
    shared.messages.peek_unconsumed([&](const PoolMessage& message) {
      if (message.kind != PoolMessageKind::kPublish) {
        return;
      }
      bool checked = false;
      bool sound = false;
      wanted.for_each(message.location.key, [&](uint32_t i) {
        // A copy may be a mixture of two messages: its seal tells. Only checked where the key is
        // wanted.
        sound = checked ? sound : is_sound(message.location);
        checked = true;
        LookupResult& result = results[i];
        if (sound &&
            (result.count == 0 || result.locations[0].sequence < message.location.sequence)) {
          found_count += result.count == 0 ? 1 : 0;
          result.locations[0] = message.location;
          result.count = 1;
        }
      });
    });
  });
  return found_count;
}

}  // namespace

uint32_t PublishedPool::State::find_pending(const Key128* keys,
                                            LookupResult* results,
                                            uint32_t key_count) const noexcept {
  bool any = false;
  for_each_client([&](const Shared& shared) { any = any || shared.messages.size_approx() != 0; });
  uint32_t found_count = 0;
  for (uint32_t done = 0; any && done < key_count; done += kPassKeys) {
    const uint32_t count = std::min(kPassKeys, key_count - done);
    found_count +=
        find_in_rings(keys + done, results + done, count, [&](auto&& fn) { for_each_client(fn); });
  }
  return found_count;
}

}  // namespace peercache
