#include "dataplane/wire/location.h"

#include "dataplane/base/assert.h"
#include "dataplane/base/cacheline.h"
#include "dataplane/base/ordering.h"

namespace peercache {

namespace {

// Keys whose buckets are on their way while one is searched. A key is 8 lines; a core has some 10
// to 16 line fill buffers, so more than a few keys ahead only queues, while fewer leave the latency
// of DRAM (80 ns) visible.
constexpr uint32_t kPrefetchAhead = 8;

void prefetch_bucket(const Bucket& bucket) noexcept {
  const auto* bytes = reinterpret_cast<const char*>(&bucket);
  for (size_t at = 0; at < sizeof(Bucket); at += kCacheLineBytes) {
    __builtin_prefetch(bytes + at, 0, 1);
  }
}

// One look at a record that its owner may be writing. Only a record whose key words match is worth
// a copy.
bool copy_if_of(const Location& record, const Key128& key, Location& copy) noexcept {
  if (racy_load(&record.key.low) != key.low || racy_load(&record.key.high) != key.high) {
    return false;
  }
  racy_copy(&copy, &record, sizeof(Location));
  return copy.key == key;
}

// Keeps the newest kLocationsPerKey, newest first.
void collect(LookupResult& result, const Location& found) noexcept {
  uint32_t at = result.count;
  while (at > 0 && result.locations[at - 1].sequence < found.sequence) {
    --at;
  }
  if (at == limits::kLocationsPerKey) {
    return;  // older than all that fit
  }
  if (result.count < limits::kLocationsPerKey) {
    ++result.count;
  }
  for (uint32_t i = result.count - 1; i > at; --i) {
    result.locations[i] = result.locations[i - 1];
  }
  result.locations[at] = found;
}

void search_bucket(const Bucket& bucket, const Key128& key, LookupResult& result) noexcept {
  for (const Location& record : bucket.records) {
    Location copy;
    if (!copy_if_of(record, key, copy)) {
      continue;
    }
    if (!is_sound(copy)) {
      // Torn by a write in progress (or planted): once more, then it counts as not there.
      if (!copy_if_of(record, key, copy) || !is_sound(copy)) {
        continue;
      }
    }
    collect(result, copy);
  }
}

}  // namespace

uint32_t location_checksum(const Location& location) noexcept {
  return static_cast<uint32_t>(hash_bytes64(&location, offsetof(Location, checksum_id)));
}

void seal(Location& location) noexcept { location.checksum_id = location_checksum(location); }

bool is_sound(const Location& location) noexcept {
  return !is_empty(location) && location.checksum_id == location_checksum(location);
}

bool header_proves(const SlotHeader& header, const Location& location) noexcept {
  const bool readable =
      header.state == SlotState::kPublished || header.state == SlotState::kRetired;
  return readable && header.generation == location.generation && header.key == location.key &&
         header.length_bytes == location.length_bytes &&
         header.offset_bytes == location.offset_bytes;
}

BucketPair candidate_buckets(const Key128& key, uint64_t bucket_count) noexcept {
  PC_DASSERT(bucket_count > 0);
  // A rehash, since the ring has already chosen the shard by bits of the key: within one shard they
  // are not uniform.
  const uint64_t hash = hash_bytes64(&key, sizeof(key));
  // Each half as a fraction of the table: a multiplication instead of a division.
  // 32 bits suffice for 2^32 buckets, a table of 1 TiB.
  return BucketPair{.first_index = ((hash & UINT32_MAX) * bucket_count) >> 32U,
                    .second_index = ((hash >> 32U) * bucket_count) >> 32U};
}

void lookup_buckets(const Bucket* table,
                    uint64_t bucket_count,
                    const Key128* keys,
                    LookupResult* results,
                    uint32_t key_count) noexcept {
  PC_ASSERT(bucket_count > 0 && bucket_count <= UINT32_MAX, bucket_count);
  BucketPair ahead[kPrefetchAhead];
  const auto start = [&](uint32_t i) {
    BucketPair& pair = ahead[i % kPrefetchAhead];
    pair = candidate_buckets(keys[i], bucket_count);
    prefetch_bucket(table[pair.first_index]);
    prefetch_bucket(table[pair.second_index]);
  };
  for (uint32_t i = 0; i < key_count && i < kPrefetchAhead; ++i) {
    start(i);
  }
  for (uint32_t i = 0; i < key_count; ++i) {
    const BucketPair pair = ahead[i % kPrefetchAhead];
    if (key_count - i > kPrefetchAhead) {
      start(i + kPrefetchAhead);
    }
    results[i].count = 0;
    if (keys[i] == Key128{}) {
      continue;  // the mark of an empty record; never the name of an object
    }
    search_bucket(table[pair.first_index], keys[i], results[i]);
    if (pair.second_index != pair.first_index) {
      search_bucket(table[pair.second_index], keys[i], results[i]);
    }
  }
  // The records, THEN what they name: meets copy_done_fence() in BucketTable::write_record();
  // header and bytes of a record of this node are visible to whoever found it.
  validation_fence();
}

}  // namespace peercache
