#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dataplane/base/key.h"

namespace peercache {

/// Everything that tells apart two pages with the same serving-engine key, which is a hash of
/// tokens only (design 8). Ranks of a replicated cache hold the same bytes and therefore share
/// objects: their rank is left out.
///
/// THREAD:     any; a value.
struct PageNamespace {
  /// Changes when the meaning of an object's bytes does. Version 1: pieces K, V or K0, V0, K1, V1,
  /// ...
  static constexpr uint32_t kFormatVersion = 1;

  std::string prefix;  ///< the user's, for several deployments in one cluster
  std::string model;
  std::string tag;    ///< weights revision, LoRA set, packed format: whatever the user says
  std::string dtype;  ///< of the KV cache, as exactly as it is known
  std::string layout;
  std::string pool = "kv";
  std::string component;  ///< empty: all pieces of a page in their order
  uint64_t page_slot_count = 0;
  uint64_t object_bytes = 0;
  uint64_t tp_rank = 0, tp_size = 1;
  uint64_t pp_rank = 0, pp_size = 1;
  uint64_t cp_rank = 0, cp_size = 1;
  bool replicated = false;  ///< every TP rank holds the same bytes

  /// "format=1 prefix=3:abc model=... ...": readable, and different for different fields, since
  /// texts carry their length.
  [[nodiscard]] std::string to_text() const;
};

/// Turns serving-engine keys into object names: XXH3-128 over the digest of a namespace and the
/// key.
///
/// THREAD:     immutable; any.
/// COST:       hash() allocates nothing.
class KeyHasher {
 public:
  explicit KeyHasher(std::string_view namespace_text) noexcept;

  /// REQUIRES: out.size() == keys.size().
  void hash(std::span<const std::string_view> keys, std::span<Key128> out) const noexcept;
  [[nodiscard]] Key128 hash(std::string_view key) const noexcept;

 private:
  char digest_[sizeof(Key128)];
};

}  // namespace peercache
