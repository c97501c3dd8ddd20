// Frames of a control connection: whatever decodes keeps every limit, and encodes again to the same
// message. Input: a frame header (16 bytes) and a body.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <variant>
#include <vector>

#include "controlplane/rpc/rpc_frame.h"
#include "controlplane/wire/message_codec.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/limits.h"

namespace peercache {
namespace {

void check_limits(const Message& message) {
  if (const auto* update = std::get_if<DirectoryUpdateMessage>(&message)) {
    PC_ASSERT(update->puts.size() <= message_limits::kRecordsMax, update->puts.size());
    PC_ASSERT(update->deletes.size() <= message_limits::kRecordsMax, update->deletes.size());
  }
  if (const auto* reply = std::get_if<DirectoryLookupReplyMessage>(&message)) {
    size_t locations_count = 0;
    for (const uint8_t count : reply->counts) {
      PC_ASSERT(count <= limits::kLocationsPerKey, count);
      locations_count += count;
    }
    PC_ASSERT(locations_count == reply->locations.size(), locations_count);
  }
  if (const auto* hello = std::get_if<HelloMessage>(&message)) {
    PC_ASSERT(hello->identity.node_name.size() <= message_limits::kTextBytesMax);
  }
}

void check_body(MessageType type, std::span<const std::byte> body) {
  const Result<Message> message = decode_message(type, body);
  if (!message) return;
  PC_ASSERT(type_of(*message) == type);
  check_limits(*message);
  const Result<std::vector<std::byte>> again = encode_message(*message);
  PC_ASSERT(again.has_value());
  const Result<Message> same = decode_message(type, *again);
  PC_ASSERT(same.has_value());
  PC_ASSERT(*same == *message);
}

}  // namespace
}  // namespace peercache

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache;
  if (size < kFrameHeaderBytes) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  const Result<FrameHeader> header =
      decode_frame_header(bytes.first<kFrameHeaderBytes>(), message_limits::kBodyBytesMax);
  if (!header) return 0;
  PC_ASSERT(header->length_bytes <= message_limits::kBodyBytesMax, header->length_bytes);
  const auto again = encode_frame_header(*header);
  PC_ASSERT(std::memcmp(again.data(), data, again.size()) == 0);
  // As a reader does: a body on its own, aligned; and once as it lies.
  const auto body = bytes.subspan(kFrameHeaderBytes);
  check_body(header->type, std::vector<std::byte>(body.begin(), body.end()));
  check_body(header->type, body);
  return 0;
}
