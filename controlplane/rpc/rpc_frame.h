#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "controlplane/wire/messages.h"
#include "dataplane/base/result.h"

namespace peercache {

inline constexpr size_t kFrameHeaderBytes = 16;

/// What a frame is for.
enum class FrameFlag : uint16_t { kRequest = 0, kReply = 1, kOneWay = 2 };

/// Begins every frame on a control connection: [u32 length][u64 request id][u16 type][u16 flags],
/// little-endian; `length` counts the body that follows.
///
/// THREAD:     any; a value.
struct FrameHeader {
  uint32_t length_bytes = 0;
  uint64_t request_id = 0;
  MessageType type = MessageType::kAck;
  FrameFlag flag = FrameFlag::kRequest;
};

std::array<std::byte, kFrameHeaderBytes> encode_frame_header(const FrameHeader& header) noexcept;

/// Checks everything before a byte of the body is read or a buffer is made for it.
/// Errors: kBadLength (over `body_bytes_max`), kBadEnum.
Result<FrameHeader> decode_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes,
                                        size_t body_bytes_max) noexcept;

}  // namespace peercache
