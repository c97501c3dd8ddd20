#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/region_descriptor.h"
#include "dataplane/wire/wire_types.h"

namespace peercache {

inline constexpr uint32_t kHandshakeMagic = 0x48434350;  // "PCCH"
inline constexpr uint16_t kWireVersion = 1;
inline constexpr uint16_t kWireVersionOldest = 1;
inline constexpr uint16_t kHashVersion = 1;

/// One rail that a node offers.
struct RailOffer {
  uint16_t kind_id;  ///< TransportKind
  uint16_t rail_index;
  uint32_t read_depth_count;
  std::array<std::byte, 64> address;  ///< opaque to all but the transport
  uint16_t address_bytes;
};

/// What two data planes tell each other before the first operation. Both sides send one; each
/// decides by itself with `check_hello` and answers with an empty text, or with the reason for the
/// refusal.
struct Hello {
  uint16_t version = kWireVersion;
  uint16_t version_oldest = kWireVersionOldest;
  uint16_t hash_version = kHashVersion;
  uint16_t directory_replicas_count = 0;
  uint32_t vnodes_count = 0;
  uint32_t member_ttl_ms = 0;
  NodeId node{};
  Incarnation incarnation{};
  uint32_t inflight_max_count = 0;  ///< operations the peer may have in flight towards this node
  std::string node_name;            ///< at most 255 bytes
  std::string cluster_name;         ///< at most 255 bytes
  std::string host_id;              ///< boot id or option; at most 255 bytes
  std::vector<RegionDescriptor> regions;  ///< at most limits::kRegionsPerNodeMax
  std::vector<RailOffer> rails;           ///< at most limits::kRailsMax
};

/// Encodes with length prefix, magic and checksum. The result is at most kHelloBytesMax.
std::vector<std::byte> encode_hello(const Hello& hello);
inline constexpr size_t kHelloBytesMax = size_t{64} * 1024;

/// Decodes hostile bytes. Errors: kTruncated, kTrailingBytes, kBadMagic, kBadVersion, kBadChecksum,
/// kBadLength, kBadEnum, kBadReserved. The region table is not yet checked against itself:
/// `check_hello` does that.
Result<Hello> decode_hello(std::span<const std::byte> bytes);

/// What both can do.
struct Agreement {
  uint16_t version;
  uint32_t inflight_max_count;
};

/// Decides whether this pair may talk. On refusal the text names the field and both values.
Result<Agreement, std::string> check_hello(const Hello& mine, const Hello& theirs);

}  // namespace peercache
