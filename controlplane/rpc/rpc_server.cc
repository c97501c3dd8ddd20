#include "controlplane/rpc/rpc_server.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "controlplane/rpc/rpc_frame_stream.h"
#include "controlplane/rpc/rpc_loop_state.h"
#include "controlplane/wire/host_port.h"
#include "controlplane/wire/message_codec.h"
#include "dataplane/base/clock.h"

namespace peercache {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

Nanos millis(uint32_t ms) { return Nanos(int64_t{ms} * 1'000'000); }

}  // namespace

RpcReply& RpcReply::operator=(RpcReply&& other) noexcept {
  std::swap(send_, other.send_);
  return *this;
}

RpcReply::~RpcReply() {
  if (send_) send_(ErrorReplyMessage{Errc::kUnsupported});
}

void RpcReply::send(const Message& message) {
  if (const SendFn send = std::exchange(send_, nullptr)) send(message);
}

/// What the server is made of. Coroutines and replies hold it by shared or weak pointers.
///
/// THREAD:     the loop's.
struct RpcServer::State : std::enable_shared_from_this<RpcServer::State> {
  State(RpcLoop& rpc_loop, RpcServerOptions server_options, Handler request_handler)
      : loop(rpc_loop),
        options(std::move(server_options)),
        handler(std::move(request_handler)),
        acceptor(rpc_loop.state().context),
        sweep_timer(rpc_loop.state().context) {}

  /// THREAD:     the loop's.
  struct Connection {
    std::shared_ptr<FrameStream> stream;
    Nanos frame_at;  ///< when the last whole frame came in
  };

  Result<void> listen();
  asio::awaitable<void> accept_all();
  void admit(tcp::socket socket);
  asio::awaitable<void> serve(RpcConnectionId id, std::shared_ptr<FrameStream> stream);
  bool dispatch(RpcConnectionId id, const std::shared_ptr<FrameStream>& stream, const Frame& frame);
  RpcReply reply_to(const std::shared_ptr<FrameStream>& stream, const FrameHeader& header);
  void send_reply(FrameStream& stream, uint64_t request_id, const Message& message);
  asio::awaitable<void> sweep();
  void close();

  RpcLoop& loop;
  RpcServerOptions options;
  Handler handler;
  tcp::acceptor acceptor;
  asio::steady_timer sweep_timer;
  std::unordered_map<RpcConnectionId, Connection> connections;
  uint64_t connection_id_last = 0;
  uint16_t port = 0;
  bool closed = false;
  RpcServerStats stats;
};

Result<void> RpcServer::State::listen() {
  tcp::resolver resolver(loop.state().context);
  boost::system::error_code error;
  const auto found = resolver.resolve(options.bind_host, std::to_string(options.port),
                                      tcp::resolver::passive, error);
  if (error || found.empty()) {
    return make_system_error(Errc::kSystem, 0, "cannot look up the control address, resolver {}",
                             error.value());
  }
  const tcp::endpoint endpoint = *found.begin();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return make_system_error(Errc::kSystem, error.value(), "cannot listen on control port {}",
                             options.port);
  }
  port = acceptor.local_endpoint(error).port();
  return {};
}

asio::awaitable<void> RpcServer::State::accept_all() {
  const auto self = shared_from_this();
  while (!closed) {
    auto [error, socket] = co_await acceptor.async_accept(kAwait);
    if (closed) co_return;
    if (!error) {
      admit(std::move(socket));
      continue;
    }
    // Out of descriptors, or a peer that went away in the backlog: wait a moment rather than spin.
    asio::steady_timer pause(loop.state().context, std::chrono::milliseconds(50));
    co_await pause.async_wait(kAwait);
  }
}

void RpcServer::State::admit(tcp::socket socket) {
  if (connections.size() >= options.connections_max_count) {
    ++stats.refused_count;
    return;  // closes it
  }
  ++stats.accepted_count;
  auto stream = std::make_shared<FrameStream>(std::move(socket), options.frame_bytes_max,
                                              options.send_queue_bytes_max);
  stream->set_socket_options();
  const RpcConnectionId id(++connection_id_last);
  connections.emplace(id, Connection{stream, monotonic_now()});
  asio::co_spawn(loop.state().context, serve(id, std::move(stream)), asio::detached);
}

