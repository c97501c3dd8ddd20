#include "dataplane/base/stream_hash.h"

#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/base/key.h"

using namespace peercache;  // NOLINT: a test

TEST_CASE("stream hash: pieces give the hash of their concatenation", "[unit]") {
  std::vector<std::byte> bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 131);
  for (const size_t length : {1U, 240U, 241U, 1024U, 5000U}) {
    for (const size_t cut : {size_t{0}, size_t{1}, length / 3, length}) {
      StreamHash64 hash;
      hash.update(bytes.data(), cut);
      hash.update(bytes.data() + cut, length - cut);
      CHECK(hash.digest() == hash_bytes64(bytes.data(), length));
    }
  }
}
