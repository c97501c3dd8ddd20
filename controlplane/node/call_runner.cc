#include "controlplane/node/call_runner.h"

#include <algorithm>
#include <cerrno>
#include <sys/epoll.h>

#include "dataplane/base/assert.h"
#include "dataplane/base/ordering.h"

namespace peercache {
namespace {

// Notices are hints; this holds those of two full batches.
constexpr uint32_t kNoticeEntries = 8192;

// How long sleep() spins before it blocks: about what a wake-up costs.
constexpr Nanos kSpin = std::chrono::microseconds(20);

}  // namespace

Result<std::unique_ptr<CallRunner>> CallRunner::open(const CallShared& shared,
                                                     Client& client,
                                                     PoolClient& pool_client) {
  UniqueFd events(epoll_create1(EPOLL_CLOEXEC));
  if (!events) return make_system_error(Errc::kSystem, errno, "epoll of a client");
  for (const int fd : {client.event_fd(), pool_client.event().fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(events.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return make_system_error(Errc::kSystem, errno, "epoll of a client");
    }
  }
  return std::unique_ptr<CallRunner>(
      new CallRunner(shared, client, pool_client, std::move(events)));
}

CallRunner::CallRunner(const CallShared& shared,
                       Client& client,
                       PoolClient& pool_client,
                       UniqueFd events)
    : shared_(shared),
      client_(client),
      pool_client_(pool_client),
      events_(std::move(events)),
      notices_(kNoticeEntries),
      lookup_round_(shared, client_),
      peer_counters_(std::make_unique<PeerCounters[]>(limits::kPeersMax)) {}

CallRunner::~CallRunner() { PC_ASSERT(idle()); }

void CallRunner::begin(Kind kind,
                       std::span<const Key128> keys,
                       std::span<KeyStatus> statuses,
                       Nanos deadline_at) {
  PC_ASSERT(idle());
  PC_ASSERT(statuses.size() == keys.size(), statuses.size(), keys.size());
  kind_ = kind;
  keys_ = keys;
  statuses_ = statuses;
  began_at_ = shared_.clock.now();
  deadline_at_ = deadline_at;
  cancelled_ = false;
  retrying_ = false;
  cursor_ = 0;
  leading_hits_count_ = 0;
  retry_.clear();
  plans_.assign(keys.size(), KeyPlan{});
  std::fill(statuses.begin(), statuses.end(), KeyStatus::kPending);
  routes_ = shared_.routes.get();
  find_own();
}

void CallRunner::begin_exists(std::span<const Key128> keys,
                              std::span<KeyStatus> statuses,
                              Nanos deadline_at) {
  if (statuses.empty()) {
    own_statuses_.resize(keys.size());
    statuses = own_statuses_;
  }
  begin(Kind::kExists, keys, statuses, deadline_at);
  counters_.exists_calls.add();
  counters_.exists_keys.add(keys.size());
  start_lookups();
  stage_ = Stage::kLookup;
}

void CallRunner::begin_get(const ObjectBatch& batch,
                           std::span<KeyStatus> statuses,
                           Nanos deadline_at) {
  batch_ = batch;
  begin(Kind::kGet, batch.keys, statuses, deadline_at);
  counters_.get_calls.add();
  counters_.get_keys.add(batch.keys.size());
  find_primed();
  start_lookups();
  stage_ = Stage::kLookup;
}

void CallRunner::begin_put(const ObjectBatch& batch,
                           const PrefixPlace& place,
                           std::span<KeyStatus> statuses,
                           Nanos deadline_at) {
  batch_ = batch;
  place_ = place;
  unpublished_.waiting = false;
  begin(Kind::kPut, batch.keys, statuses, deadline_at);
  counters_.put_calls.add();
  counters_.put_keys.add(batch.keys.size());
  start_lookups();
  stage_ = Stage::kLookup;
}

bool CallRunner::step() {
  PC_ASSERT(!idle());
  const Nanos now = shared_.clock.now();
  progressed_ = false;
  if (!advance(now)) return false;
  end(shared_.clock.now());
  return true;
}

/// One stage after the other; true when the call is over.
bool CallRunner::advance(Nanos now) {
  for (;;) {
    switch (stage_) {
      case Stage::kIdle:
        return true;
      case Stage::kLookup:
        if (!finish_lookups()) return false;
        if (kind_ == Kind::kExists) {
          report_exists();
          return true;
        }
        if (kind_ == Kind::kPut) {
          report_held();
          announce_wanted();
        }
        stage_ = kind_ == Kind::kPut ? Stage::kCopy : Stage::kReadSubmit;
        break;
      case Stage::kReadSubmit:
        if (submit_reads()) {
          stage_ = Stage::kReadWait;
        } else if (cursor_ >= keys_.size()) {
          if (!start_retry()) return true;
          stage_ = Stage::kLookup;
        }
        break;
      case Stage::kReadWait:
        if (!collect_reads()) return false;
        stage_ = Stage::kReadSubmit;
        break;
      case Stage::kCopy:
        return copy_some(now);
    }
  }
}

void CallRunner::announce_wanted() {
  // Runs of one length: most calls have one, hybrid models a few.
  uint32_t run_bytes = 0;
  uint32_t run_count = 0;
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    if (statuses_[i] != KeyStatus::kPending) continue;
    const uint32_t length_bytes = object_bytes(i);
    if (run_count > 0 && length_bytes != run_bytes) {
      pool_client_.announce(class_of(run_bytes), run_count);
      run_count = 0;
    }
    run_bytes = length_bytes;
    ++run_count;
  }
  if (run_count > 0) pool_client_.announce(class_of(run_bytes), run_count);
}

void CallRunner::end(Nanos now) {
  uint64_t misses_count = 0;
  for (KeyStatus& status : statuses_) {
    if (status == KeyStatus::kPending) {
      status = cancelled_            ? KeyStatus::kCancelled
               : now >= deadline_at_ ? KeyStatus::kDeadline
                                     : KeyStatus::kMiss;
    }
    if (kind_ == Kind::kGet && status != KeyStatus::kHitOwn && status != KeyStatus::kHitPeer) {
      ++misses_count;
    }
  }
  if (kind_ == Kind::kGet) {
    counters_.get_misses.add(misses_count);
    touch_own_hits();
  }
  LatencyHistogram& latency = kind_ == Kind::kExists ? counters_.exists_latency
                              : kind_ == Kind::kGet  ? counters_.get_latency
                                                     : counters_.put_latency;
  latency.record(now - began_at_);
  if (now >= deadline_at_) counters_.deadline_misses.add();
  if (now >= deadline_at_ + kOutlivedAfter) counters_.outlived.add();
  if (noticed_) {
    shared_.conductor.wake();
    noticed_ = false;
  }
  routes_.reset();
  stage_ = Stage::kIdle;
}

void CallRunner::touch_own_hits() {
  touched_.clear();
  for (size_t i = keys_.size(); i-- > 0;) {
    if (statuses_[i] == KeyStatus::kHitOwn) touched_.push_back(keys_[i]);
  }
  if (!touched_.empty()) pool_client_.touch(touched_);
}

void CallRunner::cancel() { cancelled_ = true; }

bool CallRunner::wait(Nanos until) {
  for (;;) {
    if (step()) return true;
    if (progressed_) continue;
    const Nanos now = shared_.clock.now();
    if (now >= until) return false;
    if (now - began_at_ < kSpin) {
      cpu_pause();
      continue;
    }
    if (!announce_sleep()) continue;
    // The second look, after the announcement: what came before it would not wake us.
    if (step()) {
      cancel_sleep();
      return true;
    }
    if (!progressed_) block(std::min(until, expired(now) ? until : deadline_at_) - now);
    cancel_sleep();
  }
}

bool CallRunner::poll() {
  cancel_sleep();
  if (step()) return true;
  // Left armed, so that event_fd() becomes readable; what the caller itself must go on with makes it readable now.
  if (progressed_ || !announce_sleep()) {
    pool_client_.event().wake();
    return false;
  }
  if (step()) {
    cancel_sleep();
    return true;
  }
  if (progressed_) pool_client_.event().wake();
  return false;
}

/// False if there is work to collect already.
bool CallRunner::announce_sleep() {
  pool_client_.event().announce_sleep();
  return client_.arm_event();
}

void CallRunner::cancel_sleep() {
  pool_client_.event().cancel_sleep();
  pool_client_.event().consume();
}

void CallRunner::block(Nanos longest) {
  const auto timeout_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(longest).count() + 1;
  std::array<epoll_event, 2> events{};
  static_cast<void>(epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()),
                               static_cast<int>(std::max<int64_t>(timeout_ms, 1))));
}

}  // namespace peercache
