#include "dataplane/wire/rail_handshake.h"

#include <cstring>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/base/key.h"
#include "tests/dataplane/wire/samples.h"
#include "tests/support/golden.h"

namespace peercache {
namespace {

using test::sample_hello;

Hello peer_hello() {
  Hello hello = sample_hello();
  hello.node = NodeId(99);
  hello.node_name = "node-b";
  return hello;
}

// After a change of the body: the checksum is right again, so that the fields themselves are looked
// at.
void reseal(std::vector<std::byte>& bytes) {
  const auto checksum = static_cast<uint32_t>(hash_bytes64(bytes.data(), bytes.size() - 4));
  std::memcpy(bytes.data() + bytes.size() - 4, &checksum, sizeof(checksum));
}

void set_length(std::vector<std::byte>& bytes) {
  const auto length_bytes = static_cast<uint32_t>(bytes.size() - 4);
  std::memcpy(bytes.data(), &length_bytes, sizeof(length_bytes));
}

void require_error(const std::vector<std::byte>& bytes, Errc code) {
  const auto result = decode_hello(bytes);
  REQUIRE_FALSE(result.has_value());
  INFO(to_string(result.error()));
  REQUIRE(result.error().code == code);
}

TEST_CASE("hello: keeps its golden bytes, and they decode", "[unit]") {
  const auto bytes = encode_hello(sample_hello());
  test::require_golden("hello", bytes);
}

TEST_CASE("hello: what was encoded is what is decoded", "[unit]") {
  const Hello sent = sample_hello();
  const auto bytes = encode_hello(sent);
  REQUIRE(bytes.size() < kHelloBytesMax);
  const auto received = decode_hello(bytes);
  REQUIRE(received.has_value());
  REQUIRE(received->version == sent.version);
  REQUIRE(received->version_oldest == sent.version_oldest);
  REQUIRE(received->hash_version == sent.hash_version);
  REQUIRE(received->directory_replicas_count == 2);
  REQUIRE(received->vnodes_count == 160);
  REQUIRE(received->member_ttl_ms == 6000);
  REQUIRE(received->node == sent.node);
  REQUIRE(received->incarnation == sent.incarnation);
  REQUIRE(received->inflight_max_count == 1024);
  REQUIRE(received->node_name == "node-a");
  REQUIRE(received->cluster_name == "peercache");
  REQUIRE(received->host_id == "0f1e2d3c-boot");
  REQUIRE(received->regions.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    REQUIRE(std::memcmp(&received->regions[i], &sent.regions[i], sizeof(RegionDescriptor)) == 0);
  }
  REQUIRE(received->rails.size() == 1);
  REQUIRE(received->rails[0].kind_id == 3);
  REQUIRE(received->rails[0].rail_index == 2);
  REQUIRE(received->rails[0].read_depth_count == 16);
  REQUIRE(received->rails[0].address_bytes == 5);
  REQUIRE(received->rails[0].address == sent.rails[0].address);
  REQUIRE(encode_hello(*received) == bytes);
}

TEST_CASE("hello: the largest one fits the limit", "[unit]") {
  Hello hello = sample_hello();
  hello.node_name = hello.cluster_name = hello.host_id = std::string(255, 'x');
  hello.regions.assign(limits::kRegionsPerNodeMax, hello.regions[3]);
  hello.rails.assign(limits::kRailsMax, hello.rails[0]);
  REQUIRE(decode_hello(encode_hello(hello)).has_value());
}

TEST_CASE("hello: every prefix and every changed byte is refused", "[unit]") {
  const auto good = encode_hello(sample_hello());
  for (size_t count = 0; count < good.size(); ++count) {
    const std::vector<std::byte> part(good.begin(), good.begin() + static_cast<ptrdiff_t>(count));
    require_error(part, Errc::kTruncated);
  }
  for (size_t at = 0; at < good.size(); ++at) {
    auto bad = good;
    bad[at] ^= std::byte{0x10};
    REQUIRE_FALSE(decode_hello(bad).has_value());
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  require_error(longer, Errc::kTrailingBytes);
  set_length(longer);
  reseal(longer);
  require_error(longer, Errc::kTrailingBytes);
}

TEST_CASE("hello: each kind of nonsense has its own error", "[unit]") {
  const auto good = encode_hello(sample_hello());
  auto bad = good;
  bad[4] = std::byte{'X'};
  require_error(bad, Errc::kBadMagic);
  bad = good;
  bad[3] = std::byte{0x7f};
  require_error(bad, Errc::kBadLength);
  bad = good;
  bad.back() ^= std::byte{1};
  require_error(bad, Errc::kBadChecksum);

  Hello hello = sample_hello();
  hello.version = hello.version_oldest = 9;
  require_error(encode_hello(hello), Errc::kBadVersion);
  hello = sample_hello();
  hello.version = 0;
  hello.version_oldest = 0;
  require_error(encode_hello(hello), Errc::kBadVersion);
  hello = sample_hello();
  hello.regions[0].kind = static_cast<RegionKind>(6);
  require_error(encode_hello(hello), Errc::kBadEnum);
  hello = sample_hello();
  hello.rails[0].kind_id = 7;
  require_error(encode_hello(hello), Errc::kBadEnum);
  hello = sample_hello();
  hello.rails[0].rail_index = 16;
  require_error(encode_hello(hello), Errc::kBadLength);
}

TEST_CASE("hello: counts are checked before anything is allocated for them", "[unit]") {
  const Hello hello = sample_hello();
  const auto good = encode_hello(hello);
  const size_t counts_at = 4 + 4 + 8 + 8 + 16 + (1 + 6) + (1 + 9) + (1 + 13);
  auto bad = good;
  bad[counts_at] = std::byte{65};
  reseal(bad);
  require_error(bad, Errc::kBadLength);
  bad[counts_at] = std::byte{64};
  reseal(bad);
  require_error(bad, Errc::kTruncated);
  const size_t rails_at = counts_at + 2 + 4 * sizeof(RegionDescriptor);
  bad = good;
  bad[rails_at] = std::byte{17};
  reseal(bad);
  require_error(bad, Errc::kBadLength);
  bad[rails_at] = std::byte{2};
  reseal(bad);
  require_error(bad, Errc::kTruncated);
  bad = good;
  bad[counts_at + 2 + 30] = std::byte{1};  // the first region's padding
  reseal(bad);
  require_error(bad, Errc::kBadReserved);
  bad = good;
  bad[rails_at + 2 + 8] = std::byte{65};  // the rail's address_bytes
  reseal(bad);
  require_error(bad, Errc::kBadLength);
}

TEST_CASE("hello: a pair that fits agrees on the smaller of both", "[unit]") {
  Hello theirs = peer_hello();
  theirs.inflight_max_count = 64;
  const auto agreement = check_hello(sample_hello(), theirs);
  REQUIRE(agreement.has_value());
  REQUIRE(agreement->version == kWireVersion);
  REQUIRE(agreement->inflight_max_count == 64);
}

TEST_CASE("hello: a refusal names the field and both values", "[unit]") {
  const auto reason = [](auto change) {
    Hello theirs = peer_hello();
    change(theirs);
    const auto result = check_hello(sample_hello(), theirs);
    REQUIRE_FALSE(result.has_value());
    return result.error();
  };
  REQUIRE(reason([](Hello& h) { h.cluster_name = "other\n!"; }) ==
          "cluster_name: this node has peercache, the peer other?!");
  REQUIRE(reason([](Hello& h) { h.directory_replicas_count = 3; }) ==
          "directory_replicas: this node has 2, the peer 3");
  REQUIRE(reason([](Hello& h) { h.vnodes_count = 100; }) ==
          "vnodes: this node has 160, the peer 100");
  REQUIRE(reason([](Hello& h) { h.member_ttl_ms = 1; }) ==
          "member_ttl_ms: this node has 6000, the peer 1");
  REQUIRE(reason([](Hello& h) { h.hash_version = 2; }) ==
          "hash version: this node has 1, the peer 2");
  REQUIRE(reason([](Hello& h) { h.version = h.version_oldest = 2; }) ==
          "wire version: this node has 1 to 1, the peer 2 to 2");
  REQUIRE(reason([](Hello& h) { h.node = sample_hello().node; }) ==
          "node_id (must differ): this node has node-a, the peer node-b");
  REQUIRE(reason([](Hello& h) { h.node = NodeId{}; }) == "node: the peer has none");
  REQUIRE(reason([](Hello& h) { h.inflight_max_count = 0; }) ==
          "inflight_max_count (must not be 0): this node has 1024, the peer 0");
  REQUIRE_THAT(reason([](Hello& h) { h.regions[3].region = RegionIndex(1); }),
               Catch::StartsWith("regions: ") && Catch::Contains("region index 1 is used twice"));
}

}  // namespace
}  // namespace peercache
