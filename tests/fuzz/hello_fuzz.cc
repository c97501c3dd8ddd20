// A hello from a peer: any bytes are refused or decode to what encodes to the same bytes.
#include <cstdint>
#include <cstring>
#include <vector>

#include "dataplane/base/assert.h"
#include "dataplane/base/key.h"
#include "dataplane/wire/rail_handshake.h"

namespace peercache {
namespace {

void decode_both_ways(std::span<const std::byte> bytes) {
  const auto hello = decode_hello(bytes);
  if (!hello) {
    return;
  }
  const auto again = encode_hello(*hello);
  PC_ASSERT(again.size() == bytes.size(), again.size(), bytes.size());
  PC_ASSERT(std::memcmp(again.data(), bytes.data(), bytes.size()) == 0);
  Hello mine;
  mine.node = NodeId(1);
  mine.inflight_max_count = 1;
  mine.cluster_name = hello->cluster_name;
  mine.directory_replicas_count = hello->directory_replicas_count;
  mine.vnodes_count = hello->vnodes_count;
  mine.member_ttl_ms = hello->member_ttl_ms;
  const auto agreement = check_hello(mine, *hello);
  PC_ASSERT(agreement.has_value() || !agreement.error().empty());
}

}  // namespace
}  // namespace peercache

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size != 0) {
    std::memcpy(bytes.data(), data, size);
  }
  peercache::decode_both_ways(bytes);
  // The same with a right length, magic, version and checksum: a mutation rarely gets past those.
  if (bytes.size() >= 16) {
    const uint32_t head[] = {static_cast<uint32_t>(size - 4), peercache::kHandshakeMagic,
                             peercache::kWireVersion | (peercache::kWireVersion << 16U)};
    std::memcpy(bytes.data(), head, sizeof(head));
    const auto checksum = static_cast<uint32_t>(peercache::hash_bytes64(bytes.data(), size - 4));
    std::memcpy(bytes.data() + size - 4, &checksum, sizeof(checksum));
    peercache::decode_both_ways(bytes);
  }
  return 0;
}
