#include "controlplane/rpc/rpc_loop.h"

#include <utility>

#include <boost/asio/post.hpp>

#include "controlplane/rpc/rpc_loop_state.h"

namespace peercache {

namespace asio = boost::asio;

void RpcPostGate::post(std::function<void()> fn) {
  const MutexLock lock(mutex_);
  if (context_ != nullptr) asio::post(*context_, std::move(fn));
}

void RpcLoop::State::wait(const std::shared_ptr<Watch>& watch) {
  // The handler keeps the watch alive: it may be unwatched from its own callback.
  watch->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                               [this, watch](const boost::system::error_code& error) {
                                 if (error || !watch->active) return;
                                 watch->on_readable();
                                 if (watch->active) wait(watch);
                               });
}

RpcLoop::RpcLoop(std::unique_ptr<State> state) : state_(std::move(state)) {}

RpcLoop::~RpcLoop() {
  for (auto& [id, watch] : state_->watches) watch->active = false;
  state_->watches.clear();
  state_->timers.clear();
}

Result<std::unique_ptr<RpcLoop>> RpcLoop::open() {
  try {
    return std::unique_ptr<RpcLoop>(new RpcLoop(std::make_unique<State>()));
  } catch (
      const boost::system::system_error& error) {  // no descriptor left for epoll, timer or wake-up
    return make_system_error(Errc::kSystem, error.code().value(), "no event loop");
  }
}

int RpcLoop::poll_once() {
  // Bounded: a peer that keeps sending must not keep the conductor from its other work.
  constexpr int kHandlersMax = 256;
  int handlers_count = 0;
  while (handlers_count < kHandlersMax && state_->context.poll_one() > 0) ++handlers_count;
  return handlers_count;
}

int RpcLoop::run_for(Nanos timeout) {
  int handlers_count = 0;
  if (timeout > Nanos(0)) {
    handlers_count = static_cast<int>(state_->context.run_one_for(timeout));
  }
  return handlers_count + poll_once();
}

void RpcLoop::wake() {
  asio::post(state_->context, [] {});
}

void RpcLoop::post(std::function<void()> fn) { asio::post(state_->context, std::move(fn)); }

Result<WatchId> RpcLoop::watch_fd(int fd, std::function<void()> on_readable) {
  auto watch = std::make_shared<State::Watch>(state_->context, std::move(on_readable));
  boost::system::error_code error;
  watch->descriptor.assign(fd, error);
  if (error) {
    return make_system_error(Errc::kSystem, error.value(), "cannot watch descriptor {}", fd);
  }
  const WatchId id(++state_->id_last);
  state_->watches.emplace(id.value(), watch);
  state_->wait(watch);
  return id;
}

void RpcLoop::unwatch(WatchId id) {
  const auto found = state_->watches.find(id.value());
  if (found == state_->watches.end()) return;
  found->second->active = false;
  found->second->descriptor.release();
  state_->watches.erase(found);
}

TimerId RpcLoop::start_timer(Nanos delay, std::function<void()> fn) {
  const TimerId id(++state_->id_last);
  auto timer = std::make_shared<asio::steady_timer>(state_->context, delay);
  state_->timers.emplace(id.value(), timer);
  timer->async_wait([this, id, fn = std::move(fn)](const boost::system::error_code& error) {
    // A timer that was cancelled after it had expired finds itself gone.
    if (error || state_->timers.erase(id.value()) == 0) return;
    fn();
  });
  return id;
}

void RpcLoop::cancel_timer(TimerId id) { state_->timers.erase(id.value()); }

}  // namespace peercache
