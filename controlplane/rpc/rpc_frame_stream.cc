#include "controlplane/rpc/rpc_frame_stream.h"

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "dataplane/base/clock.h"

namespace peercache {

namespace asio = boost::asio;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

Error lost(const boost::system::error_code& error) {
  return make_system_error(Errc::kPeerLost, error == asio::error::eof ? 0 : error.value(),
                           "control connection closed");
}

}  // namespace

FrameStream::FrameStream(asio::ip::tcp::socket socket,
                         size_t body_bytes_max,
                         size_t send_queue_bytes_max)
    : socket_(std::move(socket)),
      body_bytes_max_(body_bytes_max),
      send_queue_bytes_max_(send_queue_bytes_max),
      in_(kReadBytes),
      received_at_(monotonic_now()) {}

void FrameStream::set_socket_options() {
  boost::system::error_code ignored;  // an option that is refused costs speed or patience only
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  // A host that lost its power acknowledges nothing; the kernel's default would wait some 15
  // minutes.
  const unsigned user_timeout_ms = 10000;
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms,
               sizeof(user_timeout_ms));
}

void FrameStream::note_received(size_t bytes) {
  received_at_ = monotonic_now();
  if (frame_began_at_ == Nanos(0) && bytes > 0) frame_began_at_ = received_at_;
}

asio::awaitable<Result<Frame>> FrameStream::read() {
  const auto self = shared_from_this();  // the socket must outlive its operations
  frame_began_at_ = Nanos(0);
  note_received(in_bytes_);
  while (in_bytes_ < kFrameHeaderBytes) {
    const auto [error, bytes] = co_await socket_.async_read_some(
        asio::buffer(in_.data() + in_bytes_, in_.size() - in_bytes_), kAwait);
    if (closed_ || error) co_return lost(error);
    in_bytes_ += bytes;
    note_received(bytes);
  }
  const auto header = decode_frame_header(
      std::span<const std::byte, kFrameHeaderBytes>(in_.data(), kFrameHeaderBytes),
      body_bytes_max_);
  if (!header) co_return header.error();

  Frame frame{*header, {}};
  const size_t length = header->length_bytes;
  const size_t ahead = std::min(length, in_bytes_ - kFrameHeaderBytes);
  const auto body_begin = in_.begin() + kFrameHeaderBytes;
  frame.body.assign(body_begin, body_begin + static_cast<ptrdiff_t>(ahead));
  const size_t used = kFrameHeaderBytes + ahead;
  std::copy(in_.begin() + static_cast<ptrdiff_t>(used),
            in_.begin() + static_cast<ptrdiff_t>(in_bytes_), in_.begin());
  in_bytes_ -= used;

  constexpr size_t kStepBytes = 256 * 1024;  // (F2)
  size_t have = ahead;
  while (have < length) {
    frame.body.resize(std::min(length, have + kStepBytes));
    const auto [error, bytes] = co_await socket_.async_read_some(
        asio::buffer(frame.body.data() + have, frame.body.size() - have), kAwait);
    if (closed_ || error) co_return lost(error);
    have += bytes;
    note_received(bytes);
  }
  frame_began_at_ = Nanos(0);
  co_return frame;
}

Result<void> FrameStream::send(FrameHeader header, std::span<const std::byte> body) {
  if (closed_) return make_error(Errc::kClosed, "control connection closed");
  const size_t queued = waiting_.size() + writing_.size();
  if (queued + kFrameHeaderBytes + body.size() > send_queue_bytes_max_) {
    return make_error(Errc::kBusy, "{} bytes wait to be sent to a peer that does not read", queued);
  }
  header.length_bytes = narrow<uint32_t>(body.size());
  const auto head = encode_frame_header(header);
  waiting_.insert(waiting_.end(), head.begin(), head.end());
  waiting_.insert(waiting_.end(), body.begin(), body.end());
  // Asio tries the write at once, so that a last message ("leave") is with the kernel before a
  // close, unless the peer does not read.
  if (!write_under_way_) write_more();
  return {};
}

void FrameStream::write_more() {
  writing_.clear();
  writing_.swap(waiting_);
  if (writing_.empty() || closed_) return;
  write_under_way_ = true;
  asio::async_write(socket_, asio::buffer(writing_),
                    [self = shared_from_this()](const boost::system::error_code& error, size_t) {
                      self->write_under_way_ = false;
                      if (error) {
                        self->close();
                      } else {
                        self->write_more();
                      }
                    });
}

void FrameStream::close() {
  if (closed_) return;
  closed_ = true;
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace peercache
