#include "controlplane/wire/message_codec.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "controlplane/wire/messages_generated.h"
#include "dataplane/base/limits.h"

namespace peercache {

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using ByteVector = flatbuffers::Vector<uint8_t>;

// --- encode ------------------------------------------------------------------------------------

Result<void> check_text(const std::string& text) {
  if (text.size() > message_limits::kTextBytesMax) {
    return make_error(Errc::kBadLength, "text of {} bytes in a message, at most {}", text.size(),
                      message_limits::kTextBytesMax);
  }
  return {};
}

Result<void> check_count(size_t count) {
  if (count > message_limits::kRecordsMax) {
    return make_error(Errc::kBadLength, "{} records or keys in a message, at most {}", count,
                      message_limits::kRecordsMax);
  }
  return {};
}

template <class Item>
Offset<ByteVector> put_items(FlatBufferBuilder& builder, const std::vector<Item>& items) {
  return builder.CreateVector(reinterpret_cast<const uint8_t*>(items.data()),
                              items.size() * sizeof(Item));
}

Offset<fb::Terms> put(FlatBufferBuilder& builder, const ClusterTerms& terms) {
  return fb::CreateTerms(builder, builder.CreateString(terms.cluster_name), terms.wire_version_id,
                         terms.hash_version_id, terms.vnodes_count, terms.replicas_count,
                         terms.member_ttl_ms);
}

Offset<fb::Identity> put(FlatBufferBuilder& builder, const NodeIdentity& identity) {
  const auto name = builder.CreateString(identity.node_name);
  const auto host = builder.CreateString(identity.host_id);
  const auto address = builder.CreateString(identity.control_address);
  const auto shm = builder.CreateString(identity.shm_path);
  return fb::CreateIdentity(builder, name, identity.node.value(), identity.incarnation.value(),
                            host, address, shm);
}

/// What encode refuses, one overload per message with texts or vectors.
Result<void> check(const ClusterTerms& terms, const NodeIdentity& identity) {
  for (const std::string* text : {&terms.cluster_name, &identity.node_name, &identity.host_id,
                                  &identity.control_address, &identity.shm_path}) {
    PC_TRY(check_text(*text));
  }
  return {};
}
Result<void> check(const HelloMessage& m) { return check(m.terms, m.identity); }
Result<void> check(const HelloReplyMessage& m) {
  PC_TRY(check_text(m.refusal));
  return check(m.terms, m.identity);
}
Result<void> check(const DirectoryUpdateMessage& m) {
  PC_TRY(check_count(m.deletes.size()));
  return check_count(m.puts.size());
}
Result<void> check(const DirectoryUpdateReplyMessage& m) {
  return check_count((m.outcomes.size() + 1) / 2);
}
Result<void> check(const DirectoryLookupMessage& m) { return check_count(m.keys.size()); }
Result<void> check(const DirectoryLookupReplyMessage& m) {
  PC_TRY(check_count(m.counts.size()));
  size_t locations_count = 0;
  for (const uint8_t count : m.counts) locations_count += count;
  if (locations_count != m.locations.size() ||
      locations_count > m.counts.size() * limits::kLocationsPerKey) {
    return make_error(Errc::kBadLength, "lookup reply with {} locations for {} keys, counts say {}",
                      m.locations.size(), m.counts.size(), locations_count);
  }
  return {};
}
Result<void> check(const ReportMissingMessage& m) { return check_count(m.locations.size()); }
Result<void> check(const TouchMessage& m) { return check_count(m.keys.size()); }
Result<void> check(const ReportBadPayloadMessage& m) { return check_count(m.locations.size()); }
template <class Other>
Result<void> check(const Other&) {
  return {};
}

Offset<void> body(FlatBufferBuilder& b, const HelloMessage& m) {
  const auto terms = put(b, m.terms);
  return fb::CreateHello(b, terms, put(b, m.identity)).Union();
}
Offset<void> body(FlatBufferBuilder& b, const HelloReplyMessage& m) {
  const auto terms = put(b, m.terms);
  const auto identity = put(b, m.identity);
  return fb::CreateHelloReply(b, terms, identity, b.CreateString(m.refusal)).Union();
}
Offset<void> body(FlatBufferBuilder& b, const HeartbeatMessage& m) {
  return fb::CreateHeartbeat(b, m.node.value(), m.incarnation.value()).Union();
}
Offset<void> body(FlatBufferBuilder& b, const HeartbeatReplyMessage& m) {
  return fb::CreateHeartbeatReply(b, m.node.value(), m.incarnation.value(), m.known, m.purged_count)
      .Union();
}
Offset<void> body(FlatBufferBuilder& b, const LeaveMessage& m) {
  return fb::CreateLeave(b, m.node.value(), m.incarnation.value()).Union();
}
Offset<void> body(FlatBufferBuilder& b, const DirectoryUpdateMessage& m) {
  const auto deletes = put_items(b, m.deletes);
  const auto puts = put_items(b, m.puts);
  return fb::CreateDirectoryUpdate(b, m.sender.value(), m.incarnation.value(), m.view_epoch.value(),
                                   m.update_id, deletes, puts)
      .Union();
}
Offset<void> body(FlatBufferBuilder& b, const DirectoryUpdateReplyMessage& m) {
  const auto outcomes = put_items(b, m.outcomes);
  return fb::CreateDirectoryUpdateReply(b, m.update_id, outcomes, m.records_count, m.dropped_count)
      .Union();
}
Offset<void> body(FlatBufferBuilder& b, const DirectoryLookupMessage& m) {
  return fb::CreateDirectoryLookup(b, put_items(b, m.keys)).Union();
}
Offset<void> body(FlatBufferBuilder& b, const DirectoryLookupReplyMessage& m) {
  const auto counts = put_items(b, m.counts);
  return fb::CreateDirectoryLookupReply(b, counts, put_items(b, m.locations)).Union();
}
Offset<void> body(FlatBufferBuilder& b, const ReportMissingMessage& m) {
  return fb::CreateReportMissing(b, put_items(b, m.locations)).Union();
}
Offset<void> body(FlatBufferBuilder& b, const TouchMessage& m) {
  return fb::CreateTouch(b, put_items(b, m.keys)).Union();
}
Offset<void> body(FlatBufferBuilder& b, const ReportBadPayloadMessage& m) {
  return fb::CreateReportBadPayload(b, put_items(b, m.locations)).Union();
}
Offset<void> body(FlatBufferBuilder& b, const AckMessage&) { return fb::CreateAck(b).Union(); }
Offset<void> body(FlatBufferBuilder& b, const ErrorReplyMessage& m) {
  return fb::CreateErrorReply(b, static_cast<uint16_t>(m.code)).Union();
}

// --- decode ------------------------------------------------------------------------------------

/// A missing text is an empty one. Control characters are refused: these texts are logged.
Result<void> get(const flatbuffers::String* from, std::string& to) {
  to.clear();
  if (from == nullptr) return {};
  if (from->size() > message_limits::kTextBytesMax) {
    return make_error(Errc::kBadLength, "text of {} bytes in a message, at most {}", from->size(),
                      message_limits::kTextBytesMax);
  }
  for (const char c : *from) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7f) {
      return make_error(Errc::kOutOfRange, "control character {} in a text of a message", code);
    }
  }
  to.assign(from->c_str(), from->size());
  return {};
}

