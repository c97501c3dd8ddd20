#pragma once

#include <cstdint>
#include <type_traits>

#include "dataplane/base/units.h"
#include "dataplane/transport/work_request.h"
#include "dataplane/wire/location.h"
#include "dataplane/wire/slot_header.h"

namespace peercache {

/// How a READ is checked before it counts as a hit.
enum class Validation : uint8_t {
  kNone = 0,    ///< plain operation; only for memory that nobody reuses
  kHeader = 1,  ///< header READ after the data READ has completed
};

/// One operation of a batch while it is under way. Lives in its client's arena (which is registered
/// memory, so that headers can land in it); lanes carry pointers to it.
///
/// THREAD: the client's, except between push into a lane and pop of its completion: then the
///         rail's.
struct alignas(64) OpRecord {
  // What is wanted. For READ `target` is the whole expectation; for WRITE and LOOKUP only region
  // and offset count.
  Location target;

  union {
    const LocalPiece* pieces;
    const LookupBatch* lookup;
  };
  Nanos deadline_at;  ///< of the batch; the rail caps one operation at its own limit from posting
  uint32_t length_bytes;
  uint32_t ticket_index;
  uint32_t ticket_generation_id;
  uint32_t op_index;  ///< position in the batch
  PeerIndex peer;
  RegionIndex region;          ///< of the bytes
  RegionIndex headers_region;  ///< of the slot's header; for Validation::kHeader
  uint16_t piece_count;
  OpKind kind;
  Validation validation;
  OpStatus status;  ///< written by the rail before it returns the record
  uint8_t attempt_count;
  RailIndex rail;     ///< that carried it last
  uint8_t cancelled;  ///< client-side only

  SlotHeader landing;  ///< header as read after the bytes; valid when status is kOk or kStale
};
static_assert(sizeof(OpRecord) == 192);
static_assert(std::is_trivially_copyable_v<OpRecord>);

}  // namespace peercache
