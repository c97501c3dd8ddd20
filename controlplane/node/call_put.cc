// The copies of a put: one slot per absent key, published whole or not at all, head of the prefix
// first.

#include <algorithm>

#include "controlplane/node/call_runner.h"
#include "dataplane/base/copy.h"
#include "dataplane/base/stream_hash.h"
#include "dataplane/pool/slot_life.h"

namespace peercache {
namespace {

// So that a ticket's poll stays short: at 10 GB/s some 1.6 ms.
constexpr uint64_t kBytesPerStep = 16ULL << 20;

uint32_t layout_digest(std::span<const LocalPiece> pieces) {
  std::array<uint32_t, limits::kPiecesPerOpMax> lengths{};
  const size_t count = std::min(pieces.size(), lengths.size());
  for (size_t i = 0; i < count; ++i) lengths[i] = pieces[i].length_bytes;
  return static_cast<uint32_t>(hash_bytes64(lengths.data(), count * sizeof(uint32_t)));
}

}  // namespace

std::span<const LocalPiece> CallRunner::pieces_of(uint32_t key_index) const {
  const uint32_t from = batch_.piece_offsets[key_index];
  return batch_.pieces.subspan(from, batch_.piece_offsets[key_index + 1] - from);
}

uint32_t CallRunner::object_bytes(uint32_t key_index) const {
  uint64_t bytes = 0;
  for (const LocalPiece& piece : pieces_of(key_index)) bytes += piece.length_bytes;
  return narrow<uint32_t>(bytes);
}

SizeClassIndex CallRunner::class_of(uint32_t length_bytes) {
  for (const ClassOf& known : classes_) {
    if (known.length_bytes == length_bytes) return known.size_class;
  }
  Result<SizeClassIndex> size_class = shared_.pool.ensure_class(length_bytes);
  PC_ASSERT(size_class.has_value(), length_bytes);  // Node::put asked before
  classes_.push_back({length_bytes, *size_class});
  return *size_class;
}

/// Keys that a live node holds already, this one included, are not copied; that counts as a use of
/// them.
void CallRunner::report_held() {
  touched_.clear();
  uint64_t held_count = 0;
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    const KeyPlan& plan = plans_[i];
    if (!plan.found || plan.location.length_bytes != object_bytes(i)) continue;
    statuses_[i] = KeyStatus::kHeld;
    ++held_count;
    if (plan.own) {
      touched_.push_back(keys_[i]);
    } else {
      notice(NoticeKind::kTouch, plan.location, plan.peer);
    }
  }
  counters_.put_held.add(held_count);
  std::reverse(touched_.begin(), touched_.end());
  if (!touched_.empty()) pool_client_.touch(touched_);
}

bool CallRunner::copy_some(Nanos now) {
  uint64_t copied_bytes = 0;
  while (cursor_ < keys_.size()) {
    if (statuses_[cursor_] != KeyStatus::kPending) {
      ++cursor_;
      continue;
    }
    if (expired(now)) {
      drop_unpublished();
      fail_rest(cursor_, cancelled_ ? KeyStatus::kCancelled : KeyStatus::kNoSpace);
      return true;
    }
    if (copied_bytes >= kBytesPerStep) {
      progressed_ = true;
      return false;
    }
    if (!put_one(cursor_)) return false;
    copied_bytes += object_bytes(cursor_);
    ++cursor_;
    now = shared_.clock.now();
  }
  return true;
}

/// False: no slot, or no room for the message; the agent was asked and wakes our event.
bool CallRunner::put_one(uint32_t key_index) {
  if (!unpublished_.waiting) {
    const SizeClassIndex size_class = class_of(object_bytes(key_index));
    const Result<SlotGrant> grant = pool_client_.take(size_class);
    if (!grant) {
      counters_.starved.add();
      return false;
    }
    fill_slot(key_index, *grant);
  }
  if (!pool_client_.publish(unpublished_.grant, unpublished_.generation, unpublished_.object,
                            unpublished_.place)) {
    unpublished_.waiting = true;
    return false;
  }
  unpublished_.waiting = false;
  statuses_[key_index] = KeyStatus::kStored;
  counters_.put_stored.add();
  counters_.put_bytes.add(unpublished_.object.length_bytes);
  return true;
}

void CallRunner::fill_slot(uint32_t key_index, const SlotGrant& grant) {
  SlotHeader& header = pool_client_.header(grant);
  std::byte* const slot_bytes = pool_client_.bytes(grant);
  unpublished_.grant = grant;
  unpublished_.generation = begin_life(header);

  const std::span<const LocalPiece> pieces = pieces_of(key_index);
  const bool hashed = shared_.options.verify != VerifyMode::kOff;
  StreamHash64 hash;
  std::byte* to = slot_bytes;
  for (const LocalPiece& piece : pieces) {
    copy_bytes(to, piece.address, piece.length_bytes);
    // Of the source: it may be in a cache, the slot's bytes have just been written past them.
    if (hashed) hash.update(piece.address, piece.length_bytes);
    to += piece.length_bytes;
  }
  const uint32_t length_bytes = object_bytes(key_index);
  unpublished_.object = {keys_[key_index], length_bytes, layout_digest(pieces),
                         PayloadHash(hashed ? hash.digest() : 0), shared_.sequences.next()};
  unpublished_.place.group = keys_[key_index];
  unpublished_.place.position_index = place_.first_position_index + key_index;
  if (!place_.chained) {
    unpublished_.place.parent = Key128{};
  } else {
    unpublished_.place.parent = key_index == 0 ? place_.parent : keys_[key_index - 1];
  }
}

void CallRunner::drop_unpublished() {
  if (!unpublished_.waiting) return;
  pool_client_.abandon(unpublished_.grant);
  unpublished_.waiting = false;
}

void CallRunner::fail_rest(uint32_t from_index, KeyStatus status) {
  for (uint32_t i = from_index; i < keys_.size(); ++i) {
    if (statuses_[i] != KeyStatus::kPending) continue;
    statuses_[i] = status;
    counters_.put_failed.add();
  }
}

}  // namespace peercache
