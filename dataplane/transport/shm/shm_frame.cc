#include "dataplane/transport/shm/shm_frame.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "dataplane/base/assert.h"
#include "dataplane/transport/shm/shm_peer_table.h"

namespace peercache {

namespace {

struct Limits {
  uint32_t bytes_min;
  uint32_t bytes_max;
  uint16_t fds_min;
  uint16_t fds_max;
};

// What a frame of each kind may look like; nothing for an unknown kind.
std::optional<Limits> limits_of(ShmFrameKind kind) {
  switch (kind) {
    case ShmFrameKind::kHello:
      return Limits{1, kHelloBytesMax, 0, 0};
    case ShmFrameKind::kRefused:
      return Limits{0, kShmRefusalBytesMax, 0, 0};
    case ShmFrameKind::kRegionFds:
      return Limits{sizeof(ShmRegionFds), sizeof(ShmRegionFds), 1, kShmFdsPerFrame};
    case ShmFrameKind::kAccepted:
      return Limits{0, 0, 0, 0};
    case ShmFrameKind::kWriteChunk:
      return Limits{sizeof(ShmWriteChunk) + 1, kShmPayloadBytesMax, 0, 0};
    case ShmFrameKind::kWriteAbort:
      return Limits{sizeof(ShmWriteAbort), sizeof(ShmWriteAbort), 0, 0};
    case ShmFrameKind::kWriteDone:
      return Limits{sizeof(ShmWriteDone), sizeof(ShmWriteDone), 0, 0};
  }
  return std::nullopt;
}

template <class Payload>
Result<Payload> load_payload(const ShmFrame& frame, ShmFrameKind kind) {
  PC_ASSERT(frame.header.kind == kind, frame.header.kind, kind);  // the caller has dispatched on it
  if (frame.payload.size() < sizeof(Payload)) {
    return make_error(Errc::kBadLength, "a payload of {} bytes where {} are needed",
                      frame.payload.size(), sizeof(Payload));
  }
  Payload payload;
  std::memcpy(&payload, frame.payload.data(), sizeof(Payload));
  return payload;
}

}  // namespace

Result<std::optional<ShmFrame>> parse_shm_frame(std::span<const std::byte> received,
                                                size_t& need_bytes) {
  need_bytes = sizeof(ShmFrameHeader);
  if (received.size() < sizeof(ShmFrameHeader)) {
    return std::optional<ShmFrame>();
  }
  ShmFrame frame{};
  std::memcpy(&frame.header, received.data(), sizeof(ShmFrameHeader));
  const ShmFrameHeader& header = frame.header;
  if (header.magic_id != kShmFrameMagic) {
    return make_error(Errc::kBadMagic, "a frame begins with {}", header.magic_id);
  }
  if (header.reserved_id != 0) {
    return make_error(Errc::kBadReserved, "a frame's reserved field is {}", header.reserved_id);
  }
  const std::optional<Limits> limits = limits_of(header.kind);
  if (!limits) {
    return make_error(Errc::kBadEnum, "a frame of unknown kind {}", header.kind);
  }
  if (header.payload_bytes < limits->bytes_min || header.payload_bytes > limits->bytes_max) {
    return make_error(Errc::kBadLength, "a frame of kind {} with {} bytes", header.kind,
                      header.payload_bytes);
  }
  if (header.fd_count < limits->fds_min || header.fd_count > limits->fds_max) {
    return make_error(Errc::kBadLength, "a frame of kind {} with {} descriptors", header.kind,
                      header.fd_count);
  }
  need_bytes = sizeof(ShmFrameHeader) + header.payload_bytes;
  if (received.size() < need_bytes) {
    return std::optional<ShmFrame>();
  }
  frame.payload = received.subspan(sizeof(ShmFrameHeader), header.payload_bytes);
  frame.frame_bytes = need_bytes;
  return std::optional<ShmFrame>(frame);
}

Result<ShmRegionFds> parse_region_fds(const ShmFrame& frame) {
  PC_TRY_ASSIGN(const ShmRegionFds fds,
                load_payload<ShmRegionFds>(frame, ShmFrameKind::kRegionFds));
  if (fds.reserved_id != 0) {
    return make_error(Errc::kBadReserved, "region descriptors' reserved field is {}",
                      fds.reserved_id);
  }
  return fds;
}

Result<ShmWriteAbort> parse_write_abort(const ShmFrame& frame) {
  return load_payload<ShmWriteAbort>(frame, ShmFrameKind::kWriteAbort);
}

Result<ShmWriteDone> parse_write_done(const ShmFrame& frame) {
  PC_TRY_ASSIGN(const ShmWriteDone done,
                load_payload<ShmWriteDone>(frame, ShmFrameKind::kWriteDone));
  if (done.status != OpStatus::kOk && done.status != OpStatus::kOutOfBounds) {
    return make_error(Errc::kBadEnum, "write {} ended with status {}", done.request_id,
                      done.status);
  }
  const auto zero = [](uint8_t value) { return value == 0; };
  if (!std::all_of(std::begin(done.reserved_id), std::end(done.reserved_id), zero)) {
    return make_error(Errc::kBadReserved, "write {} ended with reserved bytes set",
                      done.request_id);
  }
  return done;
}

Result<ShmWriteView> parse_write_chunk(const ShmFrame& frame) {
  PC_TRY_ASSIGN(const ShmWriteChunk chunk,
                load_payload<ShmWriteChunk>(frame, ShmFrameKind::kWriteChunk));
  if (chunk.reserved_id != 0) {
    return make_error(Errc::kBadReserved, "write {} has reserved field {}", chunk.request_id,
                      chunk.reserved_id);
  }
  if (chunk.last_count > 1) {
    return make_error(Errc::kBadEnum, "write {} has last field {}", chunk.request_id,
                      chunk.last_count);
  }
  return ShmWriteView{chunk, frame.payload.subspan(sizeof(ShmWriteChunk))};
}

std::string parse_refusal(const ShmFrame& frame) {
  std::string reason;
  for (const std::byte byte :
       frame.payload.first(std::min<size_t>(frame.payload.size(), kShmRefusalBytesMax))) {
    const auto value = static_cast<unsigned char>(byte);
    reason.push_back(value >= 0x20 && value < 0x7F ? static_cast<char>(value) : '?');
  }
  return reason;
}

void append_shm_frame(std::vector<std::byte>& out,
                      ShmFrameKind kind,
                      uint16_t fd_count,
                      std::span<const std::byte> payload) {
  PC_ASSERT(payload.size() <= kShmPayloadBytesMax, payload.size());
  const ShmFrameHeader header{kShmFrameMagic, kind, fd_count, static_cast<uint32_t>(payload.size()),
                              0};
  const auto head = std::as_bytes(std::span<const ShmFrameHeader, 1>(&header, 1));
  out.insert(out.end(), head.begin(), head.end());
  out.insert(out.end(), payload.begin(), payload.end());
}

void append_refusal(std::vector<std::byte>& out, std::string_view reason) {
  reason = reason.substr(0, kShmRefusalBytesMax);
  append_shm_frame(out, ShmFrameKind::kRefused, 0, std::as_bytes(std::span<const char>(reason)));
}

std::byte* writable_place(std::span<const ShmRegionView> regions,
                          RegionIndex region,
                          uint64_t offset,
                          uint64_t length) noexcept {
  if (region.value() >= regions.size()) {
    return nullptr;
  }
  const ShmRegionView& view = regions[region.value()];
  const uint64_t region_bytes = view.descriptor.length_bytes;
  const bool inside = offset <= region_bytes && length <= region_bytes - offset;
  return inside && view.writable != nullptr ? view.writable + offset : nullptr;
}

}  // namespace peercache
