#include "dataplane/wire/region_descriptor.h"

#include "dataplane/base/limits.h"

namespace peercache {

namespace {

constexpr uint32_t kGranuleBytesMin = 64;
constexpr uint32_t kGranuleBytesMax = 1U << 20U;

const RegionDescriptor* find_region(std::span<const RegionDescriptor> regions,
                                    RegionIndex index) noexcept {
  for (const RegionDescriptor& region : regions) {
    if (region.region == index) {
      return &region;
    }
  }
  return nullptr;
}

// What a region of this kind holds an array of.
Result<uint64_t> unit_bytes(const RegionDescriptor& region) {
  switch (region.kind) {
    case RegionKind::kPublished:
      if (!limits::is_power_of_two(region.granule_bytes) ||
          region.granule_bytes < kGranuleBytesMin || region.granule_bytes > kGranuleBytesMax) {
        return make_error(
            Errc::kBadLength,
            "region {} has a granule of {} bytes; a power of two from {} to {} is wanted",
            region.region, region.granule_bytes, kGranuleBytesMin, kGranuleBytesMax);
      }
      return uint64_t{region.granule_bytes};
    case RegionKind::kHeaders:
      return uint64_t{sizeof(SlotHeader)};
    case RegionKind::kDirectory:
      return uint64_t{sizeof(Bucket)};
    case RegionKind::kWritable:
      return uint64_t{1};
    case RegionKind::kDestination:
      return make_error(Errc::kBadEnum, "region {} is a destination, which never leaves its node",
                        region.region);
  }
  return make_error(Errc::kBadEnum, "region {} is of unknown kind {}", region.region, region.kind);
}

Result<void> check_alone(const RegionDescriptor& region) {
  if (region.region.value() >= limits::kRegionsPerNodeMax) {
    return make_error(Errc::kNoSuchRegion, "region index {} is not below the limit of {}",
                      region.region, limits::kRegionsPerNodeMax);
  }
  PC_TRY_ASSIGN(const uint64_t unit, unit_bytes(region));
  if (region.length_bytes == 0 || region.length_bytes % unit != 0) {
    return make_error(Errc::kBadLength, "region {} of {} bytes is not a positive multiple of {}",
                      region.region, region.length_bytes, unit);
  }
  if (region.length_bytes / unit > UINT32_MAX) {
    return make_error(Errc::kBadLength, "region {} of {} bytes has more than {} units of {}",
                      region.region, region.length_bytes, UINT32_MAX, unit);
  }
  if (region.remote_address_id > UINT64_MAX - region.length_bytes) {
    return make_error(Errc::kBadLength,
                      "region {} of {} bytes at address {} ends beyond the address space",
                      region.region, region.length_bytes, region.remote_address_id);
  }
  return {};
}

Result<void> check_pair(const RegionDescriptor& a, const RegionDescriptor& b) {
  if (a.region == b.region) {
    return make_error(Errc::kRegionOverlap, "region index {} is used twice", a.region);
  }
  const bool addressed = a.remote_address_id != 0 && b.remote_address_id != 0;
  if (addressed && a.remote_address_id < b.remote_address_id + b.length_bytes &&
      b.remote_address_id < a.remote_address_id + a.length_bytes) {
    return make_error(Errc::kRegionOverlap, "regions {} and {} overlap at addresses {} and {}",
                      a.region, b.region, a.remote_address_id, b.remote_address_id);
  }
  if (a.kind == RegionKind::kPublished && b.kind == RegionKind::kPublished &&
      a.headers_region == b.headers_region) {
    return make_error(Errc::kRegionOverlap, "regions {} and {} share the header region {}",
                      a.region, b.region, a.headers_region);
  }
  return {};
}

Result<void> check_headers(const RegionDescriptor& region,
                           std::span<const RegionDescriptor> regions) {
  const RegionDescriptor* headers = find_region(regions, region.headers_region);
  if (headers == nullptr || headers->kind != RegionKind::kHeaders) {
    return make_error(Errc::kNoSuchRegion,
                      "published region {} names header region {}, which is none", region.region,
                      region.headers_region);
  }
  const uint64_t slot_count = region.length_bytes / region.granule_bytes;
  if (headers->length_bytes / sizeof(SlotHeader) < slot_count) {
    return make_error(Errc::kBadLength,
                      "header region {} of {} bytes is too small for {} slots of region {}",
                      headers->region, headers->length_bytes, slot_count, region.region);
  }
  return {};
}

}  // namespace

Result<void> check_region_table(std::span<const RegionDescriptor> regions) {
  if (regions.size() > limits::kRegionsPerNodeMax) {
    return make_error(Errc::kBadLength, "{} regions, more than the limit of {}", regions.size(),
                      limits::kRegionsPerNodeMax);
  }
  for (const RegionDescriptor& region : regions) {
    PC_TRY(check_alone(region));
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      PC_TRY(check_pair(regions[j], regions[i]));
    }
  }
  for (const RegionDescriptor& region : regions) {
    if (region.kind == RegionKind::kPublished) {
      PC_TRY(check_headers(region, regions));
    }
  }
  return {};
}

Result<void> check_location(const Location& location,
                            std::span<const RegionDescriptor> regions) noexcept {
  const RegionDescriptor* region = find_region(regions, location.region);
  if (region == nullptr || region->kind != RegionKind::kPublished) {
    return make_error(Errc::kNoSuchRegion, "record names region {}, which is not published",
                      location.region);
  }
  if (location.length_bytes == 0 || location.offset_bytes > region->length_bytes ||
      location.length_bytes > region->length_bytes - location.offset_bytes) {
    return make_error(
        Errc::kOutOfBounds, "record of {} bytes at offset {} is not inside region {} of {} bytes",
        location.length_bytes, location.offset_bytes, location.region, region->length_bytes);
  }
  const uint64_t granule_bytes = region->granule_bytes;  // not zero: check_region_table
  if (location.offset_bytes % granule_bytes != 0 ||
      location.offset_bytes / granule_bytes != location.slot.value()) {
    return make_error(Errc::kBadSlot, "record names slot {} at offset {}, in granules of {} bytes",
                      location.slot, location.offset_bytes, granule_bytes);
  }
  return {};
}

}  // namespace peercache
