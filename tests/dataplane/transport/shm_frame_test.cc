#include "dataplane/transport/shm/shm_frame.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/transport/shm/shm_peer_table.h"
#include "tests/support/golden.h"

namespace peercache {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span<const char>(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> sample_frames() {
  std::vector<std::byte> out;
  append_shm_frame(out, ShmFrameKind::kHello, 0, bytes_of("hello bytes"));
  append_refusal(out, "cluster_name differs");
  append_payload(out, ShmFrameKind::kRegionFds, 3, ShmRegionFds{16, 0});
  append_shm_frame(out, ShmFrameKind::kAccepted, 0, std::span<const std::byte>());
  std::vector<std::byte> chunk(sizeof(ShmWriteChunk));
  const ShmWriteChunk head{0x0102030405060708, 0x1112131415161718, RegionIndex(5), 1, 0};
  std::memcpy(chunk.data(), &head, sizeof head);
  const auto data = bytes_of("payload");
  chunk.insert(chunk.end(), data.begin(), data.end());
  append_shm_frame(out, ShmFrameKind::kWriteChunk, 0, chunk);
  append_payload(out, ShmFrameKind::kWriteAbort, 0, ShmWriteAbort{0x2122232425262728});
  append_payload(out, ShmFrameKind::kWriteDone, 0,
                 ShmWriteDone{0x3132333435363738, OpStatus::kOutOfBounds, {}});
  return out;
}

// The header of the first frame, to be spoilt.
ShmFrameHeader header_of(ShmFrameKind kind, uint32_t payload_bytes, uint16_t fd_count) {
  return {kShmFrameMagic, kind, fd_count, payload_bytes, 0};
}

Result<std::optional<ShmFrame>> parse_header(const ShmFrameHeader& header, size_t& need) {
  return parse_shm_frame(std::as_bytes(std::span<const ShmFrameHeader, 1>(&header, 1)), need);
}

Errc refusal(const ShmFrameHeader& header) {
  size_t need = 0;
  const auto frame = parse_header(header, need);
  REQUIRE_FALSE(frame.has_value());
  return frame.error().code;
}

TEST_CASE("shm frame: keeps its golden bytes", "[unit]") {
  test::require_golden("shm_frames", sample_frames());
}

TEST_CASE("shm frame: what was appended is what is parsed", "[unit]") {
  const std::vector<std::byte> bytes = sample_frames();
  std::span<const std::byte> rest(bytes);
  std::vector<ShmFrameKind> kinds;
  size_t need = 0;
  while (!rest.empty()) {
    const auto frame = std::move(parse_shm_frame(rest, need)).value().value();
    kinds.push_back(frame.header.kind);
    switch (frame.header.kind) {
      case ShmFrameKind::kHello:
        REQUIRE(frame.payload.size() == 11);
        break;
      case ShmFrameKind::kRefused:
        REQUIRE(parse_refusal(frame) == "cluster_name differs");
        break;
      case ShmFrameKind::kRegionFds:
        REQUIRE(parse_region_fds(frame)->first_index == 16);
        REQUIRE(frame.header.fd_count == 3);
        break;
      case ShmFrameKind::kAccepted:
        REQUIRE(frame.payload.empty());
        break;
      case ShmFrameKind::kWriteChunk: {
        const auto view = std::move(parse_write_chunk(frame)).value();
        REQUIRE(view.chunk.request_id == 0x0102030405060708);
        REQUIRE(view.chunk.offset_bytes == 0x1112131415161718);
        REQUIRE(view.chunk.region == RegionIndex(5));
        REQUIRE(view.chunk.last_count == 1);
        REQUIRE(view.bytes.size() == 7);
        break;
      }
      case ShmFrameKind::kWriteAbort:
        REQUIRE(parse_write_abort(frame)->request_id == 0x2122232425262728);
        break;
      case ShmFrameKind::kWriteDone:
        REQUIRE(parse_write_done(frame)->status == OpStatus::kOutOfBounds);
        break;
    }
    rest = rest.subspan(frame.frame_bytes);
  }
  REQUIRE(kinds.size() == 7);
}

TEST_CASE("shm frame: every prefix of a frame waits for more and never asks for too much",
          "[unit]") {
  std::vector<std::byte> bytes;
  append_shm_frame(bytes, ShmFrameKind::kHello, 0, std::vector<std::byte>(1000));
  for (size_t length = 0; length < bytes.size(); ++length) {
    size_t need = 0;
    const auto frame = parse_shm_frame(std::span<const std::byte>(bytes).first(length), need);
    REQUIRE(frame.has_value());
    REQUIRE_FALSE(frame->has_value());
    REQUIRE(need > length);
    REQUIRE(need <= sizeof(ShmFrameHeader) + kShmPayloadBytesMax);
  }
}

TEST_CASE("shm frame: headers that no node sends are refused before their payload", "[unit]") {
  ShmFrameHeader header = header_of(ShmFrameKind::kHello, 100, 0);
  header.magic_id ^= 1;
  REQUIRE(refusal(header) == Errc::kBadMagic);
  header = header_of(ShmFrameKind::kHello, 100, 0);
  header.reserved_id = 1;
  REQUIRE(refusal(header) == Errc::kBadReserved);
  REQUIRE(refusal(header_of(static_cast<ShmFrameKind>(0), 0, 0)) == Errc::kBadEnum);
  REQUIRE(refusal(header_of(static_cast<ShmFrameKind>(8), 0, 0)) == Errc::kBadEnum);
  REQUIRE(refusal(header_of(static_cast<ShmFrameKind>(65535), 0, 0)) == Errc::kBadEnum);
  REQUIRE(refusal(header_of(ShmFrameKind::kHello, kHelloBytesMax + 1, 0)) == Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kHello, 0, 0)) == Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kHello, 10, 1)) == Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kRegionFds, 8, 0)) == Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kRegionFds, 8, kShmFdsPerFrame + 1)) == Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kRegionFds, 9, 1)) == Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kAccepted, 1, 0)) == Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kRefused, kShmRefusalBytesMax + 1, 0)) ==
          Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kWriteChunk, sizeof(ShmWriteChunk), 0)) ==
          Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kWriteChunk, kShmPayloadBytesMax + 1, 0)) ==
          Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kWriteChunk, UINT32_MAX, 0)) == Errc::kBadLength);
  REQUIRE(refusal(header_of(ShmFrameKind::kWriteDone, 15, 0)) == Errc::kBadLength);
}

