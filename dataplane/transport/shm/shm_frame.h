#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/transport/work_request.h"
#include "dataplane/wire/rail_handshake.h"

/// Frames on the Unix socket between two nodes, and the only functions that read a peer's bytes
/// there: pure, bounded, and what the fuzz target calls.
///
///   connector                      acceptor
///   kHello (its hello)       ->
///                            <-    kHello (own hello), then kRegionFds until every region has one
///   kAccepted, or kRefused   ->                       kRefused instead, with the reason, then end
///   of the connection kWriteChunk* kWriteAbort ->
///                            <-    kWriteDone, one for each request whose last chunk arrived
namespace peercache {

enum class ShmFrameKind : uint16_t {
  kHello = 1,
  kRefused = 2,     ///< text
  kRegionFds = 3,   ///< ShmRegionFds, with `fd_count` descriptors in ancillary data
  kAccepted = 4,    ///< empty
  kWriteChunk = 5,  ///< ShmWriteChunk and bytes
  kWriteAbort = 6,  ///< ShmWriteAbort
  kWriteDone = 7,   ///< ShmWriteDone
};

inline constexpr uint32_t kShmFrameMagic = 0x4D485350;  // "PSHM"

struct ShmFrameHeader {
  uint32_t magic_id;
  ShmFrameKind kind;
  uint16_t fd_count;
  uint32_t payload_bytes;
  uint32_t reserved_id;  ///< zero
};
static_assert(sizeof(ShmFrameHeader) == 16 && std::is_trivially_copyable_v<ShmFrameHeader>);

/// Descriptors of the regions [first_index, first_index + fd_count) of the hello.
struct ShmRegionFds {
  uint32_t first_index;
  uint32_t reserved_id;
};
static_assert(sizeof(ShmRegionFds) == 8 && std::is_trivially_copyable_v<ShmRegionFds>);

/// A part of one WRITE. The chunks of a request follow each other without those of another; each is
/// checked by itself.
struct ShmWriteChunk {
  uint64_t request_id;
  uint64_t offset_bytes;
  RegionIndex region;
  uint16_t last_count;  ///< 1: the request ends here and is answered
  uint32_t reserved_id;
};
static_assert(sizeof(ShmWriteChunk) == 24 && std::is_trivially_copyable_v<ShmWriteChunk>);

/// The rest of the request does not come; no answer.
struct ShmWriteAbort {
  uint64_t request_id;
};
static_assert(sizeof(ShmWriteAbort) == 8 && std::is_trivially_copyable_v<ShmWriteAbort>);

struct ShmWriteDone {
  uint64_t request_id;
  OpStatus status;  ///< kOk or kOutOfBounds
  uint8_t reserved_id[7];
};
static_assert(sizeof(ShmWriteDone) == 16 && std::is_trivially_copyable_v<ShmWriteDone>);

/// Bytes of a WRITE in one chunk: half of the socket's default buffer, so that two are under way.
inline constexpr uint32_t kShmChunkBytes = 64 * 1024;
inline constexpr uint32_t kShmPayloadBytesMax = kShmChunkBytes + sizeof(ShmWriteChunk);
static_assert(kHelloBytesMax <= kShmPayloadBytesMax);
inline constexpr uint32_t kShmRefusalBytesMax = 1024;

/// Descriptors in one message. The kernel takes 253 (SCM_MAX_FD); a small number keeps the
/// receiver's buffer small.
inline constexpr uint32_t kShmFdsPerFrame = 16;

/// One whole frame in a buffer; borrows it.
struct ShmFrame {
  ShmFrameHeader header;
  std::span<const std::byte> payload;
  size_t frame_bytes;  ///< header and payload
};

/// Looks at the front of received bytes: a frame, nothing yet, or an error after which the
/// connection cannot be used. `need_bytes` is set to what a whole frame needs as far as is known,
/// never above the largest frame. Errors: kBadMagic, kBadEnum, kBadLength (payload or descriptors
/// that this kind cannot have), kBadReserved.
Result<std::optional<ShmFrame>> parse_shm_frame(std::span<const std::byte> received,
                                                size_t& need_bytes);

/// Reads the payload of a frame whose kind says what it is. Errors: kBadLength, kBadReserved,
/// kBadEnum.
Result<ShmRegionFds> parse_region_fds(const ShmFrame& frame);
Result<ShmWriteAbort> parse_write_abort(const ShmFrame& frame);
Result<ShmWriteDone> parse_write_done(const ShmFrame& frame);

struct ShmWriteView {
  ShmWriteChunk chunk;
  std::span<const std::byte> bytes;
};
Result<ShmWriteView> parse_write_chunk(const ShmFrame& frame);

/// The reason of a refusal, with everything but printable ASCII replaced: it goes into logs.
std::string parse_refusal(const ShmFrame& frame);

/// Appends a frame. REQUIRES: payload.size() <= kShmPayloadBytesMax.
void append_shm_frame(std::vector<std::byte>& out,
                      ShmFrameKind kind,
                      uint16_t fd_count,
                      std::span<const std::byte> payload);

template <class Payload>
  requires std::is_trivially_copyable_v<Payload>
void append_payload(std::vector<std::byte>& out,
                    ShmFrameKind kind,
                    uint16_t fd_count,
                    const Payload& payload) {
  append_shm_frame(out, kind, fd_count, std::as_bytes(std::span<const Payload, 1>(&payload, 1)));
}

/// Appends a refusal; the text is cut at kShmRefusalBytesMax.
void append_refusal(std::vector<std::byte>& out, std::string_view reason);

/// Where a peer's WRITE may go, by the owner's own table: null if the region is not writable or the
/// range not inside.
[[nodiscard]] std::byte* writable_place(std::span<const struct ShmRegionView> regions,
                                        RegionIndex region,
                                        uint64_t offset,
                                        uint64_t length) noexcept;

}  // namespace peercache
