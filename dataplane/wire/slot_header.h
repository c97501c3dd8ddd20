#pragma once

#include <cstdint>
#include <type_traits>

#include "dataplane/base/key.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/wire_types.h"

namespace peercache {

/// Life of a slot: FREE -> FILLING -> PUBLISHED(g) -> RETIRED -> FREE; the generation becomes g+1
/// before the first byte of the next life is written. QUARANTINED belongs to reservations (storage
/// modes).
enum class SlotState : uint32_t {
  kFree = 0,
  kFilling = 1,
  kPublished = 2,
  kRetired = 3,
  kQuarantined = 4,
};

/// The truth about one slot: 64 bytes in the header table beside the region's bytes. A reader
/// accepts the bytes it has read only if a header read afterwards still names the life that its
/// location named.
///
/// THREAD:     written by the slot's present owner (client while FILLING, pool agent otherwise)
/// through
///             `pool/slot_life.h`; read by anyone, in any process, through `racy_copy`.
/// INVARIANTS: (H1) `generation` changes before the bytes of the next life do.
///             (H2) `offset_bytes` is the slot's own offset; it never changes while the slot holds
///             an object.
struct alignas(64) SlotHeader {
  Key128 key;
  Generation generation;
  SlotState state;
  uint32_t length_bytes;
  uint32_t layout_digest_id;  ///< digest of the piece layout the object was stored with
  PayloadHash payload_hash;
  Sequence sequence;
  ReservationId reservation;
  uint64_t offset_bytes;
};

static_assert(sizeof(SlotHeader) == 64);
static_assert(std::is_trivially_copyable_v<SlotHeader>);

}  // namespace peercache