asio::awaitable<void> RpcServer::State::serve(RpcConnectionId id,
                                              std::shared_ptr<FrameStream> stream) {
  const auto self = shared_from_this();
  while (!stream->closed()) {
    const Result<Frame> frame = co_await stream->read();
    if (stream->closed()) break;
    if (!frame) {
      if (frame.error().code != Errc::kPeerLost) ++stats.bad_frames_count;
      break;
    }
    if (!dispatch(id, stream, *frame)) {
      ++stats.bad_frames_count;
      break;
    }
  }
  stream->close();
  connections.erase(id);
}

/// False if the peer does not speak our language: the connection is closed.
bool RpcServer::State::dispatch(RpcConnectionId id,
                                const std::shared_ptr<FrameStream>& stream,
                                const Frame& frame) {
  if (frame.header.flag == FrameFlag::kReply) return false;
  Result<Message> message = decode_message(frame.header.type, frame.body);
  if (!message) return false;
  ++stats.requests_count;
  if (const auto found = connections.find(id); found != connections.end()) {
    found->second.frame_at = monotonic_now();
  }
  const bool one_way = frame.header.flag == FrameFlag::kOneWay;
  handler(RpcRequest{id, std::move(message).value(), one_way}, reply_to(stream, frame.header));
  return true;
}

RpcReply RpcServer::State::reply_to(const std::shared_ptr<FrameStream>& stream,
                                    const FrameHeader& header) {
  if (header.flag == FrameFlag::kOneWay) return {};
  return RpcReply([server = weak_from_this(), to = std::weak_ptr<FrameStream>(stream),
                   request_id = header.request_id](const Message& message) {
    const auto state = server.lock();
    const auto target = to.lock();
    if (state && target && !target->closed()) state->send_reply(*target, request_id, message);
  });
}

void RpcServer::State::send_reply(FrameStream& stream,
                                  uint64_t request_id,
                                  const Message& message) {
  FrameHeader header{0, request_id, type_of(message), FrameFlag::kReply};
  Result<std::vector<std::byte>> body = encode_message(message);
  if (!body) {  // our own fault; the caller must not wait for its deadline
    header.type = MessageType::kErrorReply;
    body = encode_message(ErrorReplyMessage{body.error().code});
  }
  if (!stream.send(header, *body)) {
    ++stats.slow_closed_count;
    stream.close();
  }
}

/// Closes connections that are silent, or whose frame does not come to its end.
asio::awaitable<void> RpcServer::State::sweep() {
  const auto self = shared_from_this();
  const Nanos idle = millis(options.idle_timeout_ms);
  const Nanos slow = millis(options.frame_timeout_ms);
  const Nanos period = std::clamp(std::min(idle, slow) / 4, millis(1), millis(1000));
  while (!closed) {
    sweep_timer.expires_after(period);
    co_await sweep_timer.async_wait(kAwait);
    if (closed) co_return;
    const Nanos now = monotonic_now();
    for (auto& [id, connection] : connections) {
      const Nanos began = connection.stream->frame_began_at();
      if (began != Nanos(0) && now - began > slow) {
        ++stats.slow_closed_count;
        connection.stream->close();
      } else if (began == Nanos(0) && now - connection.frame_at > idle) {
        ++stats.idle_closed_count;
        connection.stream->close();
      }
    }
  }
}

void RpcServer::State::close() {
  if (closed) return;
  closed = true;
  boost::system::error_code ignored;
  acceptor.close(ignored);
  sweep_timer.cancel();
  for (auto& [id, connection] : connections) connection.stream->close();
  connections.clear();
}

RpcServer::RpcServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

RpcServer::~RpcServer() { close(); }

Result<std::unique_ptr<RpcServer>> RpcServer::open(RpcLoop& loop,
                                                   const RpcServerOptions& options,
                                                   Handler handler) {
  auto state = std::make_shared<State>(loop, options, std::move(handler));
  PC_TRY(state->listen());
  asio::co_spawn(loop.state().context, state->accept_all(), asio::detached);
  asio::co_spawn(loop.state().context, state->sweep(), asio::detached);
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(state)));
}

uint16_t RpcServer::port() const { return state_->port; }

std::string RpcServer::address() const {
  return to_string(HostPort{state_->options.bind_host, state_->port});
}

void RpcServer::close() { state_->close(); }

RpcServerStats RpcServer::stats() const {
  RpcServerStats stats = state_->stats;
  stats.connections_count = state_->connections.size();
  return stats;
}

}  // namespace peercache
