#include "dataplane/base/agent.h"

#include <algorithm>
#include <cerrno>
#include <future>
#include <pthread.h>
#include <sys/resource.h>
#include <system_error>
#include <utility>

namespace peercache {

namespace {

constexpr size_t kThreadNameCharsMax =
    15;  // SOURCE: pthread_setname_np(3): 16 with the terminating zero

}  // namespace

Result<std::unique_ptr<AgentThread>> AgentThread::start(Agent& agent, AgentOptions options) {
  PC_TRY_ASSIGN(auto event, WakeEvent::open());
  std::unique_ptr<AgentThread> self(new AgentThread(agent, std::move(options), std::move(event)));
  std::promise<Result<void>> started;
  std::future<Result<void>> outcome = started.get_future();
  try {
    self->thread_ = std::thread([raw = self.get(), promise = std::move(started)]() mutable {
      const Result<void> set_up = raw->set_up_thread();
      const bool go_on = set_up.has_value();
      promise.set_value(set_up);
      if (go_on) {
        raw->run();
      }
    });
  } catch (const std::system_error& failure) {
    return make_system_error(Errc::kSystem, failure.code().value(), "cannot start a thread");
  }
  PC_TRY(outcome.get());  // self joins the thread that has ended
  return self;
}

AgentThread::AgentThread(Agent& agent, AgentOptions options, std::unique_ptr<WakeEvent> event)
    : agent_(agent),
      options_(std::move(options)),
      event_(std::move(event)),
      backoff_(options_.idle) {}

Result<void> AgentThread::set_up_thread() {
  ::pthread_setname_np(::pthread_self(), options_.name.substr(0, kThreadNameCharsMax).c_str());
  if (options_.nice != 0) {
    // On Linux a nice level belongs to the thread, and 0 names the calling one. SOURCE:
    // setpriority(2), NOTES.
    errno = 0;
    const int current = ::getpriority(PRIO_PROCESS, 0);
    if (errno != 0 || ::setpriority(PRIO_PROCESS, 0, std::min(current + options_.nice, 19)) != 0) {
      return make_system_error(Errc::kSystem, errno, "cannot add {} to the nice level of a thread",
                               options_.nice);
    }
  }
  return options_.on_start ? options_.on_start() : Result<void>();
}

void AgentThread::stop() noexcept {
  if (!thread_.joinable()) {
    return;
  }
  PC_ASSERT(thread_.get_id() != std::this_thread::get_id());
  stop_.store(true, std::memory_order_relaxed);  // wake's read-modify-write orders it before the
                                                 // thread's next look
  event_->wake();
  thread_.join();
}

void AgentThread::run() noexcept {
  Nanos now = options_.clock.now();
  // Relaxed is enough: nothing is read on the strength of it, and join orders everything.
  while (!stop_.load(std::memory_order_relaxed)) {
    const int work = agent_.poll_once(now);
    const Nanos after = options_.clock.now();
    note_turn(after - now, work);
    now = after;
    if (backoff_.after_turn(work, now) == IdleBackoff::Step::kSleep) {
      sleep(now);
      now = options_.clock.now();
    }
  }
}

void AgentThread::sleep(Nanos now) noexcept {
  event_->announce_sleep();
  // The look after the announcement: one more turn finds what was pushed before it.
  const int work = agent_.poll_once(now);
  const bool stopping = stop_.load(std::memory_order_relaxed);  // announced before, see stop()
  if (work == 0 && !stopping && agent_.prepare_sleep()) {
    const Nanos due_in = agent_.next_due(now) - now;
    const Nanos longest = std::chrono::milliseconds(options_.sleep_ms_max);
    const Nanos before = monotonic_now();
    event_->sleep(std::clamp(due_in, Nanos(0), longest), agent_.wait_fd());
    sleeps_.add();
    backoff_.after_sleep(monotonic_now() - before < longest);
  } else {
    backoff_.after_sleep(true);
  }
  event_->cancel_sleep();
}

void AgentThread::note_turn(Nanos took, int work) noexcept {
  turns_.add();
  if (work > 0) {
    busy_turns_.add();
  }
  if (took > std::chrono::milliseconds(options_.stall_ms)) {
    stalls_.add();
  }
  if (took.count() > static_cast<int64_t>(turn_ns_max_.value())) {
    turn_ns_max_.set(static_cast<uint64_t>(took.count()));
  }
}

}  // namespace peercache
