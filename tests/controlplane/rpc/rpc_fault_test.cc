// What happens to calls when the other side is slow, frozen, gone, hostile or not there.
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/controlplane/rpc/rpc_bench.h"

namespace peercache {
namespace {

using test::beat;
using test::code_of;
using test::frame_of;
using test::milliseconds;
using test::number_of;
using test::RawSocket;
using test::RpcBench;
using test::seconds;

TEST_CASE("rpc: a call ends at its deadline, and its late reply is dropped", "[unit]") {
  RpcBench bench;
  bench.hold = true;
  const Nanos begin = monotonic_now();
  REQUIRE(code_of(bench.call(beat(1), milliseconds(50))) == Errc::kTimeout);
  REQUIRE(monotonic_now() - begin >= milliseconds(50));
  REQUIRE(bench.client->stats().timeouts_count == 1);
  bench.held[0].send(HeartbeatReplyMessage{NodeId(1), Incarnation(1), true, 0});
  bench.hold = false;
  REQUIRE(number_of(bench.call(beat(2))) == 2);  // the connection is still good
  REQUIRE(bench.client->stats().late_replies_count == 1);
  REQUIRE(bench.client->stats().connects_count == 1);
}

TEST_CASE("rpc: deadlines are kept one by one", "[unit]") {
  RpcBench bench;
  bench.hold = true;
  std::vector<int> order;
  for (const int ms : {90, 30, 60}) {
    bench.client->call(bench.peer, beat(1), milliseconds(ms), [&, ms](Result<Message> reply) {
      REQUIRE(code_of(reply) == Errc::kTimeout);
      order.push_back(ms);
    });
  }
  REQUIRE(bench.run_until([&] { return order.size() == 3; }));
  REQUIRE(order == std::vector<int>{30, 60, 90});
}

TEST_CASE("rpc: a refused connection is known at once, then tried again less and less often",
          "[unit]") {
  RpcClientOptions options;
  options.retry_ms_min = 20;
  options.retry_ms_max = 40;
  RpcBench bench({}, options);
  const std::string address = bench.server->address();
  bench.server->close();
  std::vector<Nanos> took;
  for (int i = 0; i < 4; ++i) {
    const Nanos begin = monotonic_now();
    REQUIRE(code_of(bench.call(beat(1), seconds(5))) == Errc::kConnectRefused);
    took.push_back(monotonic_now() - begin);
  }
  REQUIRE(took[1] >= milliseconds(15));
  REQUIRE(took[2] >= milliseconds(35));
  REQUIRE(took[3] < seconds(2));
  REQUIRE(bench.client->stats().failed_connects_count == 4);
  // A call that waits for its turn still keeps its deadline.
  REQUIRE(code_of(bench.call(beat(1), milliseconds(1))) == Errc::kTimeout);
}

TEST_CASE("rpc: a server that comes back is found again", "[unit]") {
  RpcBench bench;
  REQUIRE(number_of(bench.call(beat(1))) == 1);
  RpcServerOptions options;
  options.port = bench.server->port();
  bench.hold = true;
  std::optional<Errc> code;
  bench.client->call(bench.peer, beat(2), seconds(5),
                     [&](Result<Message> r) { code = code_of(r); });
  REQUIRE(bench.run_until([&] { return bench.held.size() == 1; }));
  bench.server->close();
  REQUIRE(bench.run_until([&] { return code.has_value(); }));
  REQUIRE(*code == Errc::kPeerLost);
  bench.held[0].send(AckMessage{});  // its connection is gone: nothing happens
  bench.hold = false;
  bench.open_server(options);
  REQUIRE(number_of(bench.call(beat(3))) == 3);
  REQUIRE(bench.client->stats().connects_count == 2);
  REQUIRE(bench.client->stats().lost_connections_count == 1);
}

TEST_CASE("rpc: closing the client answers every call", "[unit]") {
  RpcBench bench;
  bench.hold = true;
  std::vector<Errc> codes;
  const auto note = [&](Result<Message> reply) { codes.push_back(code_of(reply)); };
  bench.client->call(bench.peer, beat(1), seconds(5), note);
  REQUIRE(bench.run_until([&] { return bench.held.size() == 1; }));
  bench.client->call(bench.peer, beat(2), seconds(5), note);
  const RpcPeerId elsewhere = *bench.client->add_peer("127.0.0.1:1");
  bench.client->call(elsewhere, beat(3), seconds(5), note);
  SECTION("close") { bench.client->close(); }
  SECTION("destruction") { bench.client.reset(); }
  REQUIRE(codes == std::vector<Errc>(3, Errc::kClosed));  // (C2)
  bench.held.clear();
  bench.loop->run_for(milliseconds(1));
  if (bench.client) {
    bench.client->call(elsewhere, beat(4), seconds(5), note);
    REQUIRE(bench.run_until([&] { return codes.size() == 4; }));
    REQUIRE(codes.back() == Errc::kClosed);
  }
}

TEST_CASE("rpc: removing a peer answers its calls only", "[unit]") {
  RpcBench bench;
  bench.hold = true;
  const RpcPeerId second = *bench.client->add_peer(bench.server->address());
  std::vector<Errc> codes;
  bench.client->call(second, beat(1), seconds(5),
                     [&](Result<Message> r) { codes.push_back(code_of(r)); });
  std::optional<uint64_t> number;
  bench.client->call(bench.peer, beat(2), seconds(5),
                     [&](Result<Message> r) { number = number_of(r); });
  REQUIRE(bench.run_until([&] { return bench.held.size() == 2; }));
  bench.client->remove_peer(second);
  bench.client->remove_peer(second);
  REQUIRE(codes == std::vector<Errc>{Errc::kClosed});
  for (RpcReply& reply : bench.held) {
    reply.send(HeartbeatReplyMessage{NodeId(9), Incarnation(1), true, 0});
  }
  REQUIRE(bench.run_until([&] { return number.has_value(); }));
}

TEST_CASE("rpc: callbacks may call, reset and close", "[unit]") {
  RpcBench bench;
  int rounds = 0;
  RpcReplyFn again = [&](Result<Message>) {
    if (++rounds < 5) {
      bench.client->call(bench.peer, beat(1), seconds(5), again);
      if (rounds == 2) bench.client->reset(bench.peer);
    } else {
      bench.client->close();
    }
  };
  bench.client->call(bench.peer, beat(1), seconds(5), again);
  REQUIRE(bench.run_until([&] { return rounds == 5; }));
}

// A process that is stopped: its kernel accepts, nobody reads.
TEST_CASE("rpc: a frozen peer costs each call its deadline, and is connected anew", "[unit]") {
  RpcClientOptions options;
  options.half_open_ms = 100;
  options.send_queue_bytes_max = 4U << 20;
  RpcBench bench({}, options);
  const RawSocket frozen = RawSocket::listen();
  bench.peer = *bench.client->add_peer(frozen.address());
  REQUIRE(code_of(bench.call(beat(1), milliseconds(30))) == Errc::kTimeout);
  REQUIRE(bench.client->connected(bench.peer));
  REQUIRE(code_of(bench.call(beat(2), milliseconds(150))) == Errc::kTimeout);
  REQUIRE(bench.client->stats().lost_connections_count == 1);
  REQUIRE_FALSE(bench.client->connected(bench.peer));

  // Its buffers fill up: then calls fail at once, and memory stays bounded.
  DirectoryUpdateMessage large;
  large.puts.resize(message_limits::kRecordsMax);
  uint64_t busy_count = 0;
  uint64_t answered_count = 0;
  for (int i = 0; i < 100; ++i) {
    bench.client->call(bench.peer, large, seconds(5), [&](Result<Message> reply) {
      if (code_of(reply) == Errc::kBusy) ++busy_count;
      ++answered_count;
    });
  }
  REQUIRE(bench.run_until([&] { return busy_count > 50; }));
  bench.client->close();
  REQUIRE(answered_count == 100);
}

TEST_CASE("rpc: too many unanswered calls are refused at once", "[unit]") {
  RpcClientOptions options;
  options.calls_max_count = 10;
  RpcBench bench({}, options);
  bench.hold = true;
  int busy_count = 0;
  for (int i = 0; i < 15; ++i) {
    bench.client->call(bench.peer, beat(1), seconds(5), [&](Result<Message> reply) {
      if (code_of(reply) == Errc::kBusy) ++busy_count;
    });
  }
  REQUIRE(bench.run_until([&] { return busy_count == 5; }));
}

TEST_CASE("rpc: oversize frames, garbage and replies to nobody close the connection", "[unit]") {
  RpcBench bench;
  std::vector<std::byte> bad;
  SECTION("a frame larger than allowed, of which nothing is read") {
    bad = frame_of(beat(1), 1);
    bad[3] = std::byte{1};  // 16 MiB
  }
  SECTION("garbage") { bad.assign(64, std::byte{0xee}); }
  SECTION("an unknown type") {
    bad = frame_of(beat(1), 1);
    bad[12] = std::byte{99};
  }
  SECTION("a body that is none") {
    bad = frame_of(beat(1), 1);
    for (size_t i = kFrameHeaderBytes; i < bad.size(); ++i) bad[i] = std::byte{0x55};
  }
  SECTION("a reply") { bad = frame_of(beat(1), 1, FrameFlag::kReply); }
  const RawSocket attacker = RawSocket::connect(bench.server->port());
  attacker.send(bad);
  REQUIRE(bench.run_until([&] { return attacker.is_closed(); }));
  REQUIRE(bench.server->stats().bad_frames_count == 1);
  REQUIRE(bench.received.empty());
  REQUIRE(number_of(bench.call(beat(1))) == 1);  // others are served as before
}

TEST_CASE("rpc: a client closes on a peer that answers nonsense", "[unit]") {
  RpcBench bench;
  const RawSocket liar = RawSocket::listen();
  bench.peer = *bench.client->add_peer(liar.address());
  std::optional<Errc> code;
  bench.client->call(bench.peer, beat(1), seconds(5),
                     [&](Result<Message> r) { code = code_of(r); });
  REQUIRE(bench.run_until([&] { return bench.client->connected(bench.peer); }));
  const RawSocket connection = liar.accept();
  SECTION("garbage") { connection.send(std::vector<std::byte>(64, std::byte{0xee})); }
  SECTION("a request") { connection.send(frame_of(beat(1), 1)); }
  SECTION("a huge frame") {
    connection.send(
        encode_frame_header({UINT32_MAX, 1, MessageType::kHeartbeatReply, FrameFlag::kReply}));
  }
  REQUIRE(bench.run_until([&] { return code.has_value(); }));
  REQUIRE(*code == Errc::kPeerLost);
  REQUIRE(bench.client->stats().bad_frames_count == 1);
  REQUIRE(bench.run_until([&] { return connection.is_closed(); }));
}

TEST_CASE("rpc: connections over the cap are closed, those before go on", "[unit]") {
  RpcServerOptions options;
  options.connections_max_count = 2;
  RpcBench bench(options);
  REQUIRE(number_of(bench.call(beat(1))) == 1);
  const RawSocket second = RawSocket::connect(bench.server->port());
  const RawSocket third = RawSocket::connect(bench.server->port());
  REQUIRE(bench.run_until([&] { return third.is_closed(); }));
  REQUIRE_FALSE(second.is_closed());
  REQUIRE(bench.server->stats().refused_count == 1);
  REQUIRE(number_of(bench.call(beat(2))) == 2);
}

TEST_CASE("rpc: a silent connection is closed after the idle time, and made again when needed",
          "[unit]") {
  RpcServerOptions options;
  options.idle_timeout_ms = 50;
  RpcBench bench(options);
  REQUIRE(number_of(bench.call(beat(1))) == 1);
  REQUIRE(bench.run_until([&] { return bench.server->stats().idle_closed_count == 1; }));
  REQUIRE(bench.run_until([&] { return !bench.client->connected(bench.peer); }));
  REQUIRE(number_of(bench.call(beat(2))) == 2);
}

TEST_CASE("rpc: a frame that drips in is cut off", "[unit]") {
  RpcServerOptions options;
  options.frame_timeout_ms = 50;
  RpcBench bench(options);
  const RawSocket dripping = RawSocket::connect(bench.server->port());
  const std::vector<std::byte> frame = frame_of(beat(1), 1);
  size_t sent = 0;
  // One byte per turn, for as long as it takes: the frame would be whole after 80 turns of 20 ms.
  REQUIRE(bench.run_until([&] {
    if (dripping.is_closed()) return true;
    if (sent + 1 < frame.size()) dripping.send(std::span(frame).subspan(sent++, 1));
    return false;
  }));
  REQUIRE(bench.server->stats().slow_closed_count == 1);
  REQUIRE(bench.received.empty());
}

TEST_CASE("rpc: a peer that does not read its replies is closed", "[unit]") {
  RpcServerOptions options;
  options.send_queue_bytes_max = 1U << 20;
  RpcBench bench(options);
  bench.hold = true;
  const RawSocket deaf = RawSocket::connect(bench.server->port());
  DirectoryLookupReplyMessage large;
  large.counts.assign(message_limits::kRecordsMax, 3);
  large.locations.resize(3 * message_limits::kRecordsMax);
  for (uint64_t i = 0; i < 40; ++i) deaf.send(frame_of(beat(i), i));
  REQUIRE(bench.run_until([&] { return bench.held.size() == 40; }));
  for (RpcReply& reply : bench.held) reply.send(large);
  REQUIRE(bench.server->stats().slow_closed_count == 1);
}

TEST_CASE("rpc: replies that outlive their server do nothing", "[unit]") {
  RpcBench bench;
  bench.hold = true;
  bench.client->call(bench.peer, beat(1), seconds(5), [](Result<Message>) {});
  REQUIRE(bench.run_until([&] { return bench.held.size() == 1; }));
  bench.server.reset();
  bench.held[0].send(AckMessage{});
  bench.held.clear();
}

}  // namespace
}  // namespace peercache
