#pragma once

#include <cstdint>
#include <span>

#include "dataplane/rail/op_record.h"
#include "dataplane/transport/work_request.h"
#include "dataplane/wire/location.h"

namespace peercache {

/// One operation as a caller submits it. Borrows what its pointers name until the ticket is quiet.
///
/// READ:   bytes [target.offset_bytes, + target.length_bytes) of target.region at `peer` into
///         `pieces`, whose lengths add up to target.length_bytes. With Validation::kHeader the
///         result counts only if the slot still lives the life that `target` names.
/// WRITE:  `pieces` into target.region at target.offset_bytes.
/// LOOKUP: searches `lookup->keys` in the directory table that is target.region at `peer`.
struct Op {
  OpKind kind = OpKind::kRead;
  Validation validation = Validation::kHeader;
  PeerIndex peer{0};
  Location target{};
  std::span<const LocalPiece> pieces;
  const LookupBatch* lookup = nullptr;
};

/// Handle of a submitted batch; stale after `release`.
struct Ticket {
  uint32_t index = 0;
  uint32_t generation_id = 0;
};

/// Counts of a batch by outcome.
struct BatchResult {
  uint32_t total_count = 0;
  uint32_t ok_count = 0;
  uint32_t failed_count = 0;
  bool done = false;  ///< every operation is final and all local memory is quiet
};

}  // namespace peercache
