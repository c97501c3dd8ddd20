#include "dataplane/base/errc.h"

namespace peercache {

// NOLINTNEXTLINE(readability-function-size): a table
const char* to_string(Errc code) noexcept {
  switch (code) {
    case Errc::kInvalidArgument:
      return "invalid argument";
    case Errc::kOutOfRange:
      return "out of range";
    case Errc::kWouldOverflow:
      return "would overflow";
    case Errc::kNoMemory:
      return "out of memory";
    case Errc::kMemoryBudget:
      return "over the memory budget";
    case Errc::kSystem:
      return "system call failed";
    case Errc::kTimeout:
      return "timed out";
    case Errc::kBusy:
      return "busy";
    case Errc::kClosed:
      return "closed";
    case Errc::kForked:
      return "used after fork";
    case Errc::kCancelled:
      return "cancelled";
    case Errc::kAlreadyExists:
      return "already exists";
    case Errc::kNotFound:
      return "not found";
    case Errc::kBadMagic:
      return "bad magic";
    case Errc::kBadVersion:
      return "bad version";
    case Errc::kTruncated:
      return "truncated";
    case Errc::kBadChecksum:
      return "bad checksum";
    case Errc::kBadLength:
      return "bad length";
    case Errc::kBadEnum:
      return "bad enum";
    case Errc::kBadReserved:
      return "reserved field not zero";
    case Errc::kTrailingBytes:
      return "trailing bytes";
    case Errc::kConnectRefused:
      return "connect refused";
    case Errc::kPeerRefused:
      return "peer refused";
    case Errc::kPeerLost:
      return "peer lost";
    case Errc::kNoSuchRegion:
      return "no such region";
    case Errc::kRegionOverlap:
      return "region overlap";
    case Errc::kOutOfBounds:
      return "out of bounds";
    case Errc::kPermission:
      return "permission denied";
    case Errc::kClusterMismatch:
      return "cluster mismatch";
    case Errc::kHostMismatch:
      return "host mismatch";
    case Errc::kUnsupported:
      return "unsupported";
    case Errc::kNoDevice:
      return "no device";
    case Errc::kRegistration:
      return "memory registration failed";
    case Errc::kNotConnected:
      return "not connected";
    case Errc::kTooManyPeers:
      return "too many peers";
    case Errc::kTooManyRegions:
      return "too many regions";
    case Errc::kRingFull:
      return "ring full";
    case Errc::kNoRail:
      return "no rail";
    case Errc::kBatchTooLarge:
      return "batch too large";
    case Errc::kEmptyOperation:
      return "empty operation";
    case Errc::kPieceSumMismatch:
      return "piece sum mismatch";
    case Errc::kTooManyPieces:
      return "too many pieces";
    case Errc::kNoTicket:
      return "no ticket";
    case Errc::kNoClient:
      return "no client";
    case Errc::kStaleTicket:
      return "stale ticket";
    case Errc::kDeadline:
      return "deadline passed";
    case Errc::kRailDown:
      return "rail down";
    case Errc::kPoolTooSmall:
      return "pool too small";
    case Errc::kNoSizeClass:
      return "no size class";
    case Errc::kPoolFull:
      return "pool full";
    case Errc::kBadSlot:
      return "bad slot";
    case Errc::kBadState:
      return "bad state";
    case Errc::kTooManySizeClasses:
      return "too many size classes";
    case Errc::kNoTopology:
      return "no topology";
    case Errc::kNoSuchNode:
      return "no such node";
    case Errc::kPinRefused:
      return "thread pinning refused";
    case Errc::kNoHugePages:
      return "no huge pages";
    case Errc::kNoGpu:
      return "no gpu";
    case Errc::kNoDmabuf:
      return "no dmabuf export";
    case Errc::kUnknownMember:
      return "unknown member";
    case Errc::kBadSequence:
      return "bad sequence";
    case Errc::kNotOwner:
      return "not owner";
    case Errc::kShardFull:
      return "shard full";
    case Errc::kStaleEpoch:
      return "stale epoch";
    case Errc::kNoMaster:
      return "no master";
    case Errc::kBadToken:
      return "bad cluster token";
    case Errc::kTierFull:
      return "tier full";
    case Errc::kTierCorrupt:
      return "tier data corrupt";
    case Errc::kTierVersion:
      return "tier format version differs";
    case Errc::kUnknownKey:
      return "unknown key";
    case Errc::kBadValue:
      return "bad value";
    case Errc::kMissingKey:
      return "missing key";
    case Errc::kNotBuiltYet:
      return "not built yet";
    case Errc::kConflictingKeys:
      return "conflicting keys";
    case Errc::kBadBuffer:
      return "bad buffer";
    case Errc::kBadIndices:
      return "bad indices";
    case Errc::kUnknownLayout:
      return "unknown layout";
  }
  return "unknown error";
}

}  // namespace peercache
