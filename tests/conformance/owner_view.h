#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/pool/slot_life.h"
#include "dataplane/wire/location.h"
#include "dataplane/wire/region_descriptor.h"
#include "tests/support/page_pattern.h"

namespace peercache::test {

/// Regions of every peer of a conformance case.
inline constexpr RegionIndex kPublishedRegion{0};
inline constexpr RegionIndex kHeadersRegion{1};
inline constexpr RegionIndex kDirectoryRegion{2};
inline constexpr RegionIndex kWritableRegion{3};
inline constexpr uint32_t kGranuleBytes = 4096;
inline constexpr uint64_t kBucketCount = 2048;
inline constexpr uint64_t kWritableBytes = 1 << 20;

/// The memory of a peer, as its owner writes it.
///
/// THREAD:     the owner's.
/// BORROWS:    all four regions and the pattern.
struct OwnerView {
  std::byte* bytes = nullptr;
  SlotHeader* headers = nullptr;
  Bucket* buckets = nullptr;
  std::byte* writable = nullptr;
  uint32_t slots_count = 0;
  uint32_t owner = 0;  ///< number of the peer, from 0
  const PagePattern* pattern = nullptr;

  [[nodiscard]] NodeId node() const { return NodeId(owner + 1); }
  [[nodiscard]] Key128 key_of(uint32_t slot) const { return numbered_key(uint64_t{owner} << 32 | slot); }

  /// The region table that peers see.
  [[nodiscard]] static std::vector<RegionDescriptor> regions(uint32_t slots_count) {
    const auto region = [](RegionIndex index, RegionKind kind, uint64_t bytes) {
      RegionDescriptor out{};
      out.region = index;
      out.kind = kind;
      out.length_bytes = bytes;
      return out;
    };
    std::vector<RegionDescriptor> out{
        region(kPublishedRegion, RegionKind::kPublished, uint64_t{slots_count} * kGranuleBytes),
        region(kHeadersRegion, RegionKind::kHeaders, uint64_t{slots_count} * sizeof(SlotHeader)),
        region(kDirectoryRegion, RegionKind::kDirectory, kBucketCount * sizeof(Bucket)),
        region(kWritableRegion, RegionKind::kWritable, kWritableBytes)};
    out[0].headers_region = kHeadersRegion;
    out[0].granule_bytes = kGranuleBytes;
    return out;
  }

  /// A whole life: new generation, bytes, header. Returns where it is. REQUIRES: it fits behind the slot.
  Location publish(uint32_t slot, const Key128& key, uint32_t length_bytes) const {
    SlotHeader& header = headers[slot];
    end(slot);
    const Generation generation = begin_life(header);
    std::byte* const to = bytes + uint64_t{slot} * kGranuleBytes;
    const size_t whole = length_bytes / sizeof(uint64_t) * sizeof(uint64_t);
    pattern->fill(to, key, 0, whole);
    const uint64_t last = pattern->word(key, whole / sizeof(uint64_t));
    std::memcpy(to + whole, &last, length_bytes - whole);
    header.offset_bytes = uint64_t{slot} * kGranuleBytes;
    publish_life(header, PublishedObject{.key = key,
                                         .length_bytes = length_bytes,
                                         .layout_digest_id = 1,
                                         .payload_hash = PayloadHash(hash_bytes64(to, length_bytes)),
                                         .sequence = Sequence(generation.value())});
    Location location{};
    location.key = key;
    location.node = node();
    location.offset_bytes = header.offset_bytes;
    location.sequence = Sequence(generation.value());
    location.slot = SlotIndex(slot);
    location.generation = generation;
    location.length_bytes = length_bytes;
    location.incarnation = Incarnation(1);
    location.region = kPublishedRegion;
    seal(location);
    return location;
  }
  /// Brings the slot to FREE, from wherever it is.
  void end(uint32_t slot) const {
    SlotHeader& header = headers[slot];
    if (header.state == SlotState::kPublished) {
      retire_life(header);
    }
    if (header.state != SlotState::kFree) {
      free_life(header);
    }
  }
  Location publish(uint32_t slot, uint32_t length_bytes) const {
    return publish(slot, key_of(slot), length_bytes);
  }

  /// Puts a record into the first free place of its buckets. False if both are full.
  bool insert(const Location& location) const {
    const BucketPair pair = candidate_buckets(location.key, kBucketCount);
    for (const uint64_t at : {pair.first_index, pair.second_index}) {
      for (Location& record : buckets[at].records) {
        if (is_empty(record)) {
          record = location;
          return true;
        }
      }
    }
    return false;
  }
};

}  // namespace peercache::test
