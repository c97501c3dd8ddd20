#pragma once

#include <cstdint>
#include <span>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/location.h"

namespace peercache {

/// Open table of 64-byte records in 256-byte buckets, two candidate buckets per key; the form of a
/// directory shard and of the local index. Records never move between buckets: a move would hide
/// one from a READ in flight.
///
/// THREAD:     one writer; readers anywhere, in any process or over the network, through
/// `lookup_buckets` (checksums). BORROWS:    its memory (zeroed at open; a multiple of
/// sizeof(Bucket)). INVARIANTS: (B1) every non-empty record is sealed and lies in one of its key's
/// two buckets. (B2) at most
///             limits::kLocationsPerKey records of a key, of different nodes.
class BucketTable {
 public:
  static Result<BucketTable> open(std::byte* memory, Bytes length);

  enum class InsertOutcome : uint8_t {
    kInserted,
    kReplaced,       ///< an older record of the same node and key
    kStaleSequence,  ///< the table holds a newer record of the node and key; nothing changed
    kDroppedOldest,  ///< both buckets were full (or the key had all its locations): the oldest
                     ///< record went, see `dropped`
  };
  struct Insert {
    InsertOutcome outcome;
    Location dropped;
  };

  /// Adds a sealed record. A newer sequence replaces this node's record of the key.
  Insert insert(const Location& location);

  /// Removes the record that equals `location` in key, node, slot, generation and sequence. False
  /// if there is none.
  bool erase(const Location& location);

  /// Removes what `fn(const Location&)` says; returns how many. O(table).
  template <class Fn>
  uint64_t erase_if(Fn&& fn) {
    uint64_t erased_count = 0;
    for (uint64_t i = 0; i < bucket_count_; ++i) {
      for (Location& record : buckets_[i].records) {
        if (!is_empty(record) && fn(static_cast<const Location&>(record))) {
          clear_record(record);
          ++erased_count;
        }
      }
    }
    return erased_count;
  }

  /// Writer's thread.
  template <class Fn>
  void for_each(Fn&& fn) const {
    for (uint64_t i = 0; i < bucket_count_; ++i) {
      for (const Location& record : buckets_[i].records) {
        if (!is_empty(record)) fn(record);
      }
    }
  }

  /// Any thread.
  void find(const Key128* keys, LookupResult* results, uint32_t key_count) const noexcept {
    lookup_buckets(buckets_, bucket_count_, keys, results, key_count);
  }

  const Bucket* data() const { return buckets_; }
  uint64_t bucket_count() const { return bucket_count_; }
  uint64_t record_count() const { return record_count_; }

  void check_invariants() const;

 private:
  BucketTable(Bucket* buckets, uint64_t bucket_count)
      : buckets_(buckets), bucket_count_(bucket_count) {}
  void clear_record(Location& record);
  void write_record(Location& record, const Location& value);

  Bucket* buckets_;
  uint64_t bucket_count_;
  uint64_t record_count_ = 0;
};

}  // namespace peercache
