#include "controlplane/wire/message_codec.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/base/limits.h"
#include "tests/controlplane/wire/message_samples.h"

namespace peercache {
namespace {

using test::golden_name;
using test::message_locations;
using test::sample_messages;

std::vector<std::byte> read_golden(const std::string& name) {
  std::ifstream file(std::string(PC_GOLDEN_DIR) + "/" + name + ".bin", std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file),
                                std::istreambuf_iterator<char>()};
  const auto* data = reinterpret_cast<const std::byte*>(chars.data());
  return {data, data + chars.size()};
}

Errc encode_error(const Message& message) {
  const Result<std::vector<std::byte>> bytes = encode_message(message);
  REQUIRE_FALSE(bytes.has_value());
  return bytes.error().code;
}

/// A new message has no golden file yet: leaves one in golden-found/, to be looked at and copied.
void leave_golden(const Message& message) {
  const Result<std::vector<std::byte>> bytes = encode_message(message);
  REQUIRE(bytes.has_value());
  std::filesystem::create_directory("golden-found");
  std::ofstream("golden-found/" + golden_name(message) + ".bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes->data()),
             static_cast<std::streamsize>(bytes->size()));
}

TEST_CASE("messages: golden bytes decode to what they always meant", "[unit]") {
  for (const Message& message : sample_messages()) {
    const std::vector<std::byte> golden = read_golden(golden_name(message));
    if (golden.empty()) leave_golden(message);
    INFO("golden file " << golden_name(message));
    const Result<Message> decoded = decode_message(type_of(message), golden);
    CHECK(decoded.has_value());
    if (decoded) CHECK(*decoded == message);
  }
}

TEST_CASE("messages: every type survives a round trip, also empty and full", "[unit]") {
  std::vector<Message> messages = sample_messages();
  messages.emplace_back(HelloMessage{});
  messages.emplace_back(DirectoryUpdateMessage{});
  messages.emplace_back(DirectoryLookupReplyMessage{});
  DirectoryUpdateMessage full;
  full.puts = message_locations(message_limits::kRecordsMax);
  full.deletes = message_locations(message_limits::kRecordsMax);
  messages.emplace_back(full);
  DirectoryLookupReplyMessage reply;
  reply.counts.assign(message_limits::kRecordsMax, limits::kLocationsPerKey);
  reply.locations = message_locations(message_limits::kRecordsMax * limits::kLocationsPerKey);
  messages.emplace_back(reply);
  HelloReplyMessage wordy;
  wordy.refusal.assign(message_limits::kTextBytesMax, 'x');
  messages.emplace_back(wordy);
  for (const Message& message : messages) {
    INFO(to_string(type_of(message)));
    const Result<std::vector<std::byte>> bytes = encode_message(message);
    REQUIRE(bytes.has_value());
    REQUIRE(bytes->size() <= message_limits::kBodyBytesMax);
    const Result<Message> decoded = decode_message(type_of(message), *bytes);
    REQUIRE(decoded.has_value());
    REQUIRE(*decoded == message);
  }
}

TEST_CASE("messages: an encoder refuses what a decoder would", "[unit]") {
  HelloMessage hello;
  hello.identity.node_name.assign(message_limits::kTextBytesMax + 1, 'x');
  REQUIRE(encode_error(hello) == Errc::kBadLength);
  DirectoryUpdateMessage update;
  update.puts = message_locations(message_limits::kRecordsMax + 1);
  REQUIRE(encode_error(update) == Errc::kBadLength);
  DirectoryLookupReplyMessage reply{{2}, message_locations(1)};
  REQUIRE(encode_error(reply) == Errc::kBadLength);
  TouchMessage touch;
  touch.keys.resize(message_limits::kRecordsMax + 1);
  REQUIRE(encode_error(touch) == Errc::kBadLength);
}

TEST_CASE("messages: a body of another type than its frame says is refused", "[unit]") {
  for (const Message& message : sample_messages()) {
    const std::vector<std::byte> bytes = *encode_message(message);
    const auto own = static_cast<uint16_t>(type_of(message));
    for (uint16_t type = 0; type <= 16; ++type) {
      if (type == own) continue;
      const Result<Message> decoded = decode_message(static_cast<MessageType>(type), bytes);
      REQUIRE_FALSE(decoded.has_value());
      REQUIRE(decoded.error().code == Errc::kBadEnum);
    }
  }
}

TEST_CASE("messages: truncated, lengthened and unaligned bytes are handled", "[unit]") {
  for (const Message& message : sample_messages()) {
    const std::vector<std::byte> bytes = *encode_message(message);
    for (size_t length = 0; length < bytes.size(); ++length) {
      // A cut is refused, or it took nothing that the message needs: never a crash, never another
      // meaning.
      const Result<Message> decoded =
          decode_message(type_of(message), std::span(bytes.data(), length));
      if (decoded) REQUIRE(*decoded == message);
    }
    std::vector<std::byte> moved(bytes.size() + 1);
    std::copy(bytes.begin(), bytes.end(), moved.begin() + 1);
    const Result<Message> decoded = decode_message(type_of(message), std::span(moved).subspan(1));
    REQUIRE(decoded.has_value());
    REQUIRE(*decoded == message);
  }
  const std::vector<std::byte> huge(message_limits::kBodyBytesMax + 1);
  REQUIRE(decode_message(MessageType::kAck, huge).error().code == Errc::kBadLength);
}

TEST_CASE("messages: flipped bits never crash, and limits hold in whatever decodes", "[unit]") {
  std::mt19937_64 random(20240611);
  for (const Message& message : sample_messages()) {
    const std::vector<std::byte> good = *encode_message(message);
    for (int round = 0; round < 2000; ++round) {
      std::vector<std::byte> bad = good;
      for (int flips = 0; flips < 3; ++flips) {
        bad[random() % bad.size()] ^= static_cast<std::byte>(1U << (random() % 8));
      }
      const Result<Message> decoded = decode_message(type_of(message), bad);
      if (!decoded) continue;
      if (const auto* update = std::get_if<DirectoryUpdateMessage>(&*decoded)) {
        REQUIRE(update->puts.size() <= message_limits::kRecordsMax);
      }
      REQUIRE(encode_message(*decoded).has_value());
    }
  }
}

TEST_CASE("messages: a difference in the terms names the field and both values", "[unit]") {
  const ClusterTerms mine = test::sample_terms();
  REQUIRE(check_terms(mine, mine).empty());
  ClusterTerms theirs = mine;
  theirs.vnodes_count = 32;
  REQUIRE(check_terms(mine, theirs) == "vnodes differs: 160 here, 32 there");
  theirs = mine;
  theirs.cluster_name = "b";
  REQUIRE(check_terms(mine, theirs) == "cluster_name differs: \"cluster-a\" here, \"b\" there");
  theirs = mine;
  theirs.wire_version_id = 2;
  REQUIRE(check_terms(mine, theirs) == "wire version differs: 1 here, 2 there");
  theirs = mine;
  theirs.hash_version_id = 2;
  REQUIRE(check_terms(mine, theirs) == "hash version differs: 1 here, 2 there");
  theirs = mine;
  theirs.replicas_count = 3;
  REQUIRE(check_terms(mine, theirs) == "directory_replicas differs: 2 here, 3 there");
  theirs = mine;
  theirs.member_ttl_ms = 1;
  REQUIRE(check_terms(mine, theirs) == "member_ttl_ms differs: 6000 here, 1 there");
}

TEST_CASE("messages: texts with control characters are refused", "[unit]") {
  HelloMessage hello;
  hello.identity.node_name = "a\nerror: forged log line";
  const Result<Message> decoded = decode_message(MessageType::kHello, *encode_message(hello));
  REQUIRE_FALSE(decoded.has_value());
  REQUIRE(decoded.error().code == Errc::kOutOfRange);
}

}  // namespace
}  // namespace peercache
