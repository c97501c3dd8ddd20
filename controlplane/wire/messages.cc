#include "controlplane/wire/messages.h"

#include <cstring>

namespace peercache {

namespace {

std::string differs(const char* field, const std::string& mine, const std::string& theirs) {
  return std::string(field) + " differs: " + mine + " here, " + theirs + " there";
}

}  // namespace

const char* to_string(MessageType type) noexcept {
  switch (type) {
    case MessageType::kHello:
      return "hello";
    case MessageType::kHelloReply:
      return "hello reply";
    case MessageType::kHeartbeat:
      return "heartbeat";
    case MessageType::kHeartbeatReply:
      return "heartbeat reply";
    case MessageType::kLeave:
      return "leave";
    case MessageType::kDirectoryUpdate:
      return "directory update";
    case MessageType::kDirectoryUpdateReply:
      return "directory update reply";
    case MessageType::kDirectoryLookup:
      return "directory lookup";
    case MessageType::kDirectoryLookupReply:
      return "directory lookup reply";
    case MessageType::kReportMissing:
      return "report missing";
    case MessageType::kTouch:
      return "touch";
    case MessageType::kReportBadPayload:
      return "report bad payload";
    case MessageType::kAck:
      return "ack";
    case MessageType::kErrorReply:
      return "error reply";
  }
  return "unknown message";
}

const char* to_string(UpdateOutcome outcome) noexcept {
  switch (outcome) {
    case UpdateOutcome::kApplied:
      return "applied";
    case UpdateOutcome::kAppliedDropped:
      return "applied, another record dropped";
    case UpdateOutcome::kStaleSequence:
      return "stale sequence";
    case UpdateOutcome::kNotFound:
      return "not found";
    case UpdateOutcome::kNotOwner:
      return "not the owner";
    case UpdateOutcome::kUnknownSender:
      return "unknown sender";
    case UpdateOutcome::kBadRecord:
      return "bad record";
    case UpdateOutcome::kStaleUpdate:
      return "stale update";
    case UpdateOutcome::kNotHolder:
      return "not a holder";
  }
  return "unknown outcome";
}

std::string check_terms(const ClusterTerms& mine, const ClusterTerms& theirs) {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  if (mine.cluster_name != theirs.cluster_name) {
    return differs("cluster_name", "\"" + mine.cluster_name + "\"",
                   "\"" + theirs.cluster_name + "\"");
  }
  if (mine.wire_version_id != theirs.wire_version_id) {
    return differs("wire version", number(mine.wire_version_id), number(theirs.wire_version_id));
  }
  if (mine.hash_version_id != theirs.hash_version_id) {
    return differs("hash version", number(mine.hash_version_id), number(theirs.hash_version_id));
  }
  if (mine.vnodes_count != theirs.vnodes_count) {
    return differs("vnodes", number(mine.vnodes_count), number(theirs.vnodes_count));
  }
  if (mine.replicas_count != theirs.replicas_count) {
    return differs("directory_replicas", number(mine.replicas_count),
                   number(theirs.replicas_count));
  }
  if (mine.member_ttl_ms != theirs.member_ttl_ms) {
    return differs("member_ttl_ms", number(mine.member_ttl_ms), number(theirs.member_ttl_ms));
  }
  return {};
}

bool same_bytes(const Location& a, const Location& b) noexcept {
  return std::memcmp(&a, &b, sizeof(Location)) == 0;
}

bool same_bytes(const std::vector<Location>& a, const std::vector<Location>& b) noexcept {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Location)) == 0);
}

}  // namespace peercache