template <class Item>
Result<void> get(const ByteVector* from, std::vector<Item>& to, size_t count_max) {
  static_assert(std::is_trivially_copyable_v<Item>);
  to.clear();
  if (from == nullptr || from->size() == 0) return {};
  if (from->size() % sizeof(Item) != 0 || from->size() / sizeof(Item) > count_max) {
    return make_error(Errc::kBadLength, "{} bytes in a message for items of {}, at most {} items",
                      from->size(), sizeof(Item), count_max);
  }
  to.resize(from->size() / sizeof(Item));
  std::memcpy(static_cast<void*>(to.data()), from->data(), from->size());
  return {};
}

template <class Item>
Result<void> get(const ByteVector* from, std::vector<Item>& to) {
  return get(from, to, message_limits::kRecordsMax);
}

Result<void> get(const fb::Terms* from, ClusterTerms& to) {
  if (from == nullptr) return make_error(Errc::kTruncated, "hello without terms");
  PC_TRY(get(from->cluster_name(), to.cluster_name));
  to.wire_version_id = from->wire_version_id();
  to.hash_version_id = from->hash_version_id();
  to.vnodes_count = from->vnodes_count();
  to.replicas_count = from->replicas_count();
  to.member_ttl_ms = from->member_ttl_ms();
  return {};
}

