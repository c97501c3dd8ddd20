#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "dataplane/base/units.h"

namespace peercache {

/// Leases client numbers to calls, the one returned last first (its scratch is warm).
///
/// THREAD:     any.
/// A mutex, not a ring: many threads take and give back, once per call, and a caller must be able to wait with a deadline
/// until another's call ends.
class ClientPool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit ClientPool(uint32_t count) {
    for (uint32_t i = count; i-- > 0;) free_.push_back(i);
  }

  /// Takes a client; kNone when none came back in time, or after close().
  uint32_t lease(Nanos longest) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool ready = returned_.wait_for(lock, longest, [this] { return closed_ || !free_.empty(); });
    if (!ready || closed_) return kNone;
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }

  void give_back(uint32_t index) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      free_.push_back(index);
    }
    returned_.notify_all();
  }

  /// No lease any more; waits until all are back. False if some were not after `longest`.
  bool close(uint32_t count, Nanos longest) {
    std::unique_lock<std::mutex> lock(mutex_);
    closed_ = true;
    returned_.notify_all();
    return returned_.wait_for(lock, longest, [&] { return free_.size() == count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<uint32_t> free_;
  bool closed_ = false;
};

}  // namespace peercache
