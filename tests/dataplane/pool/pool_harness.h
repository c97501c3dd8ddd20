#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/base/clock.h"
#include "dataplane/base/copy.h"
#include "dataplane/base/ordering.h"
#include "dataplane/pool/published_pool.h"
#include "dataplane/pool/slot_life.h"

namespace peercache::test {

/// The bytes of an object: every 8 of them depend on key, generation and place.
inline void fill_pattern(std::vector<std::byte>& bytes, const Key128& key, Generation generation) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t word =
        (key.low * 0x9e3779b97f4a7c15U) ^ key.high ^ (uint64_t{generation.value()} << 40U) ^ at;
    for (size_t i = at; i < std::min(at + 8, bytes.size()); ++i) {
      bytes[i] = static_cast<std::byte>(word >> (8 * (i - at)));
    }
  }
}

/// Remembers what the pool told.
class RecordingListener : public PoolListener {
 public:
  struct Event {
    bool is_published;
    Location location;
  };

  void on_published(const Location& location) override {
    published.push_back(location);
    events.push_back({true, location});
  }
  void on_retired(const Location& location) override {
    retired.push_back(location);
    events.push_back({false, location});
  }

  std::vector<Location> published;
  std::vector<Location> retired;
  std::vector<Event> events;  // both, in order
};

inline Key128 key_of(uint64_t number) {
  return Key128{.low = number * 0x9e3779b97f4a7c15U, .high = number + 1};
}

/// A pool on plain memory, stepped by hand.
class PoolHarness {
 public:
  PoolHarness(uint64_t pool_bytes, const PoolOptions& options)
      : bytes_(pool_bytes),
        headers_(std::max<uint64_t>(pool_bytes / options.granule_bytes, 1)),
        options_(options) {
    memory_ = PoolMemory{.bytes = bytes_.data(),
                         .length = Bytes(pool_bytes),
                         .headers = headers_.data(),
                         .header_count = headers_.size(),
                         .region = RegionIndex(1)};
    auto opened = PublishedPool::open(options, memory_, &listener, clock.clock());
    REQUIRE(opened.has_value());
    pool_owner_ = std::move(opened).value();
    for (uint16_t i = 0; i < options.client_count; ++i) {
      clients_.push_back(pool_owner_->attach_client(ClientIndex(i)).value());
    }
  }

  PublishedPool& pool() { return *pool_owner_; }
  PoolClient& client(uint32_t i) { return *clients_.at(i); }
  const SlotHeader& header(SlotIndex slot) const { return headers_.at(slot.value()); }

  int step() {
    const int work = pool().poll_once(clock.now());
    pool().check_invariants();
    return work;
  }
  void settle() {
    for (int turn = 0; turn < 1000; ++turn) {
      if (step() == 0) {
        return;
      }
    }
    FAIL("the pool does not come to rest");
  }

  SizeClassIndex class_of(uint32_t length_bytes) {
    return pool().ensure_class(length_bytes).value();
  }

  /// Takes a slot; the agent gets a few turns.
  Result<SlotGrant> take(uint32_t client_index, uint32_t length_bytes) {
    const SizeClassIndex size_class = class_of(length_bytes);
    Result<SlotGrant> grant = client(client_index).take(size_class);
    for (int turn = 0; turn < 4 && !grant; ++turn) {
      step();
      grant = client(client_index).take(size_class);
    }
    return grant;
  }

  /// begin_life and the bytes.
  Generation fill(uint32_t client_index,
                  const SlotGrant& grant,
                  const Key128& key,
                  uint32_t length_bytes) {
    PoolClient& writer = client(client_index);
    const Generation generation = begin_life(writer.header(grant));
    std::vector<std::byte> object(length_bytes);
    fill_pattern(object, key, generation);
    copy_bytes(writer.bytes(grant), object.data(), object.size());
    return generation;
  }

  Result<void> publish(uint32_t client_index,
                       const SlotGrant& grant,
                       Generation generation,
                       const Key128& key,
                       uint32_t length_bytes,
                       const GroupPlace& place,
                       uint32_t layout_digest_id = 7) {
    return client(client_index)
        .publish(grant, generation,
                 PublishedObject{.key = key,
                                 .length_bytes = length_bytes,
                                 .layout_digest_id = layout_digest_id,
                                 .payload_hash = PayloadHash{},
                                 .sequence = Sequence(++sequence_)},
                 place);
  }

  /// The whole of a put, without the agent's turn that takes it up. False if no slot came.
  bool put_queued(uint32_t client_index,
                  const Key128& key,
                  uint32_t length_bytes,
                  const GroupPlace& place = {},
                  uint32_t layout_digest_id = 7) {
    const Result<SlotGrant> grant = take(client_index, length_bytes);
    if (!grant) {
      return false;
    }
    const Generation generation = fill(client_index, *grant, key, length_bytes);
    REQUIRE(publish(client_index, *grant, generation, key, length_bytes, place, layout_digest_id)
                .has_value());
    return true;
  }
  bool put(uint32_t client_index,
           const Key128& key,
           uint32_t length_bytes,
           const GroupPlace& place = {},
           uint32_t layout_digest_id = 7) {
    const bool stored = put_queued(client_index, key, length_bytes, place, layout_digest_id);
    step();
    return stored;
  }

  LookupResult find(const Key128& key) {
    LookupResult result;
    pool().index().find(&key, &result, 1);
    return result;
  }
  bool holds(const Key128& key) { return find(key).count != 0; }

  /// The validated read: true if the header proves the location; then the bytes must be its
  /// object's.
  bool read(const Location& location) {
    std::vector<std::byte> found(location.length_bytes);
    copy_bytes_cached(found.data(), bytes_.data() + location.offset_bytes, found.size());
    validation_fence();
    SlotHeader after;
    racy_copy(&after, &headers_[location.slot.value()], sizeof(after));
    if (!header_proves(after, location)) {
      return false;
    }
    std::vector<std::byte> wanted(location.length_bytes);
    fill_pattern(wanted, location.key, location.generation);
    REQUIRE(found == wanted);
    return true;
  }

  PoolStats stats() { return pool().stats(); }

  ManualClock clock{std::chrono::seconds(100)};
  RecordingListener listener;

 private:
  std::vector<std::byte> bytes_;
  std::vector<SlotHeader> headers_;
  PoolOptions options_;
  PoolMemory memory_;
  std::unique_ptr<PublishedPool> pool_owner_;
  std::vector<PoolClient*> clients_;
  uint64_t sequence_ = 1000;
};

inline PoolOptions small_options(uint32_t client_count = 1) {
  PoolOptions options;
  options.granule_bytes = 1024;
  options.client_count = client_count;
  options.node = NodeId(77);
  options.incarnation = Incarnation(5);
  return options;
}

}  // namespace peercache::test
