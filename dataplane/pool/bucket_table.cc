#include "dataplane/pool/bucket_table.h"

#include "dataplane/base/assert.h"
#include "dataplane/base/ordering.h"

namespace peercache {

namespace {

// The records of a key's two buckets, one after the other: up to 8, or 4 where both are the same
// bucket.
struct Candidates {
  std::array<Location*, 8> records;
  uint32_t count = 0;
};

Candidates candidates_of(Bucket* buckets, uint64_t bucket_count, const Key128& key) {
  const BucketPair pair = candidate_buckets(key, bucket_count);
  Candidates result;
  const auto add = [&](Bucket& bucket) {
    for (Location& record : bucket.records) {
      result.records[result.count++] = &record;
    }
  };
  add(buckets[pair.first_index]);
  if (pair.second_index != pair.first_index) {
    add(buckets[pair.second_index]);
  }
  return result;
}

// An empty record of the bucket that has more of them: two choices keep buckets even, so that few
// overflow.
Location* roomier_place(const Candidates& candidates) {
  std::array<Location*, 2> place{};
  std::array<uint32_t, 2> empty_count{};
  for (uint32_t i = 0; i < candidates.count; ++i) {
    if (is_empty(*candidates.records[i])) {
      place[i / 4] = candidates.records[i];
      ++empty_count[i / 4];
    }
  }
  return empty_count[1] > empty_count[0] ? place[1] : place[0];
}

// The record with the smallest sequence; of this key only, or of any.
Location* oldest_of(const Candidates& candidates, const Key128* key) {
  Location* oldest = nullptr;
  for (uint32_t i = 0; i < candidates.count; ++i) {
    Location* record = candidates.records[i];
    if (key != nullptr && record->key != *key) {
      continue;
    }
    if (oldest == nullptr || record->sequence < oldest->sequence) {
      oldest = record;
    }
  }
  return oldest;
}

bool same_life(const Location& a, const Location& b) {
  return a.key == b.key && a.node == b.node && a.slot == b.slot && a.generation == b.generation &&
         a.sequence == b.sequence;
}

}  // namespace

Result<BucketTable> BucketTable::open(std::byte* memory, Bytes length) {
  const uint64_t bucket_count = length.value() / sizeof(Bucket);
  if (memory == nullptr || bucket_count == 0 || length.value() % sizeof(Bucket) != 0 ||
      bucket_count > UINT32_MAX) {
    return make_error(Errc::kInvalidArgument,
                      "bucket table of {} bytes at {}: a positive multiple of {} is wanted", length,
                      memory, sizeof(Bucket));
  }
  PC_ASSERT(reinterpret_cast<uintptr_t>(memory) % alignof(Bucket) == 0, memory);
  return BucketTable(reinterpret_cast<Bucket*>(memory), bucket_count);
}

BucketTable::Insert BucketTable::insert(const Location& location) {
  PC_ASSERT(is_sound(location));
  const Candidates candidates = candidates_of(buckets_, bucket_count_, location.key);
  uint32_t key_count = 0;
  for (uint32_t i = 0; i < candidates.count; ++i) {
    Location& record = *candidates.records[i];
    if (record.key != location.key) {
      continue;
    }
    ++key_count;
    if (record.node != location.node) {
      continue;
    }
    // The same record once more (an update that was sent twice) is no news, but no error either.
    if (record.sequence > location.sequence ||
        (record.sequence == location.sequence && !same_life(record, location))) {
      return {InsertOutcome::kStaleSequence, {}};
    }
    const Location dropped = record;
    write_record(record, location);
    return {InsertOutcome::kReplaced, dropped};
  }
  Location* place = nullptr;
  if (key_count >= limits::kLocationsPerKey) {
    place = oldest_of(candidates, &location.key);
  } else {
    place = roomier_place(candidates);
    if (place == nullptr) {
      place = oldest_of(candidates, nullptr);
    }
  }
  const Location dropped = *place;
  write_record(*place, location);
  if (is_empty(dropped)) {
    ++record_count_;
    return {InsertOutcome::kInserted, {}};
  }
  return {InsertOutcome::kDroppedOldest, dropped};
}

bool BucketTable::erase(const Location& location) {
  const Candidates candidates = candidates_of(buckets_, bucket_count_, location.key);
  for (uint32_t i = 0; i < candidates.count; ++i) {
    if (same_life(*candidates.records[i], location)) {
      clear_record(*candidates.records[i]);
      return true;
    }
  }
  return false;
}

// A reader that comes in between finds words of both records and a checksum that fits neither.
void BucketTable::write_record(Location& record, const Location& value) {
  // What the record names (header and bytes, written by others whose message we took) is visible
  // before the record. Meets validation_fence() at the end of lookup_buckets().
  copy_done_fence();
  racy_copy(&record, &value, sizeof(Location));
}

void BucketTable::clear_record(Location& record) {
  const Location empty{};
  racy_copy(&record, &empty, sizeof(Location));
  PC_ASSERT(record_count_ > 0);
  --record_count_;
}

void BucketTable::check_invariants() const {
  uint64_t record_count = 0;
  for (uint64_t i = 0; i < bucket_count_; ++i) {
    for (const Location& record : buckets_[i].records) {
      if (is_empty(record)) {
        continue;
      }
      ++record_count;
      PC_ASSERT(is_sound(record), i);  // (B1)
      const BucketPair pair = candidate_buckets(record.key, bucket_count_);
      PC_ASSERT(i == pair.first_index || i == pair.second_index, i, pair.first_index,
                pair.second_index);  // (B1)
      const Candidates candidates = candidates_of(buckets_, bucket_count_, record.key);
      uint32_t key_count = 0;
      uint32_t node_count = 0;
      for (uint32_t j = 0; j < candidates.count; ++j) {
        const Location& other = *candidates.records[j];
        key_count += other.key == record.key ? 1 : 0;
        node_count += other.key == record.key && other.node == record.node ? 1 : 0;
      }
      PC_ASSERT(key_count <= limits::kLocationsPerKey, key_count);  // (B2)
      PC_ASSERT(node_count == 1, node_count);                       // (B2)
    }
  }
  PC_ASSERT(record_count == record_count_, record_count, record_count_);
}

}  // namespace peercache
