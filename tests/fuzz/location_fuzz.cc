// Buckets of a peer's shard: a lookup yields only sound records of the key, and only ranges inside
// a published region pass the bound check. Input: an array of records; the first one's key is
// looked up.
#include <cstdint>
#include <cstring>
#include <vector>

#include "dataplane/base/assert.h"
#include "dataplane/wire/location.h"
#include "dataplane/wire/region_descriptor.h"

namespace peercache {
namespace {

constexpr uint32_t kGranuleBytes = 4096;
constexpr uint64_t kRegionBytes = 256 * kGranuleBytes;

void check_record(const Location& location) {
  RegionDescriptor region{};
  region.length_bytes = kRegionBytes;
  region.region = RegionIndex(1);
  region.kind = RegionKind::kPublished;
  region.granule_bytes = kGranuleBytes;
  if (check_location(location, std::span(&region, 1))) {
    PC_ASSERT(location.length_bytes > 0);
    PC_ASSERT(location.offset_bytes < kRegionBytes, location.offset_bytes);
    PC_ASSERT(location.length_bytes <= kRegionBytes - location.offset_bytes, location.length_bytes);
    PC_ASSERT(location.slot.value() == location.offset_bytes / kGranuleBytes, location.slot);
  }
}

void search(const std::vector<Bucket>& table, const Key128& key) {
  LookupResult result;
  lookup_buckets(table.data(), table.size(), &key, &result, 1);
  PC_ASSERT(result.count <= limits::kLocationsPerKey, result.count);
  for (uint32_t i = 0; i < result.count; ++i) {
    const Location& found = result.locations[i];
    PC_ASSERT(is_sound(found) && found.key == key);
    PC_ASSERT(i == 0 || result.locations[i - 1].sequence >= found.sequence);
    check_record(found);
  }
}

}  // namespace
}  // namespace peercache

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using peercache::Bucket;
  using peercache::Location;
  std::vector<Bucket> table(size / sizeof(Bucket) + 1);
  std::memcpy(static_cast<void*>(table.data()), data, size);
  const peercache::Key128 key = table[0].records[0].key;
  for (const Bucket& bucket : table) {
    for (const Location& record : bucket.records) {
      peercache::check_record(record);
    }
  }
  peercache::search(table, key);
  // The same with right checksums, as an ill-willed peer would send them.
  for (Bucket& bucket : table) {
    for (Location& record : bucket.records) {
      peercache::seal(record);
    }
  }
  peercache::search(table, key);
  return 0;
}
