#include "dataplane/pool/slot_life.h"

#include <atomic>

#include "dataplane/base/assert.h"
#include "dataplane/base/ordering.h"

namespace peercache {

namespace {

// Header fields are read by other threads, processes and NICs while they are written. Relaxed is
// enough for a single field: the order between header and bytes comes from the fences below, and a
// reader that catches a mixture of two lives finds a state, generation or key that is not the
// expected one.
template <class Field>
void store_field(Field& field, Field value) noexcept {
  std::atomic_ref<Field>(field).store(value, std::memory_order_relaxed);
}

// Relaxed: only the slot's owner writes, and the owner is the caller.
template <class Field>
Field load_own(Field& field) noexcept {
  return std::atomic_ref<Field>(field).load(std::memory_order_relaxed);
}

void store_key(SlotHeader& header, const Key128& key) noexcept {
  store_field(header.key.low, key.low);
  store_field(header.key.high, key.high);
}

Generation next_generation(SlotHeader& header) noexcept {
  const Generation generation = next(load_own(header.generation));
  store_field(header.generation, generation);
  return generation;
}

}  // namespace

Generation begin_life(SlotHeader& header) noexcept {
  PC_ASSERT(load_own(header.state) == SlotState::kFree, header.state, header.generation);
  store_field(header.state, SlotState::kFilling);
  const Generation generation = next_generation(header);
  // The new generation stands before any byte of the new life: whoever reads one of those bytes and
  // looks at the header afterwards sees it. Meets validation_fence() in the reader.
  life_fence();
  store_key(header, Key128{});
  return generation;
}

void publish_life(SlotHeader& header, const PublishedObject& object) noexcept {
  PC_ASSERT(load_own(header.state) == SlotState::kFilling, header.state, header.generation);
  PC_ASSERT(object.key != Key128{});
  PC_ASSERT(object.length_bytes > 0);
  store_key(header, object.key);
  store_field(header.length_bytes, object.length_bytes);
  store_field(header.layout_digest_id, object.layout_digest_id);
  store_field(header.payload_hash, object.payload_hash);
  store_field(header.sequence, object.sequence);
  store_field(header.reservation, ReservationId{});
  // The bytes may have been written by non-temporal stores, which the release store does not wait
  // for.
  copy_done_fence();
  // H1 release: meets F1 validation_fence() in readers; with PUBLISHED the fields above and the
  // object's bytes are visible.
  std::atomic_ref<SlotState>(header.state).store(SlotState::kPublished, std::memory_order_release);
}

void retire_life(SlotHeader& header) noexcept {
  PC_ASSERT(load_own(header.state) == SlotState::kPublished, header.state, header.generation);
  store_field(header.state, SlotState::kRetired);
}

void free_life(SlotHeader& header) noexcept {
  const SlotState state = load_own(header.state);
  PC_ASSERT(state == SlotState::kRetired || state == SlotState::kFilling, state, header.generation);
  store_field(header.state, SlotState::kFree);
}

void end_geometry(SlotHeader& header) noexcept {
  const SlotState state = load_own(header.state);
  PC_ASSERT(state == SlotState::kRetired || state == SlotState::kFree, state, header.generation);
  store_field(header.state, SlotState::kFree);
  next_generation(header);
  // As in begin_life: slots of the new geometry write these bytes under other headers.
  life_fence();
  store_key(header, Key128{});
}

}  // namespace peercache