TEST_CASE("shm frame: payloads with reserved bits or foreign values are refused", "[unit]") {
  const auto frame_of = [](std::vector<std::byte>& bytes) {
    size_t need = 0;
    return std::move(parse_shm_frame(bytes, need)).value().value();
  };
  std::vector<std::byte> bytes;
  append_payload(bytes, ShmFrameKind::kRegionFds, 1, ShmRegionFds{0, 7});
  REQUIRE(parse_region_fds(frame_of(bytes)).error().code == Errc::kBadReserved);
  bytes.clear();
  append_payload(bytes, ShmFrameKind::kWriteDone, 0, ShmWriteDone{1, OpStatus::kStale, {}});
  REQUIRE(parse_write_done(frame_of(bytes)).error().code == Errc::kBadEnum);
  bytes.clear();
  append_payload(bytes, ShmFrameKind::kWriteDone, 0,
                 ShmWriteDone{1, OpStatus::kOk, {0, 0, 1, 0, 0, 0, 0}});
  REQUIRE(parse_write_done(frame_of(bytes)).error().code == Errc::kBadReserved);
  for (const auto& [last, reserved, code] :
       {std::tuple(2, 0, Errc::kBadEnum), std::tuple(0, 1, Errc::kBadReserved)}) {
    ShmWriteChunk chunk{1, 2, RegionIndex(3), static_cast<uint16_t>(last),
                        static_cast<uint32_t>(reserved)};
    std::vector<std::byte> payload(sizeof chunk + 1);
    std::memcpy(payload.data(), &chunk, sizeof chunk);
    bytes.clear();
    append_shm_frame(bytes, ShmFrameKind::kWriteChunk, 0, payload);
    REQUIRE(parse_write_chunk(frame_of(bytes)).error().code == code);
  }
}

TEST_CASE("shm frame: a refusal is cut, and nothing but printable text reaches the log", "[unit]") {
  std::vector<std::byte> bytes;
  append_refusal(bytes, std::string(5000, 'x') + "tail");
  size_t need = 0;
  const auto frame = std::move(parse_shm_frame(bytes, need)).value().value();
  REQUIRE(parse_refusal(frame) == std::string(kShmRefusalBytesMax, 'x'));
  bytes.clear();
  append_refusal(bytes, "a\nb\x1b[31m\xff");
  REQUIRE(parse_refusal(std::move(parse_shm_frame(bytes, need)).value().value()) == "a?b?[31m?");
}

TEST_CASE("shm frame: a write finds a place only inside a writable region", "[unit]") {
  std::vector<std::byte> memory(100);
  std::vector<ShmRegionView> regions(3);
  regions[0].data = memory.data();
  regions[0].descriptor.length_bytes = 100;  // readable only
  regions[1].data = regions[1].writable = memory.data();
  regions[1].descriptor.length_bytes = 100;
  const RegionIndex writable(1);
  REQUIRE(writable_place(regions, writable, 0, 100) == memory.data());
  REQUIRE(writable_place(regions, writable, 99, 1) == memory.data() + 99);
  REQUIRE(writable_place(regions, writable, 0, 101) == nullptr);
  REQUIRE(writable_place(regions, writable, 100, 1) == nullptr);
  REQUIRE(writable_place(regions, writable, UINT64_MAX, 2) == nullptr);
  REQUIRE(writable_place(regions, writable, 1, UINT64_MAX) == nullptr);
  REQUIRE(writable_place(regions, RegionIndex(0), 0, 1) == nullptr);
  REQUIRE(writable_place(regions, RegionIndex(2), 0, 1) == nullptr);
  REQUIRE(writable_place(regions, RegionIndex(3), 0, 1) == nullptr);
}

}  // namespace
}  // namespace peercache
