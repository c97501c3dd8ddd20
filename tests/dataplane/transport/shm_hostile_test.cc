// What a peer can do that is no node of ours: any bytes, any descriptors, and silence.

#include <cstring>
#include <deque>
#include <fcntl.h>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/transport/shm/shm_frame.h"
#include "dataplane/transport/shm/shm_socket.h"
#include "tests/dataplane/transport/shm_test_node.h"
#include "tests/support/temp_dir.h"

namespace peercache {
namespace {

using namespace testing;

constexpr Nanos kNow{1'000'000'000};

TestNodeOptions in(const TempDir& temp, uint64_t id) {
  TestNodeOptions options;
  options.id = id;
  options.shm.runtime_dir = temp.path();
  return options;
}

Hello hello_of(uint64_t id, const std::vector<RegionDescriptor>& regions = {}) {
  Hello hello;
  hello.node = NodeId(id);
  hello.incarnation = Incarnation(1);
  hello.node_name = "raw";
  hello.cluster_name = "test";
  hello.inflight_max_count = 1;
  hello.regions = regions;
  return hello;
}

std::vector<std::byte> hello_frame(const Hello& hello) {
  std::vector<std::byte> bytes;
  append_shm_frame(bytes, ShmFrameKind::kHello, 0, encode_hello(hello));
  return bytes;
}

// The other end of a connection, driven by hand.
struct Raw {
  explicit Raw(UniqueFd socket) : fd(std::move(socket)) {}

  void send(std::span<const std::byte> bytes, std::span<const int> with = {}) {
    REQUIRE(send_some(fd.get(), bytes, with).bytes == bytes.size());
  }
  // What has arrived; `ended` when the endpoint has closed.
  void receive() {
    std::vector<std::byte> room(1 << 16);
    bool lost = false;
    for (;;) {
      const IoResult result = receive_some(fd.get(), room, fds, lost);
      if (result.outcome == IoOutcome::kBlocked) {
        return;
      }
      if (result.outcome == IoOutcome::kEnded) {
        ended = true;
        return;
      }
      in.insert(in.end(), room.begin(), room.begin() + static_cast<long>(result.bytes));
    }
  }
  // The reason, if the last frame is a refusal.
  std::string refusal() {
    std::span<const std::byte> rest(in);
    std::string reason;
    size_t need = 0;
    while (!rest.empty()) {
      const auto frame = std::move(parse_shm_frame(rest, need)).value();
      if (!frame) {
        break;
      }
      reason = frame->header.kind == ShmFrameKind::kRefused ? parse_refusal(*frame) : "";
      rest = rest.subspan(frame->frame_bytes);
    }
    return reason;
  }

  UniqueFd fd;
  std::vector<std::byte> in;
  std::deque<UniqueFd> fds;
  bool ended = false;
};

Raw connect_raw(const TestNode& node) {
  return Raw(std::move(connect_unix(node.endpoint->socket_path())).value());
}

bool until_ended(TestNode& node, Raw& raw, Nanos now = kNow) {
  return run_until({node.endpoint.get()}, now, [&] {
    raw.receive();
    return raw.ended;
  });
}

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

// An acceptor driven by hand, to which `node` connects.
struct RawAcceptor {
  explicit RawAcceptor(const TempDir& temp)
      : listening(std::move(listen_unix(temp.path(), "pc-raw.sock", 8)).value()) {}

  Raw accept(TestNode& node) {
    node.endpoint->connect("pc-raw.sock", 1, kNow).value();
    node.endpoint->poll_once(kNow);
    return Raw(
        UniqueFd(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
  }
  UniqueFd listening;
};

RegionDescriptor writable_region(uint16_t index, uint64_t bytes) {
  RegionDescriptor region{};
  region.region = RegionIndex(index);
  region.kind = RegionKind::kWritable;
  region.length_bytes = bytes;
  return region;
}

std::vector<std::byte> fds_frame(uint32_t first_index, uint16_t count) {
  std::vector<std::byte> bytes;
  append_payload(bytes, ShmFrameKind::kRegionFds, count, ShmRegionFds{first_index, 0});
  return bytes;
}

TEST_CASE("shm connector: memory that is unsealed, short, sparse or missing is refused", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  RawAcceptor acceptor(temp);
  Raw raw = acceptor.accept(node);
  const auto good = TestNode::make(64_KiB);
  const UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(unsealed.get(), 65536) == 0);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<int> one{good->fd()};
  const std::vector<int> two{good->fd(), good->fd()};
  Errc wanted = Errc::kBadLength;
  raw.send(hello_frame(hello_of(9, {writable_region(0, 65536)})));
  SECTION("unsealed") {
    raw.send(fds_frame(0, 1), std::vector<int>{unsealed.get()});
    wanted = Errc::kPermission;
  }
  SECTION("not memory") {
    raw.send(fds_frame(0, 1), std::vector<int>{null.get()});
    wanted = Errc::kPermission;
  }
  SECTION("of another length") {
    const auto small = TestNode::make(60_KiB);
    raw.send(fds_frame(0, 1), std::vector<int>{small->fd()});
  }
  SECTION("announced but not sent") {
    raw.send(fds_frame(0, 1));
    wanted = Errc::kTruncated;
  }
  SECTION("of another region") { raw.send(fds_frame(1, 1), one); }
  SECTION("one too many announced") { raw.send(fds_frame(0, 2), two); }
  SECTION("one too many sent") { raw.send(fds_frame(0, 1), two); }
  REQUIRE(run_until({node.endpoint.get()}, kNow, [&] { return node.listener.errors.size() == 1; }));
  INFO(to_string(node.listener.errors[0]));
  REQUIRE(node.listener.errors[0].code == wanted);
  REQUIRE(until_ended(node, raw));
  REQUIRE_FALSE(raw.refusal().empty());
  REQUIRE(node.listener.up.empty());
  REQUIRE(node.endpoint->counters().mapped_bytes.value() == 0);
}

TEST_CASE("shm connector: a region table that contradicts itself is refused", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  RawAcceptor acceptor(temp);
  Raw raw = acceptor.accept(node);
  SECTION("twice the same index") {
    raw.send(hello_frame(hello_of(9, {writable_region(0, 4096), writable_region(0, 4096)})));
  }
  SECTION("index too large") { raw.send(hello_frame(hello_of(9, {writable_region(64, 4096)}))); }
  SECTION("our own node") { raw.send(hello_frame(hello_of(1))); }
  SECTION("noise") { raw.send(std::vector<std::byte>(100, std::byte{0xAB})); }
  SECTION("a frame of the wrong moment") {
    raw.send(fds_frame(0, 1), std::vector<int>{raw.fd.get()});
  }
  REQUIRE(run_until({node.endpoint.get()}, kNow, [&] { return node.listener.errors.size() == 1; }));
  REQUIRE(until_ended(node, raw));
  REQUIRE(node.listener.up.empty());
}

TEST_CASE("shm connector: an acceptor that ends or stalls during the handshake is a refusal",
          "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  RawAcceptor acceptor(temp);
  Raw raw = acceptor.accept(node);
  SECTION("before its hello") { raw.fd.reset(); }
  SECTION("after its hello") {
    raw.send(hello_frame(hello_of(9, {writable_region(0, 4096)})));
    node.endpoint->poll_once(kNow);
    raw.fd.reset();
  }
  SECTION("stalls with regions missing") {
    raw.send(hello_frame(hello_of(9, {writable_region(0, 4096)})));
    node.endpoint->poll_once(kNow);
    node.endpoint->poll_once(kNow + std::chrono::milliseconds(1001));
  }
  REQUIRE(run_until({node.endpoint.get()}, kNow, [&] { return node.listener.errors.size() == 1; }));
  REQUIRE(node.listener.refused_cookies[0] == 1);
}

TEST_CASE("shm connector: an open peer that breaks the rules is down", "[unit]") {
  const TempDir temp;
  TestNode node(in(temp, 1));
  RawAcceptor acceptor(temp);
  Raw raw = acceptor.accept(node);
  const auto memory = TestNode::make(4_KiB);
  raw.send(hello_frame(hello_of(9, {writable_region(0, 4096)})));
  raw.send(fds_frame(0, 1), std::vector<int>{memory->fd()});
  REQUIRE(run_until({node.endpoint.get()}, kNow, [&] { return node.listener.up.size() == 1; }));
  REQUIRE(node.endpoint->counters().mapped_bytes.value() == 4096);
  auto client = std::move(ShmTransport::open(*node.endpoint, nullptr)).value();
  std::vector<std::byte> source(100, std::byte{1});
  const std::vector<LocalPiece> piece{{source.data(), 100, LocalKey(0)}};
  const WorkRequest write =
      make_request(OpKind::kWrite, node.listener.up[0], RegionIndex(0), 0, piece, 0);
  REQUIRE(client->post({&write, 1}) == 1);
  client->flush();
  node.endpoint->poll_once(kNow);
  OpStatus status = OpStatus::kPeerLost;
  std::vector<std::byte> bytes;
  SECTION("an answer to what it was never asked is ignored, noise is not") {
    append_payload(bytes, ShmFrameKind::kWriteDone, 0, ShmWriteDone{999, OpStatus::kOk, {}});
    raw.send(bytes);
    node.endpoint->poll_once(kNow);
    REQUIRE(node.listener.down.empty());
    raw.send(std::vector<std::byte>(100, std::byte{0xAB}));
  }
  SECTION("a refusal after it was accepted") {
    append_refusal(bytes, "changed my mind");
    raw.send(bytes);
  }
  SECTION("the end") { raw.fd.reset(); }
  REQUIRE(run_until({node.endpoint.get()}, kNow, [&] { return node.listener.down.size() == 1; }));
  Completion completion{};
  REQUIRE(client->poll({&completion, 1}) == 1);
  REQUIRE(completion.status == status);
  REQUIRE(run_until({node.endpoint.get()}, kNow,
                    [&] { return !node.endpoint->table().has_retired(); }));
  REQUIRE(node.endpoint->counters().mapped_bytes.value() == 0);
}

}  // namespace
}  // namespace peercache
