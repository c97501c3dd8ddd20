#include "dataplane/pool/pool_client.h"

#include <algorithm>

#include "dataplane/base/assert.h"
#include "dataplane/pool/pool_client_shared.h"

namespace peercache {

namespace {

PoolMessage message_of(PoolMessageKind kind, const Key128& key) {
  PoolMessage message{};
  message.kind = kind;
  message.location.key = key;  // not sealed: find_pending() takes publishes only
  return message;
}

}  // namespace

Result<SlotGrant> PoolClient::take(SizeClassIndex size_class) {
  GrantRing* ring =
      size_class.value() < limits::kSizeClassesMax ? shared_->ring(size_class) : nullptr;
  if (ring == nullptr) {
    return make_error(Errc::kInvalidArgument, "the pool has no size class {}", size_class);
  }
  SlotIndex slot{};
  if (!ring->take(slot)) {
    // D1 release: meets D2 in PublishedPool::State::see_demand(); what was taken before is counted.
    shared_->supplies[size_class.value()].starving.store(1, std::memory_order_release);
    shared_->starved_count.add();
    shared_->wake_agent();
    return make_error(Errc::kBusy, "no free slot of size class {} is ready", size_class);
  }
  // What was in it could be read until now.
  if (SlotHeader& old = shared_->memory.headers[slot.value()]; old.state == SlotState::kRetired) {
    free_life(old);
  }
  return SlotGrant{.slot = slot,
                   .size_class = size_class,
                   .offset_bytes = uint64_t{slot.value()} * shared_->options.granule_bytes};
}

void PoolClient::announce(SizeClassIndex size_class, uint32_t wanted_count) {
  const GrantRing* ring =
      size_class.value() < limits::kSizeClassesMax ? shared_->ring(size_class) : nullptr;
  PC_ASSERT(ring != nullptr, size_class);
  const uint32_t taken_count = ring->taken_count();
  const Announcement announcement{.wanted_count = wanted_count, .taken_before_count = taken_count};
  // Relaxed is enough: a number to plan with, complete in one word.
  shared_->supplies[size_class.value()].announcement.store(announcement, std::memory_order_relaxed);
  if (wanted_count > ring->ready_count()) {
    shared_->wake_agent();
  }
}

SlotHeader& PoolClient::header(const SlotGrant& grant) const {
  PC_ASSERT(grant.slot.value() < shared_->memory.header_count, grant.slot);
  return shared_->memory.headers[grant.slot.value()];
}

std::byte* PoolClient::bytes(const SlotGrant& grant) const {
  PC_ASSERT(grant.offset_bytes < shared_->memory.length.value(), grant.offset_bytes);
  return shared_->memory.bytes + grant.offset_bytes;
}

Result<void> PoolClient::publish(const SlotGrant& grant,
                                 Generation generation,
                                 const PublishedObject& object,
                                 const GroupPlace& place) {
  SlotHeader& slot_header = header(grant);
  PC_ASSERT(slot_header.generation == generation, slot_header.generation, generation);
  // Asked before the header is published: afterwards the slot would no longer be the caller's to
  // give back.
  if (shared_->messages.room() == 0) {
    shared_->wake_agent();
    return make_error(Errc::kRingFull, "the pool agent lags by {} messages", limits::kPoolMessages);
  }
  publish_life(slot_header, object);
  PoolMessage message{};
  message.kind = PoolMessageKind::kPublish;
  message.size_class = grant.size_class;
  message.place = place;
  if (message.place.group == Key128{}) {
    message.place.group = object.key;  // a page of one object
  }
  message.location.key = object.key;
  message.location.node = shared_->options.node;
  message.location.offset_bytes = grant.offset_bytes;
  message.location.sequence = object.sequence;
  message.location.slot = grant.slot;
  message.location.generation = generation;
  message.location.length_bytes = object.length_bytes;
  message.location.incarnation = shared_->options.incarnation;
  message.location.region = shared_->memory.region;
  seal(message.location);
  const bool pushed = shared_->messages.push(message);
  PC_ASSERT(pushed);  // there was room, and only this thread pushes
  shared_->wake_agent();
  return {};
}

void PoolClient::abandon(const SlotGrant& grant) {
  const bool pushed = shared_->returns.push(grant.slot);
  PC_ASSERT(pushed, Shared::kReturnsMax);
  shared_->wake_agent();
}

void PoolClient::touch(std::span<const Key128> keys) {
  // Touches never crowd out publishes.
  const size_t room = shared_->messages.room();
  const size_t reserve = limits::kPoolMessages / 2;
  const size_t count = std::min(keys.size(), room > reserve ? room - reserve : 0);
  for (const Key128& key : keys.first(count)) {
    const bool pushed = shared_->messages.push(message_of(PoolMessageKind::kTouch, key));
    PC_ASSERT(pushed);
  }
  // Nobody waits for them: the agent is woken only so that they do not pile up.
  if (shared_->messages.size_approx() > limits::kPoolMessages / 4) {
    shared_->wake_agent();
  }
}

Result<void> PoolClient::remove(std::span<const Key128> keys) {
  if (shared_->messages.room() < keys.size()) {
    shared_->wake_agent();
    return make_error(
        Errc::kRingFull,
        "no room to remove {} objects: the pool agent takes at most {} messages ahead", keys.size(),
        limits::kPoolMessages);
  }
  for (const Key128& key : keys) {
    const bool pushed = shared_->messages.push(message_of(PoolMessageKind::kRemove, key));
    PC_ASSERT(pushed);
  }
  shared_->wake_agent();
  return {};
}

Result<void> PoolClient::clear() {
  if (!shared_->messages.push(message_of(PoolMessageKind::kClear, Key128{}))) {
    shared_->wake_agent();
    return make_error(Errc::kRingFull, "the pool agent lags by {} messages", limits::kPoolMessages);
  }
  shared_->wake_agent();
  return {};
}

uint32_t PoolClient::pending_count() const {
  return static_cast<uint32_t>(shared_->messages.size_approx());
}

WakeEvent& PoolClient::event() { return *shared_->event; }

}  // namespace peercache
