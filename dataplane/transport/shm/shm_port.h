#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "dataplane/base/cacheline.h"
#include "dataplane/base/units.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/queue/spsc_ring.h"
#include "dataplane/transport/shm/shm_copy_board.h"
#include "dataplane/transport/shm/shm_peer_table.h"
#include "dataplane/transport/work_request.h"

namespace peercache {

/// What a client asks of the endpoint: everything that is not a copy.
struct ShmCommand {
  enum class Kind : uint8_t {
    kWrite,
    kFence,  ///< end this client's WRITEs towards `peer`
  };
  uint64_t cookie_id;
  uint64_t offset_bytes;
  const LocalPiece* pieces;  ///< borrowed until the completion
  uint32_t length_bytes;
  PeerIndex peer;
  RegionIndex region;
  uint16_t piece_count;
  Kind kind;
};
static_assert(std::is_trivially_copyable_v<ShmCommand>);

/// Where one client, the endpoint and the copiers meet. Ports exist as long as the endpoint; a
/// client leases one.
///
/// THREAD:     client: push into `commands`, pop from `done`, write its epoch word; conductor: the
///             reverse. `board`: the client and the copiers. `leased`: whoever opens or closes a
///             client.
/// BORROWS:    client_event, while a command is under way.
/// INVARIANTS: (I1) at most kWritesMax WRITEs are under way, so `done` is never full.
///             (I2) a port that is not leased has an idle word, nothing on its board and no WRITE
///             under way; a fence may still be in `commands`, and finds nothing to end.
struct ShmPort {
  static constexpr size_t kWritesMax = 128;
  /// WRITEs, and fences for which there is room as well.
  static constexpr size_t kCommandEntries = 256;

  std::atomic<bool> leased{false};
  WakeEvent* client_event = nullptr;
  SpscRing<ShmCommand> commands{kCommandEntries};
  SpscRing<Completion> done{kWritesMax};
  ShmCopyBoard board;
  ShmEpochWord word;
};
static_assert(ShmPort::kCommandEntries > ShmPort::kWritesMax);

}  // namespace peercache
