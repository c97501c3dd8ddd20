#include "controlplane/rpc/rpc_frame.h"

#include <array>
#include <cstddef>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

constexpr FrameHeader kHeader{0x00010203, 0x0a0b0c0d0e0f1011, MessageType::kTouch,
                              FrameFlag::kOneWay};

TEST_CASE("rpc_frame: a header has these bytes", "[unit]") {
  const auto bytes = encode_frame_header(kHeader);
  const std::array<uint8_t, kFrameHeaderBytes> golden{0x03, 0x02, 0x01, 0x00, 0x11, 0x10,
                                                      0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a,
                                                      0x0b, 0x00, 0x02, 0x00};
  for (size_t i = 0; i < golden.size(); ++i) REQUIRE(bytes[i] == std::byte{golden[i]});
  const FrameHeader header = *decode_frame_header(bytes, 1 << 20);
  REQUIRE(header.length_bytes == kHeader.length_bytes);
  REQUIRE(header.request_id == kHeader.request_id);
  REQUIRE(header.type == kHeader.type);
  REQUIRE(header.flag == kHeader.flag);
}

TEST_CASE("rpc_frame: length, type and flags are checked", "[unit]") {
  auto bytes = encode_frame_header(kHeader);
  REQUIRE(decode_frame_header(bytes, 0x00010203).has_value());
  REQUIRE(decode_frame_header(bytes, 0x00010202).error().code == Errc::kBadLength);
  bytes[12] = std::byte{0};
  REQUIRE(decode_frame_header(bytes, 1 << 20).error().code == Errc::kBadEnum);
  bytes[12] = std::byte{15};
  REQUIRE(decode_frame_header(bytes, 1 << 20).error().code == Errc::kBadEnum);
  bytes[12] = std::byte{14};
  REQUIRE(decode_frame_header(bytes, 1 << 20).has_value());
  bytes[14] = std::byte{3};
  REQUIRE(decode_frame_header(bytes, 1 << 20).error().code == Errc::kBadEnum);
}

}  // namespace
}  // namespace peercache