Result<void> get(const fb::Identity* from, NodeIdentity& to) {
  if (from == nullptr) return make_error(Errc::kTruncated, "hello without an identity");
  PC_TRY(get(from->node_name(), to.node_name));
  PC_TRY(get(from->host_id(), to.host_id));
  PC_TRY(get(from->control_address(), to.control_address));
  PC_TRY(get(from->shm_path(), to.shm_path));
  to.node = NodeId(from->node_id());
  to.incarnation = Incarnation(from->incarnation_id());
  return {};
}

Result<Message> decode(const fb::Hello& from) {
  HelloMessage to;
  PC_TRY(get(from.terms(), to.terms));
  PC_TRY(get(from.identity(), to.identity));
  return Message(std::move(to));
}
Result<Message> decode(const fb::HelloReply& from) {
  HelloReplyMessage to;
  PC_TRY(get(from.terms(), to.terms));
  PC_TRY(get(from.identity(), to.identity));
  PC_TRY(get(from.refusal(), to.refusal));
  return Message(std::move(to));
}
Result<Message> decode(const fb::Heartbeat& from) {
  return Message(HeartbeatMessage{NodeId(from.node_id()), Incarnation(from.incarnation_id())});
}
Result<Message> decode(const fb::HeartbeatReply& from) {
  return Message(HeartbeatReplyMessage{NodeId(from.node_id()), Incarnation(from.incarnation_id()),
                                       from.known(), from.purged_count()});
}
Result<Message> decode(const fb::Leave& from) {
  return Message(LeaveMessage{NodeId(from.node_id()), Incarnation(from.incarnation_id())});
}
Result<Message> decode(const fb::DirectoryUpdate& from) {
  DirectoryUpdateMessage to;
  to.sender = NodeId(from.sender_id());
  to.incarnation = Incarnation(from.incarnation_id());
  to.view_epoch = Epoch(from.view_epoch());
  to.update_id = from.update_id();
  PC_TRY(get(from.deletes(), to.deletes));
  PC_TRY(get(from.puts(), to.puts));
  return Message(std::move(to));
}
Result<Message> decode(const fb::DirectoryUpdateReply& from) {
  DirectoryUpdateReplyMessage to;
  to.update_id = from.update_id();
  to.records_count = from.records_count();
  to.dropped_count = from.dropped_count();
  std::vector<uint8_t> outcomes;
  PC_TRY(get(from.outcomes(), outcomes, 2 * message_limits::kRecordsMax));
  to.outcomes.reserve(outcomes.size());
  for (const uint8_t outcome : outcomes) {
    if (outcome > kUpdateOutcomeLast) {
      return make_error(Errc::kBadEnum, "update outcome {} in a message", outcome);
    }
    to.outcomes.push_back(static_cast<UpdateOutcome>(outcome));
  }
  return Message(std::move(to));
}
Result<Message> decode(const fb::DirectoryLookup& from) {
  DirectoryLookupMessage to;
  PC_TRY(get(from.keys(), to.keys));
  return Message(std::move(to));
}
Result<Message> decode(const fb::DirectoryLookupReply& from) {
  DirectoryLookupReplyMessage to;
  PC_TRY(get(from.counts(), to.counts));
  PC_TRY(
      get(from.locations(), to.locations, message_limits::kRecordsMax * limits::kLocationsPerKey));
  for (const uint8_t count : to.counts) {
    if (count > limits::kLocationsPerKey) {
      return make_error(Errc::kOutOfRange, "{} locations of one key in a lookup reply", count);
    }
  }
  PC_TRY(check(to));
  return Message(std::move(to));
}
Result<Message> decode(const fb::ReportMissing& from) {
  ReportMissingMessage to;
  PC_TRY(get(from.locations(), to.locations));
  return Message(std::move(to));
}
Result<Message> decode(const fb::Touch& from) {
  TouchMessage to;
  PC_TRY(get(from.keys(), to.keys));
  return Message(std::move(to));
}
Result<Message> decode(const fb::ReportBadPayload& from) {
  ReportBadPayloadMessage to;
  PC_TRY(get(from.locations(), to.locations));
  return Message(std::move(to));
}
Result<Message> decode(const fb::Ack&) { return Message(AckMessage{}); }
Result<Message> decode(const fb::ErrorReply& from) {
  return Message(ErrorReplyMessage{static_cast<Errc>(from.code_id())});
}

