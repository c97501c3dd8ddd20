#include "controlplane/rpc/rpc_frame.h"

#include <cstring>

namespace peercache {

namespace {

template <class Word>
void store(std::byte* to, Word value) noexcept {
  std::memcpy(to, &value, sizeof(value));  // little-endian hosts only (wire_types.h)
}

template <class Word>
Word load(const std::byte* from) noexcept {
  Word value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

std::array<std::byte, kFrameHeaderBytes> encode_frame_header(const FrameHeader& header) noexcept {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  store(bytes.data(), header.length_bytes);
  store(bytes.data() + 4, header.request_id);
  store(bytes.data() + 12, static_cast<uint16_t>(header.type));
  store(bytes.data() + 14, static_cast<uint16_t>(header.flag));
  return bytes;
}

Result<FrameHeader> decode_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes,
                                        size_t body_bytes_max) noexcept {
  FrameHeader header;
  header.length_bytes = load<uint32_t>(bytes.data());
  header.request_id = load<uint64_t>(bytes.data() + 4);
  const auto type = load<uint16_t>(bytes.data() + 12);
  const auto flag = load<uint16_t>(bytes.data() + 14);
  if (header.length_bytes > body_bytes_max) {
    return make_error(Errc::kBadLength, "frame of {} bytes, at most {}", header.length_bytes,
                      body_bytes_max);
  }
  if (type < static_cast<uint16_t>(MessageType::kHello) ||
      type > static_cast<uint16_t>(MessageType::kErrorReply)) {
    return make_error(Errc::kBadEnum, "frame with message type {}", type);
  }
  if (flag > static_cast<uint16_t>(FrameFlag::kOneWay)) {
    return make_error(Errc::kBadEnum, "frame with flags {}", flag);
  }
  header.type = static_cast<MessageType>(type);
  header.flag = static_cast<FrameFlag>(flag);
  return header;
}

}  // namespace peercache
