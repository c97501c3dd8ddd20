#include "dataplane/rail/rail_health.h"

#include <algorithm>
#include <chrono>

namespace peercache {

RailHealth::RailHealth(const RailOptions& options) noexcept
    : down_after_count_(options.down_after_errors_count),
      up_after_count_(options.up_after_successes_count),
      backoff_min_(std::chrono::milliseconds(options.probe_backoff_ms_min)),
      backoff_max_(std::chrono::milliseconds(options.probe_backoff_ms_max)),
      backoff_(backoff_min_) {}

void RailHealth::on_successes(uint32_t count) noexcept {
  if (count == 0 || state_ == RailState::kDown) {
    return;  // successes of a rail that is down are late ones; only a probe brings it back
  }
  errors_count_ = 0;
  errors_of_two_peers_ = false;
  if (state_ == RailState::kDegraded) {
    successes_count_ += count;
    if (successes_count_ >= up_after_count_) {
      state_ = RailState::kUp;
      backoff_ = backoff_min_;
    }
  }
}

void RailHealth::on_error(PeerIndex peer, uint32_t peers_count, Nanos now) noexcept {
  if (state_ == RailState::kDown) {
    return;
  }
  errors_of_two_peers_ = errors_of_two_peers_ || (errors_count_ != 0 && peer != error_peer_);
  error_peer_ = peer;
  ++errors_count_;
  successes_count_ = 0;
  state_ = RailState::kDegraded;
  if (errors_count_ >= down_after_count_ && (errors_of_two_peers_ || peers_count <= 1)) {
    go_down(now);
  }
}

void RailHealth::on_link(bool up, Nanos now) noexcept {
  link_up_ = up;
  if (!up) {
    go_down(now);
  } else if (state_ == RailState::kDown) {
    probe_due_at_ = now;
  }
}

Nanos RailHealth::probe_due_at() const noexcept {
  return state_ == RailState::kDown && link_up_ ? probe_due_at_ : Nanos::max();
}

void RailHealth::on_probe_posted(Nanos now) noexcept {
  probe_due_at_ = now + backoff_;
  backoff_ = std::min(2 * backoff_, backoff_max_);
}

void RailHealth::on_probe_ok() noexcept {
  if (state_ != RailState::kDown || !link_up_) {
    return;
  }
  state_ = RailState::kDegraded;
  errors_count_ = 0;
  errors_of_two_peers_ = false;
  successes_count_ = 0;
  // The back-off stays as it grew until the rail has proved itself, so that a flapping one is
  // probed ever less often.
}

void RailHealth::go_down(Nanos now) noexcept {
  state_ = RailState::kDown;
  // The first time it is tried again at once: a burst of errors may be over already.
  probe_due_at_ = backoff_ == backoff_min_ ? now : now + backoff_;
}

}  // namespace peercache
