#pragma once

#include <arpa/inet.h>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <span>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "controlplane/rpc/rpc_client.h"
#include "controlplane/rpc/rpc_frame.h"
#include "controlplane/rpc/rpc_loop.h"
#include "controlplane/rpc/rpc_server.h"
#include "controlplane/wire/message_codec.h"
#include "dataplane/base/clock.h"
#include "dataplane/base/unique_handle.h"

namespace peercache::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A loop with a server and a client on it; the test's thread runs it.
class RpcBench {
 public:
  explicit RpcBench(RpcServerOptions server_options = {}, RpcClientOptions client_options = {})
      : loop(*RpcLoop::open()) {
    open_server(std::move(server_options));
    client = RpcClient::open(*loop, client_options);
    peer = *client->add_peer(server->address());
  }

  void open_server(RpcServerOptions options) {
    Result<std::unique_ptr<RpcServer>> opened =
        RpcServer::open(*loop, options, [this](RpcRequest request, RpcReply reply) {
          handle(std::move(request), std::move(reply));
        });
    REQUIRE(opened.has_value());
    server = std::move(*opened);
  }

  /// Answers heartbeats with their own numbers; keeps replies while `hold` is set.
  void handle(RpcRequest request, RpcReply reply) {
    received.push_back(request.message);
    if (hold) {
      held.push_back(std::move(reply));
    } else if (const auto* beat = std::get_if<HeartbeatMessage>(&request.message)) {
      reply.send(HeartbeatReplyMessage{beat->node, beat->incarnation, true, 0});
    }
  }

  /// Runs the loop until `done()`, for 10 s at most.
  template <class Done>
  bool run_until(Done&& done) {
    const Nanos end = monotonic_now() + seconds(10);
    while (!done()) {
      if (monotonic_now() > end) return false;
      loop->run_for(milliseconds(20));
    }
    return true;
  }

  /// Calls and waits for the answer.
  Result<Message> call(const Message& message, Nanos timeout = seconds(5)) {
    std::optional<Result<Message>> answer;
    client->call(peer, message, timeout, [&](Result<Message> result) { answer = result; });
    REQUIRE_FALSE(answer.has_value());  // (C1)
    REQUIRE(run_until([&] { return answer.has_value(); }));
    return *answer;
  }

  std::unique_ptr<RpcLoop> loop;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<RpcClient> client;
  RpcPeerId peer{};
  bool hold = false;
  std::vector<RpcReply> held;
  std::vector<Message> received;
};

inline Message beat(uint64_t number) { return HeartbeatMessage{NodeId(number), Incarnation(1)}; }

inline uint64_t number_of(const Result<Message>& reply) {
  REQUIRE(reply.has_value());
  return std::get<HeartbeatReplyMessage>(*reply).node.value();
}

inline Errc code_of(const Result<Message>& reply) {
  REQUIRE_FALSE(reply.has_value());
  return reply.error().code;
}

/// A plain socket of the test's own, for everything that our client and server would never send.
class RawSocket {
 public:
  static RawSocket connect(uint16_t port) {
    RawSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(port);
    REQUIRE(::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
            0);
    return socket;
  }
  /// Listens; connections are established by the kernel and stay in the backlog.
  static RawSocket listen() {
    RawSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(0);
    REQUIRE(::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(::listen(socket.fd(), 16) == 0);
    return socket;
  }
  RawSocket accept() const {
    RawSocket socket(::accept(fd(), nullptr, nullptr));
    REQUIRE(socket.fd() >= 0);
    return socket;
  }
  std::string address() const {
    sockaddr_in address{};
    socklen_t length = sizeof(address);
    REQUIRE(::getsockname(fd(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
    return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  void send(std::span<const std::byte> bytes) const {
    REQUIRE(::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  /// True once the other side has closed; what it sent before is thrown away.
  bool is_closed() const {
    char buffer[4096];
    for (;;) {
      const ssize_t got = ::recv(fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got == 0) return true;
      if (got < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
    }
  }
  int fd() const { return fd_.get(); }

 private:
  explicit RawSocket(int fd) : fd_(fd) {}
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  UniqueFd fd_;
};

/// A whole frame.
inline std::vector<std::byte> frame_of(const Message& message,
                                       uint64_t request_id,
                                       FrameFlag flag = FrameFlag::kRequest) {
  const std::vector<std::byte> body = *encode_message(message);
  const auto head =
      encode_frame_header({static_cast<uint32_t>(body.size()), request_id, type_of(message), flag});
  std::vector<std::byte> frame(head.size() + body.size());
  std::memcpy(frame.data(), head.data(), head.size());
  std::memcpy(frame.data() + head.size(), body.data(), body.size());
  return frame;
}

}  // namespace peercache::test
