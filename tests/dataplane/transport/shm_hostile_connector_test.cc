// What a connector can do that is no node of ours: any bytes, any descriptors, and silence.

#include <cstring>
#include <random>
#include <string>
#include <sys/socket.h>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/dataplane/transport/shm_raw_peer.h"

namespace peercache {
namespace {

using namespace testing;

// A connection that has passed the handshake.
Raw open_raw(TestNode& node, uint64_t id = 50) {
  Raw raw = connect_raw(node);
  const uint64_t before = node.endpoint->counters().inbound_open.value();
  std::vector<std::byte> bytes = hello_frame(hello_of(id));
  append_shm_frame(bytes, ShmFrameKind::kAccepted, 0, std::span<const std::byte>());
  raw.send(bytes);
  REQUIRE(run_until({node.endpoint.get()}, kNow,
                    [&] { return node.endpoint->counters().inbound_open.value() == before + 1; }));
  raw.receive();
  raw.in.clear();
  return raw;
}

void send_chunk(Raw& raw, ShmWriteChunk chunk, size_t bytes) {
  std::vector<std::byte> payload(sizeof chunk + bytes, std::byte{0x55});
  std::memcpy(payload.data(), &chunk, sizeof chunk);
  std::vector<std::byte> frame;
  append_shm_frame(frame, ShmFrameKind::kWriteChunk, 0, payload);
  raw.send(frame);
}

TEST_CASE("shm acceptor: noise ends the connection and nothing else", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1)), other(in(temp, 2));
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Raw raw = connect_raw(node);
    std::vector<std::byte> noise(16 + random() % 3000);
    for (std::byte& byte : noise) {
      byte = static_cast<std::byte>(random());
    }
    raw.send(noise);
    REQUIRE(until_ended(node, raw));
  }
  REQUIRE(node.endpoint->counters().protocol_errors.value() == 50);
  connect_pair(other, node);
}

TEST_CASE("shm acceptor: a hello that is cut, damaged or out of order is refused", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  SECTION("damaged") {
    Raw raw = connect_raw(node);
    std::vector<std::byte> bytes = hello_frame(hello_of(50));
    bytes[sizeof(ShmFrameHeader) + 30] ^= std::byte{1};
    raw.send(bytes);
    REQUIRE(until_ended(node, raw));
    REQUIRE(raw.refusal().find("checksum") != std::string::npos);
  }
  SECTION("cut, then the end") {
    Raw raw = connect_raw(node);
    const std::vector<std::byte> bytes = hello_frame(hello_of(50));
    raw.send(std::span(bytes).first(bytes.size() - 5));
    for (int i = 0; i < 5; ++i) {
      node.endpoint->poll_once(kNow);
    }
    REQUIRE(::shutdown(raw.fd.get(), SHUT_WR) == 0);
    REQUIRE(until_ended(node, raw));
  }
  SECTION("twice") {
    Raw raw = connect_raw(node);
    raw.send(hello_frame(hello_of(50)));
    raw.send(hello_frame(hello_of(50)));
    REQUIRE(until_ended(node, raw));
  }
  SECTION("a write before the handshake") {
    Raw raw = connect_raw(node);
    send_chunk(raw, {1, 0, kWritableRegion, 1, 0}, 10);
    REQUIRE(until_ended(node, raw));
    REQUIRE(node.writable->data()[0] == std::byte{0});
  }
  SECTION("an acceptor's frame") {
    Raw raw = open_raw(node);
    std::vector<std::byte> bytes;
    append_payload(bytes, ShmFrameKind::kWriteDone, 0, ShmWriteDone{1, OpStatus::kOk, {}});
    raw.send(bytes);
    REQUIRE(until_ended(node, raw));
  }
  REQUIRE(node.endpoint->counters().inbound_open.value() == 0);
}

TEST_CASE("shm acceptor: one byte at a time is a hello as well", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  Raw raw = connect_raw(node);
  for (const std::byte byte : hello_frame(hello_of(50))) {
    raw.send({&byte, 1});
    node.endpoint->poll_once(kNow);
  }
  raw.receive();
  REQUIRE_FALSE(raw.in.empty());
  REQUIRE(raw.fds.size() == 4);
}

TEST_CASE("shm acceptor: a connection that says nothing is closed after the deadline", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  Raw silent = connect_raw(node);
  Raw half = connect_raw(node);
  const std::vector<std::byte> bytes = hello_frame(hello_of(50));
  half.send(std::span(bytes).first(20));
  Raw answered = connect_raw(node);
  answered.send(bytes);  // and then no kAccepted
  node.endpoint->poll_once(kNow);
  node.endpoint->poll_once(kNow + std::chrono::milliseconds(900));
  silent.receive();
  REQUIRE_FALSE(silent.ended);
  REQUIRE(node.endpoint->next_due(kNow) <= kNow + std::chrono::milliseconds(1000));
  const Nanos later = kNow + std::chrono::milliseconds(1001);
  REQUIRE(until_ended(node, silent, later));
  REQUIRE(until_ended(node, half, later));
  REQUIRE(until_ended(node, answered, later));
  REQUIRE(node.endpoint->counters().timeouts.value() == 3);
}

