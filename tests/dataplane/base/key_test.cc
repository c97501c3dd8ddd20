#include "dataplane/base/key.h"

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

TEST_CASE("key: different splits of the same characters are different keys", "[unit]") {
  std::set<Key128> keys;
  const std::vector<std::vector<std::string>> splits{
      {"abc", "", ""}, {"ab", "c", ""}, {"a", "bc", ""}, {"a", "b", "c"},
      {"", "abc", ""}, {"", "", "abc"}, {"", "ab", "c"}, {"ab", "", "c"}};
  for (const std::vector<std::string>& parts : splits) {
    CHECK(keys.insert(hash_key(parts[0], parts[1], parts[2])).second);
  }
}

TEST_CASE("key: a part that imitates a length prefix does not collide", "[unit]") {
  std::string forged("a");
  const uint64_t one = 1;
  forged.append(reinterpret_cast<const char*>(&one), sizeof(one)).append("b");
  CHECK(hash_key("a", "b", "") != hash_key(forged, "", ""));
}

TEST_CASE("key: the hash is part of the wire format and does not change", "[unit]") {
  // Frozen: XXH3_128bits of the xxHash library (0.8.1) over the concatenation of
  // 8-byte little-endian lengths and parts.
  const Key128 key = hash_key("namespace", "key", "k");
  CHECK(key.low == 0xc3a4084da72f9ce9ULL);
  CHECK(key.high == 0xa74e9fae434cfc6aULL);
  CHECK(hash_bytes64("", 0) ==
        0x2d06800538d394c2ULL);  // SOURCE: XXH3_64bits of nothing, xxHash's own test vectors
}

TEST_CASE("key: low bits are spread evenly", "[unit]") {
  // 64 bins of 1000 expected; five standard deviations are 160.
  std::vector<int> bins(64);
  for (int i = 0; i < 64'000; ++i) {
    ++bins[hash_key("n", std::to_string(i), "").low & 63U];
  }
  for (const int count : bins) {
    CHECK(std::abs(count - 1000) < 160);
  }
}

}  // namespace
}  // namespace peercache
