// Every byte that a peer sends on the Unix socket: any stream is cut into frames or refused, and no
// frame makes a WRITE leave its region.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dataplane/base/assert.h"
#include "dataplane/transport/shm/shm_frame.h"
#include "dataplane/transport/shm/shm_peer_table.h"
#include "dataplane/wire/rail_handshake.h"

namespace peercache {
namespace {

constexpr size_t kWritableBytes = 1000;

struct Owner {
  Owner() : memory(kWritableBytes + 2 * 64), regions(limits::kRegionsPerNodeMax) {
    regions[0].data = memory.data();
    regions[0].descriptor.length_bytes = kWritableBytes;
    regions[5].data = memory.data() + 64;
    regions[5].writable = memory.data() + 64;
    regions[5].descriptor.length_bytes = kWritableBytes;
  }
  void check_guards() const {
    for (size_t i = 0; i < 64; ++i) {
      PC_ASSERT(memory[i] == std::byte{0}, i);
      PC_ASSERT(memory[64 + kWritableBytes + i] == std::byte{0}, i);
    }
  }
  std::vector<std::byte> memory;
  std::vector<ShmRegionView> regions;
};

void read_hello(const ShmFrame& frame) {
  const auto hello = decode_hello(frame.payload);
  if (!hello) {
    return;
  }
  // As the connecting side does before it maps anything.
  if (check_region_table(hello->regions)) {
    for (const RegionDescriptor& region : hello->regions) {
      PC_ASSERT(region.region.value() < limits::kRegionsPerNodeMax, region.region);
      PC_ASSERT(region.kind != RegionKind::kDestination, region.region);
    }
  }
}

void take_frame(Owner& owner, const ShmFrame& frame) {
  switch (frame.header.kind) {
    case ShmFrameKind::kHello:
      return read_hello(frame);
    case ShmFrameKind::kRefused:
      for (const char letter : parse_refusal(frame)) {
        PC_ASSERT(letter >= ' ' && letter <= '~', letter);
      }
      return;
    case ShmFrameKind::kRegionFds:
      static_cast<void>(parse_region_fds(frame));
      PC_ASSERT(frame.header.fd_count >= 1, frame.header.fd_count);
      PC_ASSERT(frame.header.fd_count <= kShmFdsPerFrame, frame.header.fd_count);
      return;
    case ShmFrameKind::kAccepted:
      PC_ASSERT(frame.payload.empty());
      return;
    case ShmFrameKind::kWriteChunk:
      if (const auto view = parse_write_chunk(frame); view) {
        std::byte* place = writable_place(owner.regions, view->chunk.region,
                                          view->chunk.offset_bytes, view->bytes.size());
        if (place != nullptr) {
          std::memcpy(place, view->bytes.data(), view->bytes.size());
          owner.check_guards();
        }
      }
      return;
    case ShmFrameKind::kWriteAbort:
      static_cast<void>(parse_write_abort(frame));
      return;
    case ShmFrameKind::kWriteDone:
      if (const auto done = parse_write_done(frame); done) {
        PC_ASSERT(done->status == OpStatus::kOk || done->status == OpStatus::kOutOfBounds);
      }
      return;
  }
  PC_UNREACHABLE();
}

void take_stream(std::span<const std::byte> stream) {
  Owner owner;
  while (true) {
    size_t need = 0;
    const auto frame = parse_shm_frame(stream, need);
    PC_ASSERT(need <= sizeof(ShmFrameHeader) + kShmPayloadBytesMax, need);
    if (!frame) {
      return;
    }
    if (!frame->has_value()) {
      PC_ASSERT(need > stream.size(), need, stream.size());
      return;
    }
    PC_ASSERT((*frame)->frame_bytes <= stream.size(), stream.size());
    take_frame(owner, **frame);
    stream = stream.subspan((*frame)->frame_bytes);
  }
}

}  // namespace
}  // namespace peercache

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size != 0) {
    std::memcpy(bytes.data(), data, size);
  }
  peercache::take_stream(bytes);
  // The same as one frame with a right header: mutations rarely get past the magic number.
  if (size >= 2) {
    const auto kind = static_cast<peercache::ShmFrameKind>(data[0] % 8);
    const auto fd_count =
        static_cast<uint16_t>(kind == peercache::ShmFrameKind::kRegionFds ? data[1] % 20 : 0);
    std::vector<std::byte> framed;
    const auto payload = std::span<const std::byte>(bytes).subspan(2);
    peercache::append_shm_frame(
        framed, kind, fd_count,
        payload.first(std::min<size_t>(payload.size(), peercache::kShmPayloadBytesMax)));
    peercache::take_stream(framed);
  }
  return 0;
}
