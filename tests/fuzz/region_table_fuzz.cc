// A peer's region table: whatever passes keeps every record that passes against it, and its header,
// inside regions. Input: an array of region descriptors, each followed by the offset, length and
// slot of a record.
#include <cstdint>
#include <cstring>
#include <vector>

#include "dataplane/base/assert.h"
#include "dataplane/wire/region_descriptor.h"

namespace peercache {
namespace {

struct Entry {
  RegionDescriptor region;
  uint64_t offset_bytes;
  uint32_t length_bytes;
  uint32_t slot;
};

const RegionDescriptor& region_of(std::span<const RegionDescriptor> regions, RegionIndex index) {
  for (const RegionDescriptor& region : regions) {
    if (region.region == index) {
      return region;
    }
  }
  PC_UNREACHABLE();
}

void check_record(std::span<const RegionDescriptor> regions, const Location& location) {
  if (!check_location(location, regions)) {
    return;
  }
  const RegionDescriptor& bytes = region_of(regions, location.region);
  PC_ASSERT(bytes.kind == RegionKind::kPublished);
  PC_ASSERT(location.length_bytes <= bytes.length_bytes);
  PC_ASSERT(location.offset_bytes <= bytes.length_bytes - location.length_bytes);
  const RegionDescriptor& headers = region_of(regions, bytes.headers_region);
  PC_ASSERT(headers.kind == RegionKind::kHeaders);
  PC_ASSERT((uint64_t{location.slot.value()} + 1) * sizeof(SlotHeader) <= headers.length_bytes);
}

}  // namespace
}  // namespace peercache

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using peercache::Entry;
  std::vector<Entry> entries(size / sizeof(Entry));
  std::vector<peercache::RegionDescriptor> regions;
  for (size_t i = 0; i < entries.size(); ++i) {
    std::memcpy(static_cast<void*>(&entries[i]), data + i * sizeof(Entry), sizeof(Entry));
    regions.push_back(entries[i].region);
  }
  if (!peercache::check_region_table(regions)) {
    return 0;
  }
  for (const Entry& entry : entries) {
    peercache::Location location{};
    location.region = entry.region.region;
    location.offset_bytes = entry.offset_bytes;
    location.length_bytes = entry.length_bytes;
    location.slot = peercache::SlotIndex(entry.slot);
    peercache::check_record(regions, location);
  }
  return 0;
}
