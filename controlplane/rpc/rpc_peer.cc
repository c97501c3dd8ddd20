#include "controlplane/rpc/rpc_peer.h"

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "controlplane/rpc/rpc_loop_state.h"
#include "controlplane/rpc/rpc_resolve.h"
#include "controlplane/wire/message_codec.h"
#include "dataplane/base/clock.h"

namespace peercache {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

Nanos millis(uint32_t ms) { return Nanos(int64_t{ms} * 1'000'000); }

Error connect_error(const boost::system::error_code& error) {
  const Errc code =
      error == asio::error::connection_refused ? Errc::kConnectRefused : Errc::kNotConnected;
  return make_system_error(code, error.value(), "cannot connect to the peer's control address");
}

}  // namespace

RpcPeer::RpcPeer(RpcLoop& loop,
                 const RpcClientOptions& options,
                 HostPort address,
                 std::shared_ptr<RpcClientStats> stats)
    : loop_(loop),
      options_(options),
      address_(std::move(address)),
      stats_(std::move(stats)),
      deadline_timer_(loop.state().context),
      attempt_timer_(loop.state().context) {}

void RpcPeer::call(const Message& message, Nanos timeout, RpcReplyFn on_reply) {
  const uint64_t request_id = ++request_id_last_;
  Call& call = calls_[request_id];
  call.type = type_of(message);
  call.on_reply = std::move(on_reply);
  call.deadline_at = monotonic_now() + timeout;
  deadlines_.emplace(call.deadline_at, request_id);
  if (deadlines_.begin()->second == request_id) arm_deadline();
  Result<std::vector<std::byte>> body = encode_message(message);
  if (!body) {
    fail_soon(request_id, body.error());
  } else if (calls_.size() > options_.calls_max_count) {
    fail_soon(request_id,
              make_error(Errc::kBusy, "{} calls to one peer are unanswered", calls_.size() - 1));
  } else {
    call.body = std::move(*body);
    if (connected()) {
      send(request_id, call);
    } else {
      connect_when_due();
    }
  }
}

void RpcPeer::notify(const Message& message) {
  if (!connected()) return;
  const Result<std::vector<std::byte>> body = encode_message(message);
  if (!body) return;
  static_cast<void>(
      stream_->send({0, ++request_id_last_, type_of(message), FrameFlag::kOneWay}, *body));
}

// --- connecting --------------------------------------------------------------------------------

void RpcPeer::connect_when_due() {
  if (closed_ || attempt_under_way_ || stream_ != nullptr) return;
  attempt_under_way_ = true;
  const uint64_t attempt = attempt_;
  if (monotonic_now() >= next_attempt_at_) {
    begin_attempt();
    return;
  }
  attempt_timer_.expires_at(std::chrono::steady_clock::time_point(next_attempt_at_));
  attempt_timer_.async_wait([this, self = shared_from_this(), attempt](const auto& error) {
    if (!error && attempt == attempt_) begin_attempt();
  });
}

void RpcPeer::begin_attempt() {
  const uint64_t attempt = attempt_;
  attempt_timer_.expires_after(millis(options_.connect_timeout_ms));
  attempt_timer_.async_wait([this, self = shared_from_this(), attempt](const auto& error) {
    if (error || attempt != attempt_ || stream_ != nullptr) return;
    attempt_failed(make_error(Errc::kTimeout, "no connection to the peer within {} ms",
                              options_.connect_timeout_ms));
  });
  boost::system::error_code not_numeric;
  asio::ip::make_address(address_.host, not_numeric);
  if (!not_numeric) {
    resolved(attempt, {address_.host});
    return;
  }
  name_wanted_ = true;
  if (name_asked_)
    return;  // an earlier attempt's question is still open: its answer serves this one
  name_asked_ = true;
  resolve_host(loop_.state().gate, address_.host,
               [this, self = shared_from_this()](const std::vector<std::string>& addresses) {
                 name_asked_ = false;
                 if (std::exchange(name_wanted_, false)) resolved(attempt_, addresses);
               });
}

void RpcPeer::resolved(uint64_t attempt, const std::vector<std::string>& addresses) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : addresses) {
    boost::system::error_code error;
    const asio::ip::address address = asio::ip::make_address(text, error);
    if (!error) endpoints.emplace_back(address, address_.port);
  }
  asio::co_spawn(loop_.state().context, connect(attempt, std::move(endpoints)), asio::detached);
}

asio::awaitable<void> RpcPeer::connect(uint64_t attempt, std::vector<Endpoint> endpoints) {
  const auto self = shared_from_this();
  boost::system::error_code last = asio::error::host_not_found;
  for (const Endpoint& endpoint : endpoints) {
    if (attempt != attempt_) co_return;
    const auto socket = std::make_shared<tcp::socket>(loop_.state().context);
    connecting_ = socket;
    const auto [error] = co_await socket->async_connect(endpoint, kAwait);
    if (attempt != attempt_) co_return;
    connecting_.reset();
    if (error) {
      last = error;
      continue;
    }
    attempt_under_way_ = false;
    attempt_timer_.cancel();
    timed_out_ = false;
    answered_ = false;
    ++stats_->connects_count;
    stream_ = std::make_shared<FrameStream>(std::move(*socket), options_.frame_bytes_max,
                                            options_.send_queue_bytes_max);
    stream_->set_socket_options();
    send_waiting();
    co_await receive(stream_);
    co_return;
  }
  if (attempt == attempt_) attempt_failed(connect_error(last));
}

void RpcPeer::attempt_failed(const Error& error) {
  end_attempt();
  ++stats_->failed_connects_count;
  pause_longer();
  answer_all(error);
}

