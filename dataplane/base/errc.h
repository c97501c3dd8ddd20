#pragma once

#include <cstdint>

namespace peercache {

/// Every error code of the tree. A range of 1000 per subsystem, so that a number names where to
/// look: 0 base, 1000 wire, 2000 transport, 3000 rail and engine, 4000 pool, 5000 numa and gpu,
/// 6000 discovery and directory, 7000 tier, 8000 configuration, 9000 bindings.
/// A number is never reused for something else: it appears in logs and in Python exceptions.
enum class Errc : uint16_t {
  // base
  kInvalidArgument = 1,
  kOutOfRange = 2,
  kWouldOverflow = 3,
  kNoMemory = 4,
  kMemoryBudget = 5,
  kSystem = 6,
  kTimeout = 7,
  kBusy = 8,
  kClosed = 9,
  kForked = 10,
  kCancelled = 11,
  kAlreadyExists = 12,
  kNotFound = 13,

  // wire
  kBadMagic = 1001,
  kBadVersion = 1002,
  kTruncated = 1003,
  kBadChecksum = 1004,
  kBadLength = 1005,
  kBadEnum = 1006,
  kBadReserved = 1007,
  kTrailingBytes = 1008,

  // transport
  kConnectRefused = 2001,
  kPeerRefused = 2002,
  kPeerLost = 2003,
  kNoSuchRegion = 2004,
  kRegionOverlap = 2005,
  kOutOfBounds = 2006,
  kPermission = 2007,
  kClusterMismatch = 2008,
  kHostMismatch = 2009,
  kUnsupported = 2010,
  kNoDevice = 2011,
  kRegistration = 2012,
  kNotConnected = 2013,
  kTooManyPeers = 2014,
  kTooManyRegions = 2015,

  // rail and engine
  kRingFull = 3001,
  kNoRail = 3002,
  kBatchTooLarge = 3003,
  kEmptyOperation = 3004,
  kPieceSumMismatch = 3005,
  kTooManyPieces = 3006,
  kNoTicket = 3007,
  kNoClient = 3008,
  kStaleTicket = 3009,
  kDeadline = 3010,
  kRailDown = 3011,

  // pool
  kPoolTooSmall = 4001,
  kNoSizeClass = 4002,
  kPoolFull = 4003,
  kBadSlot = 4004,
  kBadState = 4005,
  kTooManySizeClasses = 4006,

  // numa and gpu
  kNoTopology = 5001,
  kNoSuchNode = 5002,
  kPinRefused = 5003,
  kNoHugePages = 5004,
  kNoGpu = 5005,
  kNoDmabuf = 5006,

  // discovery and directory
  kUnknownMember = 6001,
  kBadSequence = 6002,
  kNotOwner = 6003,
  kShardFull = 6004,
  kStaleEpoch = 6005,
  kNoMaster = 6006,
  kBadToken = 6007,

  // tier
  kTierFull = 7001,
  kTierCorrupt = 7002,
  kTierVersion = 7003,

  // configuration
  kUnknownKey = 8001,
  kBadValue = 8002,
  kMissingKey = 8003,
  kNotBuiltYet = 8004,
  kConflictingKeys = 8005,

  // bindings
  kBadBuffer = 9001,
  kBadIndices = 9002,
  kUnknownLayout = 9003,
};

/// A few words in lower case, for messages: "pool too small". Never null; "unknown error" for a
/// foreign value.
const char* to_string(Errc code) noexcept;

}  // namespace peercache
