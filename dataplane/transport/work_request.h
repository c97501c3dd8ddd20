#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dataplane/base/key.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/location.h"

namespace peercache {

enum class TransportKind : uint16_t {
  kNull = 1,
  kSim = 2,
  kShm = 3,
  kTcp = 4,
  kVerbs = 5,
  kMlx5 = 6
};
const char* to_string(TransportKind kind) noexcept;

enum class OpKind : uint8_t { kRead = 0, kWrite = 1, kLookup = 2 };

/// Outcome of one operation. Everything but kPending is final.
enum class OpStatus : uint8_t {
  kPending = 0,
  kOk = 1,
  kStale = 2,        ///< validation failed: the slot lives another life now; a miss
  kBadPayload = 3,   ///< header was right, payload hash was not
  kDeadline = 4,     ///< own or batch deadline passed; destination is quiet
  kCancelled = 5,    ///< cancelled by its client; destination is quiet
  kPeerLost = 6,     ///< peer died, or is not connected
  kPeerSuspect = 7,  ///< refused at once: the peer is suspect
  /// Torn down with its queue pair through no fault of its own; may be posted again
  kFlushed = 8,
  kTransportError = 9,  ///< completion error of this operation
  kOutOfBounds = 10,    ///< region unknown, range outside it, or kind does not allow the operation
  kNoRail = 11,         ///< no rail reaches the peer
};
const char* to_string(OpStatus status) noexcept;

/// Names registered local memory towards the transport (lkey or the like); zero where none is
/// needed.
using LocalKey = StrongId<struct LocalKeyTag, uint32_t>;

/// One local piece of an object.
struct LocalPiece {
  std::byte* address = nullptr;
  uint32_t length_bytes = 0;
  LocalKey local_key{};
};
static_assert(sizeof(LocalPiece) == 16);
static_assert(std::is_trivially_copyable_v<LocalPiece>);

/// Keys and result places of one LOOKUP; both arrays hold `key_count` entries and outlive the
/// operation.
struct LookupBatch {
  const Key128* keys;
  LookupResult* results;
  uint32_t key_count;
};

/// What a rail hands to its transport. Borrows `pieces` or `lookup` until its completion was
/// polled.
struct WorkRequest {
  uint64_t cookie_id = 0;
  uint64_t remote_offset_bytes = 0;
  union {
    const LocalPiece* pieces = nullptr;
    const LookupBatch* lookup;
  };
  uint32_t length_bytes = 0;  ///< sum of the pieces; for LOOKUP zero
  PeerIndex peer{};
  RegionIndex region{};
  uint16_t piece_count = 0;
  OpKind kind = OpKind::kRead;
  uint8_t flags_id = 0;
};
static_assert(sizeof(WorkRequest) == 40);
static_assert(std::is_trivially_copyable_v<WorkRequest>);

/// Reported exactly once for each accepted request, when nobody can touch its local memory any
/// more.
struct Completion {
  uint64_t cookie_id;
  OpStatus status;
};
static_assert(std::is_trivially_copyable_v<Completion>);

}  // namespace peercache
