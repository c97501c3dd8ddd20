#include "dataplane/transport/work_request.h"

namespace peercache {

const char* to_string(TransportKind kind) noexcept {
  switch (kind) {
    case TransportKind::kNull:
      return "null";
    case TransportKind::kSim:
      return "sim";
    case TransportKind::kShm:
      return "shm";
    case TransportKind::kTcp:
      return "tcp";
    case TransportKind::kVerbs:
      return "verbs";
    case TransportKind::kMlx5:
      return "mlx5";
  }
  return "unknown";
}

const char* to_string(OpStatus status) noexcept {
  switch (status) {
    case OpStatus::kPending:
      return "pending";
    case OpStatus::kOk:
      return "ok";
    case OpStatus::kStale:
      return "stale";
    case OpStatus::kBadPayload:
      return "bad payload";
    case OpStatus::kDeadline:
      return "deadline";
    case OpStatus::kCancelled:
      return "cancelled";
    case OpStatus::kPeerLost:
      return "peer lost";
    case OpStatus::kPeerSuspect:
      return "peer suspect";
    case OpStatus::kFlushed:
      return "flushed";
    case OpStatus::kTransportError:
      return "transport error";
    case OpStatus::kOutOfBounds:
      return "out of bounds";
    case OpStatus::kNoRail:
      return "no rail";
  }
  return "unknown";
}

}  // namespace peercache
