#pragma once

#include <cstdint>

#include "dataplane/base/units.h"
#include "dataplane/rail/rail_command.h"

namespace peercache {

/// How a rail stands towards one peer.
enum class LinkState : uint8_t {
  kAbsent = 0,  ///< never connected, or disconnected and quiet
  kUp,
  kTrial,    ///< after an error: a probe is under way, operations are held until it ends
  kSuspect,  ///< operations end as kPeerSuspect at once; probes go out with growing pauses
  kLeaving,  ///< disconnect asked for; what is in flight is being fenced
};

/// A rail's state for one peer. The first line is looked at for each operation, the rest only in
/// trouble.
///
/// THREAD: the rail's driver.
struct PeerLink {
  LinkState state = LinkState::kAbsent;
  /// A fence is under way: nothing is posted until all that was posted is back
  bool fencing = false;
  bool troubled = false;      ///< listed for the timers
  bool probing = false;       ///< a probe is posted
  uint16_t posted_count = 0;  ///< requests with the transport, probes included
  ProbeTarget probe{};
  Nanos last_success_at{0};
  Nanos recovered_at{0};  ///< when it was connected or taken back
  Nanos probe_due_at = Nanos::max();
  Nanos backoff{0};  ///< the latest pause; 0 before the first
};
static_assert(sizeof(PeerLink) <= 64);

}  // namespace peercache
