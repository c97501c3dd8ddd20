#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "controlplane/rpc/rpc_client.h"
#include "controlplane/rpc/rpc_frame_stream.h"
#include "controlplane/wire/host_port.h"

namespace peercache {

/// One peer of an RpcClient: its connection, and the calls that wait for it or for a reply.
///
///   idle --call--> pausing --> connecting --> connected --lost--> idle
///
/// THREAD:     the loop's.
/// OWNS:       the connection. Kept alive by its coroutines and timers; after close() they do
/// nothing. INVARIANTS: (P1) a call is in `calls_` and `deadlines_`, or in neither: then it was
/// answered. (P2) `attempt_` changes
///             whenever a connection or an attempt ends; what belongs to an older one does nothing
///             any more.
class RpcPeer : public std::enable_shared_from_this<RpcPeer> {
 public:
  RpcPeer(RpcLoop& loop,
          const RpcClientOptions& options,
          HostPort address,
          std::shared_ptr<RpcClientStats> stats);

  void call(const Message& message, Nanos timeout, RpcReplyFn on_reply);
  void notify(const Message& message);
  bool connected() const { return stream_ != nullptr && !stream_->closed(); }
  void reset();
  void close();

 private:
  struct Call {
    MessageType type;
    std::vector<std::byte> body;  ///< until it is sent
    RpcReplyFn on_reply;
    Nanos deadline_at;
    bool sent = false;
  };
  using Endpoint = boost::asio::ip::tcp::endpoint;

  void connect_when_due();
  void begin_attempt();
  void resolved(uint64_t attempt, const std::vector<std::string>& addresses);
  boost::asio::awaitable<void> connect(uint64_t attempt, std::vector<Endpoint> endpoints);
  void attempt_failed(const Error& error);
  void end_attempt();
  void pause_longer();
  boost::asio::awaitable<void> receive(std::shared_ptr<FrameStream> stream);
  bool take_reply(Frame frame);
  void lose(const Error& error);
  void send_waiting();
  void send(uint64_t request_id, Call& call);
  void fail_soon(uint64_t request_id, Error error);
  void answer(uint64_t request_id, Result<Message> result);
  void answer_all(const Error& error);
  void arm_deadline();
  void expire();

  RpcLoop& loop_;
  RpcClientOptions options_;
  HostPort address_;
  std::shared_ptr<RpcClientStats> stats_;
  boost::asio::steady_timer deadline_timer_;
  boost::asio::steady_timer attempt_timer_;
  std::map<uint64_t, Call> calls_;  ///< in the order of the calls
  std::set<std::pair<Nanos, uint64_t>> deadlines_;
  std::shared_ptr<boost::asio::ip::tcp::socket> connecting_;
  std::shared_ptr<FrameStream> stream_;
  uint64_t attempt_ = 0;
  bool attempt_under_way_ = false;
  bool name_asked_ = false;   ///< a look-up is under way
  bool name_wanted_ = false;  ///< the present attempt waits for it
  bool answered_ = false;     ///< something was received over the present connection
  bool timed_out_ = false;    ///< a call has timed out since bytes last came in
  bool closed_ = false;
  Nanos pause_{0};
  Nanos next_attempt_at_{0};
  uint64_t request_id_last_ = 0;
};

}  // namespace peercache
