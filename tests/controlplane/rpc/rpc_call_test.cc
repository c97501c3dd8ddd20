// Calls over loopback that end well.
#include <chrono>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/controlplane/rpc/rpc_bench.h"

namespace peercache {
namespace {

using test::beat;
using test::code_of;
using test::milliseconds;
using test::number_of;
using test::RpcBench;
using test::seconds;

TEST_CASE("rpc: a call is answered, over one connection", "[unit]") {
  RpcBench bench;
  for (uint64_t i = 1; i <= 20; ++i) REQUIRE(number_of(bench.call(beat(i))) == i);
  REQUIRE(bench.client->connected(bench.peer));
  REQUIRE(bench.client->stats().connects_count == 1);
  REQUIRE(bench.server->stats().connections_count == 1);
  REQUIRE(bench.server->stats().requests_count == 20);
}

TEST_CASE("rpc: many calls are in flight at once, answered in any order", "[unit]") {
  RpcBench bench;
  bench.hold = true;
  constexpr uint64_t kCalls = 2000;
  std::vector<uint64_t> answers(kCalls, 0);
  uint64_t answered_count = 0;
  for (uint64_t i = 0; i < kCalls; ++i) {
    bench.client->call(bench.peer, beat(i), seconds(10), [&, i](Result<Message> reply) {
      answers[i] = number_of(reply);
      ++answered_count;
    });
  }
  REQUIRE(bench.run_until([&] { return bench.held.size() == kCalls; }));
  for (uint64_t i = kCalls; i-- > 0;) {
    REQUIRE(bench.received[i] == beat(i));  // (S1)
    bench.held[i].send(HeartbeatReplyMessage{NodeId(i + 7), Incarnation(1), true, 0});
  }
  REQUIRE(bench.run_until([&] { return answered_count == kCalls; }));
  for (uint64_t i = 0; i < kCalls; ++i) REQUIRE(answers[i] == i + 7);
}

TEST_CASE("rpc: the largest message goes there and back", "[unit]") {
  RpcBench bench;
  bench.hold = true;
  DirectoryUpdateMessage update;
  update.puts.resize(message_limits::kRecordsMax);
  update.deletes.resize(message_limits::kRecordsMax);
  DirectoryLookupReplyMessage answer;
  answer.counts.assign(message_limits::kRecordsMax, 3);
  answer.locations.resize(3 * message_limits::kRecordsMax);
  std::optional<Result<Message>> reply;
  bench.client->call(bench.peer, update, seconds(10),
                     [&](Result<Message> result) { reply = result; });
  REQUIRE(bench.run_until([&] { return bench.held.size() == 1; }));
  REQUIRE(bench.received[0] == Message(update));
  bench.held[0].send(answer);
  REQUIRE(bench.run_until([&] { return reply.has_value(); }));
  REQUIRE(reply->value() == Message(answer));
}

TEST_CASE("rpc: a handler that does not answer answers that it does not", "[unit]") {
  RpcBench bench;
  REQUIRE(code_of(bench.call(AckMessage{})) == Errc::kUnsupported);
  bench.hold = true;
  std::optional<Errc> code;
  bench.client->call(bench.peer, beat(1), seconds(5),
                     [&](Result<Message> r) { code = code_of(r); });
  REQUIRE(bench.run_until([&] { return bench.held.size() == 1; }));
  bench.held[0].send(ErrorReplyMessage{Errc::kNotOwner});
  REQUIRE(bench.run_until([&] { return code.has_value(); }));
  REQUIRE(*code == Errc::kNotOwner);
}

TEST_CASE("rpc: a one-way message arrives and is not answered", "[unit]") {
  RpcBench bench;
  bench.client->notify(bench.peer, beat(1));  // no connection: nothing
  REQUIRE(number_of(bench.call(beat(2))) == 2);
  bench.client->notify(bench.peer, beat(3));
  REQUIRE(bench.run_until([&] { return bench.received.size() == 2; }));
  REQUIRE(bench.received[1] == beat(3));
  REQUIRE(number_of(bench.call(beat(4))) == 4);
  REQUIRE(bench.client->stats().late_replies_count == 0);
}

TEST_CASE("rpc: a message sent just before a close still arrives", "[unit]") {
  RpcBench bench;
  REQUIRE(number_of(bench.call(beat(1))) == 1);
  bench.client->notify(bench.peer, LeaveMessage{NodeId(5), Incarnation(6)});
  bench.client->close();
  REQUIRE(bench.run_until([&] { return bench.received.size() == 2; }));
  REQUIRE(bench.received[1] == Message(LeaveMessage{NodeId(5), Incarnation(6)}));
}

TEST_CASE("rpc: names and IPv6 addresses work", "[unit]") {
  RpcServerOptions options;
  SECTION("a name, looked up by both") {
    options.bind_host = "localhost";
    RpcBench bench(options);
    REQUIRE(bench.server->address() == "localhost:" + std::to_string(bench.server->port()));
    REQUIRE(number_of(bench.call(beat(1))) == 1);
  }
  SECTION("IPv6") {
    options.bind_host = "::1";
    const auto loop = *RpcLoop::open();
    if (!RpcServer::open(*loop, options, [](RpcRequest, RpcReply) {})) {
      WARN("no IPv6 on this host");
      return;
    }
    RpcBench bench(options);
    REQUIRE(bench.server->address() == "[::1]:" + std::to_string(bench.server->port()));
    REQUIRE(number_of(bench.call(beat(1))) == 1);
  }
  SECTION("an unknown name is an error, and soon") {
    RpcBench bench;
    bench.peer = *bench.client->add_peer("no-such-host.invalid:1");
    const Errc code = code_of(bench.call(beat(1), seconds(8)));
    // Without a name server the look-up itself takes long: then it is the connect time that ends
    // it.
    REQUIRE((code == Errc::kNotConnected || code == Errc::kTimeout));
  }
}

TEST_CASE("rpc: a port in use is an error of the system", "[unit]") {
  RpcBench bench;
  RpcServerOptions options;
  options.port = bench.server->port();
  const auto second = RpcServer::open(*bench.loop, options, [](RpcRequest, RpcReply) {});
  REQUIRE(second.error().code == Errc::kSystem);
  REQUIRE(second.error().os_errno == EADDRINUSE);
  REQUIRE(bench.client->add_peer("nonsense").error().code == Errc::kBadValue);
}

}  // namespace
}  // namespace peercache
