#pragma once

#include <cstdint>

#include "dataplane/base/key.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/slot_header.h"

namespace peercache {

/// The only functions that write a slot header: one per step of a slot's life (design.md 6), with
/// the memory order that makes a header READ after the bytes a proof. REQUIRES for each: the caller
/// owns the slot in the state named.
///
/// THREAD: the slot's present owner.

/// FREE -> FILLING: generation + 1, then life_fence(); only after it may the first byte be written.
/// Returns the new generation. The header's key is cleared.
Generation begin_life(SlotHeader& header) noexcept;

/// Contents of a new life.
struct PublishedObject {
  Key128 key;
  uint32_t length_bytes;
  uint32_t layout_digest_id;
  PayloadHash payload_hash;
  Sequence sequence;
};

/// FILLING -> PUBLISHED: fields, then copy_done_fence() and the state with release order.
void publish_life(SlotHeader& header, const PublishedObject& object) noexcept;

/// PUBLISHED -> RETIRED: the bytes stay as they are and reads that began before remain valid.
void retire_life(SlotHeader& header) noexcept;

/// RETIRED or FILLING -> FREE. The generation is left: begin_life changes it before the next byte.
void free_life(SlotHeader& header) noexcept;

/// Used when a slot's bytes are handed to slots of another geometry: no begin_life of *this* header
/// will precede the next writes there, so the generation moves on now, followed by life_fence().
void end_geometry(SlotHeader& header) noexcept;

}  // namespace peercache