Result<Message> decode_envelope(const fb::Envelope& envelope) {
  switch (envelope.body_type()) {
    case fb::Body::Hello:
      return decode(*envelope.body_as_Hello());
    case fb::Body::HelloReply:
      return decode(*envelope.body_as_HelloReply());
    case fb::Body::Heartbeat:
      return decode(*envelope.body_as_Heartbeat());
    case fb::Body::HeartbeatReply:
      return decode(*envelope.body_as_HeartbeatReply());
    case fb::Body::Leave:
      return decode(*envelope.body_as_Leave());
    case fb::Body::DirectoryUpdate:
      return decode(*envelope.body_as_DirectoryUpdate());
    case fb::Body::DirectoryUpdateReply:
      return decode(*envelope.body_as_DirectoryUpdateReply());
    case fb::Body::DirectoryLookup:
      return decode(*envelope.body_as_DirectoryLookup());
    case fb::Body::DirectoryLookupReply:
      return decode(*envelope.body_as_DirectoryLookupReply());
    case fb::Body::ReportMissing:
      return decode(*envelope.body_as_ReportMissing());
    case fb::Body::Touch:
      return decode(*envelope.body_as_Touch());
    case fb::Body::ReportBadPayload:
      return decode(*envelope.body_as_ReportBadPayload());
    case fb::Body::Ack:
      return decode(*envelope.body_as_Ack());
    case fb::Body::ErrorReply:
      return decode(*envelope.body_as_ErrorReply());
    case fb::Body::NONE:
      break;
  }
  return make_error(Errc::kBadEnum, "message body of type {}", envelope.body_type());
}

static_assert(static_cast<int>(fb::Body::MAX) == static_cast<int>(MessageType::kErrorReply));

}  // namespace

Result<std::vector<std::byte>> encode_message(const Message& message) {
  FlatBufferBuilder builder;
  Result<void> checked;
  std::visit(
      [&](const auto& m) {
        checked = check(m);
        if (!checked) return;
        const Offset<void> inner = body(builder, m);
        fb::FinishEnvelopeBuffer(
            builder, fb::CreateEnvelope(builder, static_cast<fb::Body>(type_of(message)), inner));
      },
      message);
  PC_TRY(checked);
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return std::vector<std::byte>(data, data + builder.GetSize());
}

Result<Message> decode_message(MessageType type, std::span<const std::byte> bytes) {
  if (bytes.size() > message_limits::kBodyBytesMax) {
    return make_error(Errc::kBadLength, "message of {} bytes, at most {}", bytes.size(),
                      message_limits::kBodyBytesMax);
  }
  // FlatBuffers reads its words in place. A frame's body has a buffer of its own; anything else is
  // moved to one.
  std::vector<std::byte> aligned;
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(uint64_t) != 0) {
    aligned.assign(bytes.begin(), bytes.end());
    bytes = aligned;
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  // An envelope, its body, terms and identity: four tables, three deep.
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/8, /*max_tables=*/16);
  if (!fb::VerifyEnvelopeBuffer(verifier)) {
    return make_error(Errc::kTruncated, "{} bytes are not a message", bytes.size());
  }
  const fb::Envelope* envelope = fb::GetEnvelope(data);
  // The verifier accepts body types it does not know, and skips a body without a type.
  if (static_cast<uint16_t>(envelope->body_type()) != static_cast<uint16_t>(type)) {
    return make_error(Errc::kBadEnum, "frame says message type {}, its body {}", type,
                      envelope->body_type());
  }
  return decode_envelope(*envelope);
}

}  // namespace peercache
