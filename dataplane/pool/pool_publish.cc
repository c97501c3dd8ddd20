#include <algorithm>
#include <span>

#include "dataplane/base/assert.h"
#include "dataplane/pool/published_pool_state.h"

namespace peercache {

int PublishedPool::State::drain(Shared& shared) {
  int work = 0;
  for (SlotIndex slot; shared.returns.pop(slot); ++work) {
    space.discard(slot);
  }
  uint32_t count = 0;
  shared.messages.peek_unconsumed([&](const PoolMessage& message) PC_NO_THREAD_ANALYSIS {
    drained[count++] = message;
    return count < kDrainMax;
  });
  for (uint32_t i = 0; i < count; ++i) {
    const PoolMessage& message = drained[i];
    switch (message.kind) {
      case PoolMessageKind::kPublish:
        publish_object(message);
        break;
      case PoolMessageKind::kRemove:
        remove_object(message.location.key);
        break;
      case PoolMessageKind::kClear:
        clear_objects();
        break;
      case PoolMessageKind::kTouch: {
        uint32_t end = i + 1;
        while (end < count && drained[end].kind == PoolMessageKind::kTouch) {
          ++end;
        }
        touch_objects(&drained[i], end - i);
        i = end - 1;
        break;
      }
    }
  }
  if (count > 0) {
    // Consumed only now: until the index names an object, find_pending() finds it in the ring.
    const size_t popped = shared.messages.pop_many(std::span(drained).first(count));
    PC_ASSERT(popped == count, popped, count);
  }
  return work + static_cast<int>(count);
}

void PublishedPool::State::publish_object(const PoolMessage& message) {
  const Location& location = message.location;
  const SlotIndex slot = location.slot;
  PC_ASSERT(is_sound(location) && header_proves(memory.headers[slot.value()], location),
            slot);  // (P1)
  PC_ASSERT(space.class_of(slot) == message.size_class, slot, space.class_of(slot),
            message.size_class);
  LookupResult found;
  index->find(&location.key, &found, 1);
  if (found.count > 0) {
    const Location& held = found.locations[0];
    const bool same = held.length_bytes == location.length_bytes &&
                      memory.headers[held.slot.value()].layout_digest_id ==
                          memory.headers[slot.value()].layout_digest_id;
    if (same || held.sequence >= location.sequence) {
      counters.duplicates_count.add();
      policy.touch(held.slot);
      space.discard(slot);
      return;
    }
  }
  space.publish(slot);
  const BucketTable::Insert insert = index->insert(location);
  PC_ASSERT(insert.outcome != BucketTable::InsertOutcome::kStaleSequence,
            slot);  // its own key was looked up above
  if (insert.outcome == BucketTable::InsertOutcome::kReplaced) {
    // Another length or layout under the same key: the newer one counts.
    note_gone(insert.dropped.slot, insert.dropped);
  }
  policy.add(slot, message.size_class, message.place);
  counters.published_count.add();
  counters.objects_count.add();
  counters.bytes_used.add(location.length_bytes);
  listener->on_published(location);
  if (insert.outcome == BucketTable::InsertOutcome::kDroppedOldest) {
    // Nobody finds that object any more, so its page is incomplete: the page goes, and the tails
    // that need it.
    counters.index_dropped_count.add();
    evict_with_descendants(policy.group_of(insert.dropped.slot));
  }
}

void PublishedPool::State::touch_objects(const PoolMessage* messages, uint32_t count) {
  // Together, since a lookup fetches the buckets of the next keys while it searches one.
  constexpr uint32_t kTogether = 32;
  std::array<Key128, kTogether> keys;
  std::array<LookupResult, kTogether> results;
  for (uint32_t done = 0; done < count; done += kTogether) {
    const uint32_t key_count = std::min(kTogether, count - done);
    for (uint32_t i = 0; i < key_count; ++i) {
      keys[i] = messages[done + i].location.key;
    }
    index->find(keys.data(), results.data(), key_count);
    for (uint32_t i = 0; i < key_count; ++i) {
      if (results[i].count > 0) {
        policy.touch(results[i].locations[0].slot);
      }
    }
  }
}

void PublishedPool::State::remove_object(const Key128& key) {
  LookupResult found;
  index->find(&key, &found, 1);
  if (found.count > 0) {
    retire_object(found.locations[0].slot);
    counters.removed_count.add();
  }
}

void PublishedPool::State::clear_objects() {
  const uint64_t removed_count =
      index->erase_if([&](const Location& location) PC_NO_THREAD_ANALYSIS {
        note_gone(location.slot, location);
        return true;
      });
  counters.removed_count.add(removed_count);
}

}  // namespace peercache