TEST_CASE("shm acceptor: an open connection may be idle, but not stop in the middle of a frame",
          "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  Raw idle = open_raw(node, 50);
  Raw stalled = open_raw(node, 51);
  const ShmFrameHeader header{kShmFrameMagic, ShmFrameKind::kWriteChunk, 0, 1000, 0};
  stalled.send(std::as_bytes(std::span<const ShmFrameHeader, 1>(&header, 1)));
  node.endpoint->poll_once(kNow);
  REQUIRE(until_ended(node, stalled, kNow + std::chrono::seconds(31)));
  idle.receive();
  REQUIRE_FALSE(idle.ended);
}

TEST_CASE("shm acceptor: descriptors from a connector are refused", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  Raw raw = connect_raw(node);
  const std::vector<int> fds(8, raw.fd.get());
  raw.send(hello_frame(hello_of(50)), fds);
  REQUIRE(until_ended(node, raw));
}

TEST_CASE("shm acceptor: a flood of connections is capped, and one that comes later gets in",
          "[unit]") {
  const TempDir temp;
  TestNodeOptions few = in(temp, 1);
  few.shm.inbound_max_count = 4;
  TestNode node(few);
  std::vector<Raw> raws;
  for (int i = 0; i < 60; ++i) {
    raws.push_back(connect_raw(node));
  }
  for (int i = 0; i < 20; ++i) {
    node.endpoint->poll_once(kNow);
    node.endpoint->check_invariants();
  }
  int open = 0;
  for (Raw& raw : raws) {
    raw.receive();
    open += raw.ended ? 0 : 1;
  }
  REQUIRE(open == 8);  // half-open ones: twice the cap, until their deadline
  raws.clear();
  TestNode other(in(temp, 2));
  for (int i = 0; i < 20; ++i) {
    node.endpoint->poll_once(kNow);
  }
  connect_pair(other, node);
  REQUIRE(other.listener.up.size() == 1);
}

TEST_CASE("shm acceptor: writes out of bounds are answered so and change nothing", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  Raw raw = open_raw(node);
  const uint64_t end = node.writable->length().value();
  const ShmWriteChunk bad[] = {
      {1, end, kWritableRegion, 1, 0},        {2, end - 9, kWritableRegion, 1, 0},
      {3, UINT64_MAX, kWritableRegion, 1, 0}, {4, 0, kPublishedRegion, 1, 0},
      {5, 0, kHeadersRegion, 1, 0},           {6, 0, RegionIndex(63), 1, 0},
      {7, 0, RegionIndex(UINT16_MAX), 1, 0}};
  for (const ShmWriteChunk& chunk : bad) {
    send_chunk(raw, chunk, 10);
  }
  // One bad chunk spoils its request, not the next one.
  send_chunk(raw, {8, end, kWritableRegion, 0, 0}, 10);
  send_chunk(raw, {8, 100, kWritableRegion, 1, 0}, 10);
  send_chunk(raw, {9, 200, kWritableRegion, 1, 0}, 10);
  REQUIRE(run_until({node.endpoint.get()}, kNow, [&] {
    raw.receive();
    return raw.in.size() >= 9 * (sizeof(ShmFrameHeader) + sizeof(ShmWriteDone));
  }));
  std::span<const std::byte> rest(raw.in);
  for (uint64_t id = 1; id <= 9; ++id) {
    size_t need = 0;
    const auto frame = std::move(parse_shm_frame(rest, need)).value().value();
    const auto done = std::move(parse_write_done(frame)).value();
    REQUIRE(done.request_id == id);
    REQUIRE(done.status == (id == 9 ? OpStatus::kOk : OpStatus::kOutOfBounds));
    rest = rest.subspan(frame.frame_bytes);
  }
  REQUIRE(node.writable->data()[100] == std::byte{0});
  REQUIRE(node.writable->data()[200] == std::byte{0x55});
  REQUIRE(count_wrong(region_key(1), node.published->data(), 4096) == 0);
  REQUIRE(node.endpoint->counters().writes_refused.value() == 8);
}

TEST_CASE("shm acceptor: a peer that writes and never reads its answers is dropped", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  Raw raw = open_raw(node);
  std::vector<std::byte> frames;
  std::vector<std::byte> payload(sizeof(ShmWriteChunk) + 1);
  const ShmWriteChunk chunk{1, 0, kWritableRegion, 1, 0};
  std::memcpy(payload.data(), &chunk, sizeof chunk);
  append_shm_frame(frames, ShmFrameKind::kWriteChunk, 0, payload);
  bool dropped = false;
  for (int i = 0; i < 200000 && !dropped; ++i) {
    dropped = send_some(raw.fd.get(), frames, {}).outcome == IoOutcome::kEnded;
    if (i % 50 == 0) {
      node.endpoint->poll_once(kNow);
    }
  }
  REQUIRE(dropped);
  REQUIRE(node.endpoint->counters().inbound_open.value() == 0);
}

}  // namespace
}  // namespace peercache
