// What an acceptor can do that is no node of ours: any bytes, any memory, and silence.

#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/transport/shm/shm_transport.h"
#include "tests/dataplane/transport/shm_raw_peer.h"

namespace peercache {
namespace {

using namespace testing;

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
