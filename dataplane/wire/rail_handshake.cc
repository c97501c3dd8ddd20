#include "dataplane/wire/rail_handshake.h"

#include <algorithm>
#include <string_view>

#include "dataplane/base/assert.h"
#include "dataplane/base/key.h"
#include "dataplane/base/limits.h"
#include "dataplane/wire/codec.h"

namespace peercache {

namespace {

// Layout: length of all that follows (u32), magic (u32), version, version_oldest (u16 each), the
// other fields in the order of `struct Hello`, then the low half of XXH3-64 over everything before
// (u32). A hello is laid out as its sender's *oldest* version says, so that whoever may talk to the
// sender can also read its hello.
constexpr size_t kPrefixBytes = 4;
constexpr size_t kChecksumBytes = 4;
constexpr size_t kHeadBytes = kPrefixBytes + 4 + 2 + 2;
constexpr size_t kRailOfferBytes = 2 + 2 + 4 + 2 + 64;

// TransportKind lives above this folder; its values are part of the format.
constexpr uint16_t kTransportKindMin = 1;
constexpr uint16_t kTransportKindMax = 6;

uint32_t checksum_of(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(hash_bytes64(bytes.data(), bytes.size()));
}

void put_region(ByteWriter& writer, const RegionDescriptor& region) {
  writer.put(region.length_bytes);
  writer.put(region.remote_key_id);
  writer.put(region.remote_address_id);
  writer.put(region.region.value());
  writer.put(static_cast<uint16_t>(region.kind));
  writer.put(region.headers_region.value());
  writer.put(uint16_t{0});
  writer.put(region.granule_bytes);
  writer.put(uint32_t{0});
}

RegionDescriptor take_region(ByteReader& reader) {
  RegionDescriptor region{};
  region.length_bytes = reader.take<uint64_t>();
  region.remote_key_id = reader.take<uint64_t>();
  region.remote_address_id = reader.take<uint64_t>();
  region.region = RegionIndex(reader.take<uint16_t>());
  region.kind = static_cast<RegionKind>(reader.take<uint16_t>());
  region.headers_region = RegionIndex(reader.take<uint16_t>());
  region.padding_id = reader.take<uint16_t>();
  region.granule_bytes = reader.take<uint32_t>();
  region.padding2_id = reader.take<uint32_t>();
  return region;
}

Result<void> take_regions(ByteReader& reader, Hello& hello) {
  const auto count = reader.take<uint16_t>();
  if (count > limits::kRegionsPerNodeMax) {
    return make_error(Errc::kBadLength, "hello offers {} regions, more than the limit of {}", count,
                      limits::kRegionsPerNodeMax);
  }
  if (!reader.ok() || reader.rest_bytes() < size_t{count} * sizeof(RegionDescriptor)) {
    return make_error(Errc::kTruncated, "hello ends within its {} regions", count);
  }
  hello.regions.reserve(count);
  for (uint16_t i = 0; i < count; ++i) {
    const RegionDescriptor region = take_region(reader);
    if (region.kind < RegionKind::kPublished || region.kind > RegionKind::kDestination) {
      return make_error(Errc::kBadEnum, "hello offers region {} of unknown kind {}", region.region,
                        region.kind);
    }
    if (region.padding_id != 0 || region.padding2_id != 0) {
      return make_error(Errc::kBadReserved, "hello offers region {} with padding {} and {}",
                        region.region, region.padding_id, region.padding2_id);
    }
    hello.regions.push_back(region);
  }
  return {};
}

Result<void> take_rails(ByteReader& reader, Hello& hello) {
  const auto count = reader.take<uint16_t>();
  if (count > limits::kRailsMax) {
    return make_error(Errc::kBadLength, "hello offers {} rails, more than the limit of {}", count,
                      limits::kRailsMax);
  }
  if (!reader.ok() || reader.rest_bytes() < size_t{count} * kRailOfferBytes) {
    return make_error(Errc::kTruncated, "hello ends within its {} rails", count);
  }
  hello.rails.reserve(count);
  for (uint16_t i = 0; i < count; ++i) {
    RailOffer rail{};
    rail.kind_id = reader.take<uint16_t>();
    rail.rail_index = reader.take<uint16_t>();
    rail.read_depth_count = reader.take<uint32_t>();
    rail.address_bytes = reader.take<uint16_t>();
    std::ranges::copy(reader.take_bytes(rail.address.size()), rail.address.begin());
    if (rail.kind_id < kTransportKindMin || rail.kind_id > kTransportKindMax) {
      return make_error(Errc::kBadEnum, "hello offers rail {} of unknown transport {}",
                        rail.rail_index, rail.kind_id);
    }
    if (rail.rail_index >= limits::kRailsMax) {
      return make_error(Errc::kBadLength, "hello offers rail index {}, not below the limit of {}",
                        rail.rail_index, limits::kRailsMax);
    }
    if (rail.address_bytes > rail.address.size()) {
      return make_error(Errc::kBadLength,
                        "hello offers rail {} with an address of {} bytes, more than {}",
                        rail.rail_index, rail.address_bytes, rail.address.size());
    }
    hello.rails.push_back(rail);
  }
  return {};
}

// Length prefix, magic, versions and checksum; afterwards the body may be read.
Result<ByteReader> open_frame(std::span<const std::byte> bytes, Hello& hello) {
  ByteReader reader(bytes);
  const auto length_bytes = reader.take<uint32_t>();
  if (!reader.ok()) {
    return make_error(Errc::kTruncated, "hello of {} bytes ends within its length", bytes.size());
  }
  if (length_bytes > kHelloBytesMax - kPrefixBytes ||
      length_bytes < kHeadBytes - kPrefixBytes + kChecksumBytes) {
    return make_error(Errc::kBadLength, "hello says it is {} bytes long; at most {} are allowed",
                      length_bytes, kHelloBytesMax - kPrefixBytes);
  }
  if (reader.rest_bytes() < length_bytes) {
    return make_error(Errc::kTruncated, "hello says it is {} bytes long, but {} came", length_bytes,
                      reader.rest_bytes());
  }
  if (reader.rest_bytes() > length_bytes) {
    return make_error(Errc::kTrailingBytes, "hello says it is {} bytes long, but {} came",
                      length_bytes, reader.rest_bytes());
  }
  const auto magic = reader.take<uint32_t>();
  if (magic != kHandshakeMagic) {
    return make_error(Errc::kBadMagic, "hello begins with {} instead of {}", magic,
                      kHandshakeMagic);
  }
  hello.version = reader.take<uint16_t>();
  hello.version_oldest = reader.take<uint16_t>();
  if (hello.version_oldest > hello.version || hello.version_oldest > kWireVersion ||
      hello.version < kWireVersionOldest) {
    return make_error(Errc::kBadVersion, "peer speaks wire versions {} to {}, this node {} to {}",
                      hello.version_oldest, hello.version, kWireVersionOldest, kWireVersion);
  }
  const auto covered = bytes.first(bytes.size() - kChecksumBytes);
  const auto checksum = ByteReader(bytes.last(kChecksumBytes)).take<uint32_t>();
  if (checksum != checksum_of(covered)) {
    return make_error(Errc::kBadChecksum, "hello has checksum {}, its bytes have {}", checksum,
                      checksum_of(covered));
  }
  return ByteReader(covered.subspan(kHeadBytes));
}

// A peer's text in a message of ours: no control characters, so that it cannot forge a log line.
std::string printable(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(result, [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

std::string differ(std::string_view field, std::string_view mine, std::string_view theirs) {
  return std::string(field) + ": this node has " + printable(mine) + ", the peer " +
         printable(theirs);
}

std::string differ(std::string_view field, uint64_t mine, uint64_t theirs) {
  return differ(field, std::to_string(mine), std::to_string(theirs));
}

std::string version_range(const Hello& hello) {
  return std::to_string(hello.version_oldest) + " to " + std::to_string(hello.version);
}

}  // namespace

std::vector<std::byte> encode_hello(const Hello& hello) {
  PC_ASSERT(hello.regions.size() <= limits::kRegionsPerNodeMax, hello.regions.size());
  PC_ASSERT(hello.rails.size() <= limits::kRailsMax, hello.rails.size());
  ByteWriter writer;
  writer.put(uint32_t{0});  // the length, known at the end
  writer.put(kHandshakeMagic);
  writer.put(hello.version);
  writer.put(hello.version_oldest);
  writer.put(hello.hash_version);
  writer.put(hello.directory_replicas_count);
  writer.put(hello.vnodes_count);
  writer.put(hello.member_ttl_ms);
  writer.put(hello.node.value());
  writer.put(hello.incarnation.value());
  writer.put(hello.inflight_max_count);
  writer.put_text(hello.node_name);
  writer.put_text(hello.cluster_name);
  writer.put_text(hello.host_id);
  writer.put(static_cast<uint16_t>(hello.regions.size()));
  for (const RegionDescriptor& region : hello.regions) {
    put_region(writer, region);
  }
  writer.put(static_cast<uint16_t>(hello.rails.size()));
  for (const RailOffer& rail : hello.rails) {
    PC_ASSERT(rail.address_bytes <= rail.address.size(), rail.address_bytes);
    writer.put(rail.kind_id);
    writer.put(rail.rail_index);
    writer.put(rail.read_depth_count);
    writer.put(rail.address_bytes);
    writer.put_bytes(rail.address);
  }
  writer.put_at(0, static_cast<uint32_t>(writer.size() + kChecksumBytes - kPrefixBytes));
  writer.put(checksum_of(writer.bytes()));
  PC_ASSERT(writer.size() <= kHelloBytesMax, writer.size());
  return std::move(writer).take();
}

Result<Hello> decode_hello(std::span<const std::byte> bytes) {
  Hello hello;
  PC_TRY_ASSIGN(ByteReader reader, open_frame(bytes, hello));
  hello.hash_version = reader.take<uint16_t>();
  hello.directory_replicas_count = reader.take<uint16_t>();
  hello.vnodes_count = reader.take<uint32_t>();
  hello.member_ttl_ms = reader.take<uint32_t>();
  hello.node = NodeId(reader.take<uint64_t>());
  hello.incarnation = Incarnation(reader.take<uint32_t>());
  hello.inflight_max_count = reader.take<uint32_t>();
  hello.node_name = reader.take_text();
  hello.cluster_name = reader.take_text();
  hello.host_id = reader.take_text();
  if (!reader.ok()) {
    return make_error(Errc::kTruncated, "hello of {} bytes ends within its fixed fields",
                      bytes.size());
  }
  PC_TRY(take_regions(reader, hello));
  PC_TRY(take_rails(reader, hello));
  if (reader.rest_bytes() != 0) {
    return make_error(Errc::kTrailingBytes, "hello has {} bytes after its last field",
                      reader.rest_bytes());
  }
  return hello;
}

Result<Agreement, std::string> check_hello(const Hello& mine, const Hello& theirs) {
  const auto refuse = [](std::string reason) { return Unexpected<std::string>(std::move(reason)); };
  if (theirs.version_oldest > mine.version || theirs.version < mine.version_oldest) {
    return refuse(differ("wire version", version_range(mine), version_range(theirs)));
  }
  if (mine.cluster_name != theirs.cluster_name) {
    return refuse(differ("cluster_name", mine.cluster_name, theirs.cluster_name));
  }
  if (theirs.node == NodeId{}) {
    return refuse("node: the peer has none");
  }
  if (mine.node == theirs.node) {
    return refuse(differ("node_id (must differ)", mine.node_name, theirs.node_name));
  }
  if (mine.hash_version != theirs.hash_version) {
    return refuse(differ("hash version", mine.hash_version, theirs.hash_version));
  }
  if (mine.directory_replicas_count != theirs.directory_replicas_count) {
    return refuse(differ("directory_replicas", mine.directory_replicas_count,
                         theirs.directory_replicas_count));
  }
  if (mine.vnodes_count != theirs.vnodes_count) {
    return refuse(differ("vnodes", mine.vnodes_count, theirs.vnodes_count));
  }
  if (mine.member_ttl_ms != theirs.member_ttl_ms) {
    return refuse(differ("member_ttl_ms", mine.member_ttl_ms, theirs.member_ttl_ms));
  }
  if (mine.inflight_max_count == 0 || theirs.inflight_max_count == 0) {
    return refuse(differ("inflight_max_count (must not be 0)", mine.inflight_max_count,
                         theirs.inflight_max_count));
  }
  if (const auto regions = check_region_table(theirs.regions); !regions) {
    return refuse("regions: " + to_string(regions.error()));
  }
  return Agreement{
      .version = std::min(mine.version, theirs.version),
      .inflight_max_count = std::min(mine.inflight_max_count, theirs.inflight_max_count)};
}

}  // namespace peercache