void RpcPeer::end_attempt() {
  ++attempt_;  // (P2)
  attempt_under_way_ = false;
  name_wanted_ = false;
  attempt_timer_.cancel();
  if (connecting_) {
    boost::system::error_code ignored;
    connecting_->close(ignored);
    connecting_.reset();
  }
}

void RpcPeer::pause_longer() {
  pause_ = std::clamp(pause_ * 2, millis(options_.retry_ms_min), millis(options_.retry_ms_max));
  next_attempt_at_ = monotonic_now() + pause_;
}

// --- connected ---------------------------------------------------------------------------------

asio::awaitable<void> RpcPeer::receive(std::shared_ptr<FrameStream> stream) {
  const auto self = shared_from_this();
  for (;;) {
    Result<Frame> frame = co_await stream->read();
    if (stream != stream_) co_return;  // reset or closed meanwhile
    if (!frame) {
      if (frame.error().code != Errc::kPeerLost) ++stats_->bad_frames_count;
      lose(frame.error());
      co_return;
    }
    timed_out_ = false;
    if (!take_reply(std::move(*frame))) {
      if (stream != stream_) co_return;
      ++stats_->bad_frames_count;
      lose(make_error(Errc::kPeerLost, "the peer sent what is not a reply; connection closed"));
      co_return;
    }
    if (stream != stream_) co_return;
  }
}

/// False if the peer does not speak our language.
bool RpcPeer::take_reply(Frame frame) {
  if (frame.header.flag != FrameFlag::kReply) return false;
  Result<Message> message = decode_message(frame.header.type, frame.body);
  if (!message) return false;
  answered_ = true;
  pause_ = Nanos(0);
  if (!calls_.contains(frame.header.request_id)) {
    ++stats_->late_replies_count;
    return true;
  }
  if (const auto* refusal = std::get_if<ErrorReplyMessage>(&*message)) {
    answer(frame.header.request_id, make_error(refusal->code, "the peer refused the request"));
  } else {
    answer(frame.header.request_id, std::move(message));
  }
  return true;
}

/// Ends the connection; calls under way are answered with kPeerLost.
void RpcPeer::lose(const Error& error) {
  const std::shared_ptr<FrameStream> lost = std::exchange(stream_, nullptr);
  if (!lost) return;
  ++attempt_;  // (P2)
  lost->close();
  ++stats_->lost_connections_count;
  // Whoever accepts and says nothing is no better than whoever refuses.
  if (!answered_) pause_longer();
  Error reported = error;
  reported.code = Errc::kPeerLost;
  answer_all(reported);
}

void RpcPeer::reset() { lose(make_error(Errc::kPeerLost, "connection reset by this node")); }

void RpcPeer::close() {
  if (closed_) return;
  closed_ = true;
  end_attempt();
  deadline_timer_.cancel();
  if (stream_) stream_->close();
  stream_.reset();
  answer_all(make_error(Errc::kClosed, "the rpc client is closed"));
}

// --- calls -------------------------------------------------------------------------------------

void RpcPeer::send_waiting() {
  for (auto& [request_id, call] : calls_) {
    if (!call.sent) send(request_id, call);
  }
}

void RpcPeer::send(uint64_t request_id, Call& call) {
  if (call.body.size() > options_.frame_bytes_max) {
    fail_soon(request_id,
              make_error(Errc::kBadLength, "message of {} bytes, frames have at most {}",
                         call.body.size(), options_.frame_bytes_max));
    return;
  }
  const Result<void> sent =
      stream_->send({0, request_id, call.type, FrameFlag::kRequest}, call.body);
  call.sent = true;
  call.body = {};
  // A stream that has just closed answers this call, like all others, from receive().
  if (!sent && sent.error().code != Errc::kClosed) fail_soon(request_id, sent.error());
}

void RpcPeer::fail_soon(uint64_t request_id, Error error) {
  calls_.at(request_id).sent = true;
  asio::post(loop_.state().context,
             [this, self = shared_from_this(), request_id, error] { answer(request_id, error); });
}

void RpcPeer::answer(uint64_t request_id, Result<Message> result) {
  const auto found = calls_.find(request_id);
  if (found == calls_.end()) return;  // answered meanwhile
  const RpcReplyFn on_reply = std::move(found->second.on_reply);
  deadlines_.erase({found->second.deadline_at, request_id});
  calls_.erase(found);
  on_reply(std::move(result));
}

void RpcPeer::answer_all(const Error& error) {
  // Only those that exist now: their callbacks may call again.
  const uint64_t last = request_id_last_;
  while (!calls_.empty() && calls_.begin()->first <= last) answer(calls_.begin()->first, error);
}

void RpcPeer::arm_deadline() {
  if (closed_ || deadlines_.empty()) return;
  const std::chrono::steady_clock::time_point first(deadlines_.begin()->first);
  deadline_timer_.expires_at(first);
  deadline_timer_.async_wait([this, self = shared_from_this()](const auto& error) {
    if (!error && !closed_) expire();
  });
}

void RpcPeer::expire() {
  const Nanos now = monotonic_now();
  while (!closed_ && !deadlines_.empty() && deadlines_.begin()->first <= now) {
    ++stats_->timeouts_count;
    timed_out_ = timed_out_ || stream_ != nullptr;
    answer(deadlines_.begin()->second,
           make_error(Errc::kTimeout, "no reply from the peer within the deadline"));
  }
  if (closed_) return;
  if (timed_out_ && stream_ && now - stream_->received_at() > millis(options_.half_open_ms)) {
    lose(make_error(Errc::kPeerLost, "the peer has been silent for {} ms",
                    (now - stream_->received_at()).count() / 1'000'000));
  }
  arm_deadline();
}

}  // namespace peercache
