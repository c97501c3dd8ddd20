#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "dataplane/base/errc.h"
#include "dataplane/base/key.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/location.h"
#include "dataplane/wire/wire_types.h"

namespace peercache {

/// What a control connection carries. A number is never reused.
enum class MessageType : uint16_t {
  kHello = 1,
  kHelloReply = 2,
  kHeartbeat = 3,
  kHeartbeatReply = 4,
  kLeave = 5,
  kDirectoryUpdate = 6,
  kDirectoryUpdateReply = 7,
  kDirectoryLookup = 8,
  kDirectoryLookupReply = 9,
  kReportMissing = 10,
  kTouch = 11,
  kReportBadPayload = 12,
  kAck = 13,
  kErrorReply = 14,
};
const char* to_string(MessageType type) noexcept;

/// Limits of what a message may hold; a decoded message keeps them, an encoder refuses to break
/// them.
namespace message_limits {
inline constexpr size_t kBodyBytesMax = size_t{4} << 20;
inline constexpr size_t kTextBytesMax = 1024;
/// Records or keys of one message: a batch of the largest call. 4,096 keys with 3 records each are
/// 0.8 MiB.
inline constexpr size_t kRecordsMax = 4096;
}  // namespace message_limits

/// What the nodes of a cluster must agree on. A difference refuses the connection (`check_terms`).
///
/// THREAD:     any; a value.
struct ClusterTerms {
  std::string cluster_name;
  uint16_t wire_version_id = 0;
  uint16_t hash_version_id = 0;
  uint32_t vnodes_count = 0;
  uint32_t replicas_count = 0;
  uint32_t member_ttl_ms = 0;

  friend bool operator==(const ClusterTerms&, const ClusterTerms&) = default;
};

/// Empty if the two may talk; otherwise names the first field that differs, and both values.
std::string check_terms(const ClusterTerms& mine, const ClusterTerms& theirs);

/// Who a node is and how it is reached.
///
/// THREAD:     any; a value.
struct NodeIdentity {
  std::string node_name;  ///< the node id text
  NodeId node{};
  Incarnation incarnation{};
  std::string host_id;          ///< equal ids: shm is possible
  std::string control_address;  ///< "host:port" as the node itself says it
  std::string shm_path;         ///< its Unix socket; empty: no shm

  friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;
};

struct HelloMessage {
  ClusterTerms terms;
  NodeIdentity identity;
  friend bool operator==(const HelloMessage&, const HelloMessage&) = default;
};

struct HelloReplyMessage {
  ClusterTerms terms;
  NodeIdentity identity;
  std::string refusal;  ///< empty: welcome
  friend bool operator==(const HelloReplyMessage&, const HelloReplyMessage&) = default;
};

struct HeartbeatMessage {
  NodeId node{};
  Incarnation incarnation{};
  friend bool operator==(const HeartbeatMessage&, const HeartbeatMessage&) = default;
};

struct HeartbeatReplyMessage {
  NodeId node{};
  Incarnation incarnation{};
  bool known = false;  ///< false: the sender should say hello (again)
  uint64_t purged_count =
      0;  ///< times the replier's shard dropped the sender's records; a change: publish again
  friend bool operator==(const HeartbeatReplyMessage&, const HeartbeatReplyMessage&) = default;
};

/// The sender ends; nothing that names this incarnation is worth asking for any more.
struct LeaveMessage {
  NodeId node{};
  Incarnation incarnation{};
  friend bool operator==(const LeaveMessage&, const LeaveMessage&) = default;
};

/// Records compare as bytes.
bool same_bytes(const Location& a, const Location& b) noexcept;
bool same_bytes(const std::vector<Location>& a, const std::vector<Location>& b) noexcept;

/// Changes of one node's records, for one shard. Deletes are applied before puts.
struct DirectoryUpdateMessage {
  NodeId sender{};
  Incarnation incarnation{};
  Epoch view_epoch{};
  uint64_t update_id =
      0;  ///< grows with each new update of this sender to this shard; a retry keeps it
  std::vector<Location> deletes;
  std::vector<Location> puts;
  friend bool operator==(const DirectoryUpdateMessage& a, const DirectoryUpdateMessage& b) {
    return a.sender == b.sender && a.incarnation == b.incarnation && a.view_epoch == b.view_epoch &&
           a.update_id == b.update_id && same_bytes(a.deletes, b.deletes) &&
           same_bytes(a.puts, b.puts);
  }
};

/// What a shard did with one record of an update.
enum class UpdateOutcome : uint8_t {
  kApplied = 0,         ///< stored, replaced or deleted
  kAppliedDropped = 1,  ///< stored; a record of another object had to go (both buckets full)
  kStaleSequence = 2,   ///< put: the shard holds a newer record of this node and key
  kNotFound = 3,        ///< delete: no such record; fine
  kNotOwner = 4,        ///< the record is not the sender's, and its node is not known to be dead
  kUnknownSender = 5,   ///< the shard's node has not met this incarnation; worth a retry
  kBadRecord = 6,       ///< checksum or fields wrong
  kStaleUpdate = 7,     ///< an older update than one that was applied already
  kNotHolder = 8,       ///< the receiver holds no shard
};
inline constexpr uint8_t kUpdateOutcomeLast = 8;
const char* to_string(UpdateOutcome outcome) noexcept;

struct DirectoryUpdateReplyMessage {
  uint64_t update_id = 0;
  std::vector<UpdateOutcome> outcomes;  ///< deletes, then puts, in the order of the update
  uint64_t records_count = 0;           ///< in the shard, afterwards
  uint64_t dropped_count = 0;           ///< by full buckets, since the shard's start
  friend bool operator==(const DirectoryUpdateReplyMessage&,
                         const DirectoryUpdateReplyMessage&) = default;
};

struct DirectoryLookupMessage {
  std::vector<Key128> keys;
  friend bool operator==(const DirectoryLookupMessage&, const DirectoryLookupMessage&) = default;
};

struct DirectoryLookupReplyMessage {
  std::vector<uint8_t> counts;      ///< per key of the lookup: 0 to limits::kLocationsPerKey
  std::vector<Location> locations;  ///< of all keys, one after the other
  friend bool operator==(const DirectoryLookupReplyMessage& a,
                         const DirectoryLookupReplyMessage& b) {
    return a.counts == b.counts && same_bytes(a.locations, b.locations);
  }
};

/// Records whose slot was found to live another life.
struct ReportMissingMessage {
  std::vector<Location> locations;
  friend bool operator==(const ReportMissingMessage& a, const ReportMissingMessage& b) {
    return same_bytes(a.locations, b.locations);
  }
};

/// Keys of the receiver's objects that others have used, tails before heads.
struct TouchMessage {
  std::vector<Key128> keys;
  friend bool operator==(const TouchMessage&, const TouchMessage&) = default;
};

/// Objects of the receiver whose header was right and whose bytes were not.
struct ReportBadPayloadMessage {
  std::vector<Location> locations;
  friend bool operator==(const ReportBadPayloadMessage& a, const ReportBadPayloadMessage& b) {
    return same_bytes(a.locations, b.locations);
  }
};

/// Reply to what needs no other.
struct AckMessage {
  friend bool operator==(const AckMessage&, const AckMessage&) = default;
};

/// The request was understood and is refused, or was not understood.
struct ErrorReplyMessage {
  Errc code = Errc::kUnsupported;
  friend bool operator==(const ErrorReplyMessage&, const ErrorReplyMessage&) = default;
};

/// Any message. The alternatives stand in the order of MessageType.
using Message = std::variant<HelloMessage,
                             HelloReplyMessage,
                             HeartbeatMessage,
                             HeartbeatReplyMessage,
                             LeaveMessage,
                             DirectoryUpdateMessage,
                             DirectoryUpdateReplyMessage,
                             DirectoryLookupMessage,
                             DirectoryLookupReplyMessage,
                             ReportMissingMessage,
                             TouchMessage,
                             ReportBadPayloadMessage,
                             AckMessage,
                             ErrorReplyMessage>;

inline MessageType type_of(const Message& message) noexcept {
  return static_cast<MessageType>(message.index() + 1);
}
static_assert(std::variant_size_v<Message> == static_cast<size_t>(MessageType::kErrorReply));

}  // namespace peercache
