#pragma once

#include <cstdint>

#include "dataplane/base/units.h"
#include "dataplane/rail/rail_handle.h"
#include "dataplane/rail/rail_options.h"

namespace peercache {

/// Decides whether a rail is up, degraded or down. Pure: it is told what happened and when, and
/// answers.
///
///   up        --error-->                                   degraded
///   degraded  --successes without an error between-->      up
///   any       --errors without a success between, or link down-->   down
///   down      --a probe succeeds, or link up and a probe-->         degraded   (it is taken back
///   at once)
///   down      --a probe fails-->                           down, and the next probe later
///
/// Errors towards one peer alone do not bring a rail down that has other peers: then the peer is
/// the suspect.
///
/// THREAD: owned by the rail's driver.
class RailHealth {
 public:
  explicit RailHealth(const RailOptions& options) noexcept;

  [[nodiscard]] RailState state() const noexcept { return state_; }

  /// `count` operations succeeded.
  void on_successes(uint32_t count) noexcept;

  /// An operation or probe towards `peer` failed or timed out; `peers_count` peers are connected to
  /// this rail.
  void on_error(PeerIndex peer, uint32_t peers_count, Nanos now) noexcept;

  /// The port says so itself.
  void on_link(bool up, Nanos now) noexcept;

  /// When the rail wants to be probed; Nanos::max() unless it is down and its link is not.
  [[nodiscard]] Nanos probe_due_at() const noexcept;
  /// The probe is under way: the next one is due after the back-off.
  void on_probe_posted(Nanos now) noexcept;
  void on_probe_ok() noexcept;

 private:
  void go_down(Nanos now) noexcept;

  const uint32_t down_after_count_;
  const uint32_t up_after_count_;
  const Nanos backoff_min_;
  const Nanos backoff_max_;

  RailState state_ = RailState::kUp;
  bool link_up_ = true;
  uint32_t errors_count_ = 0;     // since the last success
  uint32_t successes_count_ = 0;  // since the last error, counted while degraded
  bool errors_of_two_peers_ = false;
  PeerIndex error_peer_{0};
  Nanos backoff_;
  Nanos probe_due_at_ = Nanos::max();
};

}  // namespace peercache
