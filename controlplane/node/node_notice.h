#pragma once

#include <cstdint>
#include <type_traits>

#include "dataplane/base/units.h"
#include "dataplane/wire/location.h"

namespace peercache {

enum class NoticeKind : uint8_t {
  kTouch = 0,       ///< an object of another node was read, or its key was put again
  kMissing = 1,     ///< a record's slot lives another life now: the shards should delete the record
  kBadPayload = 2,  ///< header right, payload hash wrong: the owner should retire the object
  kPeerLost = 3,    ///< an operation towards the peer failed; `peer` says which
};

/// What an application thread tells the conductor in passing; best effort, dropped when the ring is
/// full.
struct NodeNotice {
  Location location;
  PeerIndex peer{0};
  NoticeKind kind = NoticeKind::kTouch;
};
static_assert(std::is_trivially_copyable_v<NodeNotice>);

}  // namespace peercache
