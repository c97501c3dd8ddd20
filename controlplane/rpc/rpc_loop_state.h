#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "controlplane/rpc/rpc_loop.h"
#include "controlplane/rpc/rpc_post_gate.h"

namespace peercache {

/// What the loop is made of; included by the .cc files that use Asio only.
///
/// THREAD:     the conductor's.
struct RpcLoop::State {
  /// One watched descriptor; Asio's object borrows it.
  ///
  /// THREAD:     the conductor's.
  struct Watch {
    Watch(boost::asio::io_context& context, std::function<void()> fn)
        : descriptor(context), on_readable(std::move(fn)) {}
    ~Watch() {
      if (descriptor.is_open()) descriptor.release();
    }
    boost::asio::posix::stream_descriptor descriptor;
    std::function<void()> on_readable;
    bool active = true;
  };

  State() : guard(context.get_executor()), gate(std::make_shared<RpcPostGate>(&context)) {}
  ~State() { gate->close(); }

  void wait(const std::shared_ptr<Watch>& watch);

  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard;
  std::shared_ptr<RpcPostGate> gate;
  std::unordered_map<uint64_t, std::shared_ptr<Watch>> watches;
  std::unordered_map<uint64_t, std::shared_ptr<boost::asio::steady_timer>> timers;
  uint64_t id_last = 0;
};

}  // namespace peercache
