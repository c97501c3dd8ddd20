#pragma once

#include "dataplane/wire/location.h"
#include "dataplane/wire/rail_handshake.h"
#include "dataplane/wire/region_descriptor.h"
#include "dataplane/wire/slot_header.h"

namespace peercache::test {

/// The values behind the golden files: every field differs from every other, so that a swap shows.
inline Location sample_location(uint64_t salt = 0) {
  Location location{};
  location.key = Key128{.low = 0x0102030405060708 + salt, .high = 0x1112131415161718};
  location.node = NodeId(0x2122232425262728);
  location.offset_bytes = 7 * 4096;
  location.sequence = Sequence(0x4142434445464748 + salt);
  location.slot = SlotIndex(7);
  location.generation = Generation(0x61626364);
  location.length_bytes = 0x3132;
  location.incarnation = Incarnation(0x71727374);
  location.region = RegionIndex(1);
  seal(location);
  return location;
}

inline SlotHeader sample_header() {
  const Location location = sample_location();
  return SlotHeader{.key = location.key,
                    .generation = location.generation,
                    .state = SlotState::kPublished,
                    .length_bytes = location.length_bytes,
                    .layout_digest_id = 0x81828384,
                    .payload_hash = PayloadHash(0x9192939495969798),
                    .sequence = location.sequence,
                    .reservation = ReservationId(0xa1a2a3a4a5a6a7a8),
                    .offset_bytes = location.offset_bytes};
}

inline RegionDescriptor sample_region(RegionKind kind, uint16_t index, uint64_t length_bytes) {
  RegionDescriptor region{};
  region.length_bytes = length_bytes;
  region.remote_key_id = 0xb1b2b3b4b5b6b700 + index;
  region.remote_address_id = 0x0000c1c200000000 + (uint64_t{index} << 40U);
  region.region = RegionIndex(index);
  region.kind = kind;
  if (kind == RegionKind::kPublished) {
    region.headers_region = RegionIndex(static_cast<uint16_t>(index + 1));
    region.granule_bytes = 4096;
  }
  return region;
}

/// A published region, its headers, a directory shard and a writable region.
inline std::vector<RegionDescriptor> sample_regions() {
  return {sample_region(RegionKind::kPublished, 1, 16 * 4096),
          sample_region(RegionKind::kHeaders, 2, 16 * sizeof(SlotHeader)),
          sample_region(RegionKind::kDirectory, 3, 32 * sizeof(Bucket)),
          sample_region(RegionKind::kWritable, 9, 12345)};
}

inline Hello sample_hello() {
  Hello hello;
  hello.directory_replicas_count = 2;
  hello.vnodes_count = 160;
  hello.member_ttl_ms = 6000;
  hello.node = NodeId(0x2122232425262728);
  hello.incarnation = Incarnation(0x71727374);
  hello.inflight_max_count = 1024;
  hello.node_name = "node-a";
  hello.cluster_name = "peercache";
  hello.host_id = "0f1e2d3c-boot";
  hello.regions = sample_regions();
  RailOffer rail{
      .kind_id = 3, .rail_index = 2, .read_depth_count = 16, .address = {}, .address_bytes = 5};
  for (size_t i = 0; i < rail.address_bytes; ++i) {
    rail.address[i] = static_cast<std::byte>(0xd0 + i);
  }
  hello.rails = {rail};
  return hello;
}

}  // namespace peercache::test
