#pragma once

#include <atomic>
#include <cstdint>

namespace peercache {

/// A count that one thread writes and any thread reads. No read-modify-write: the writer knows its
/// own value.
///
/// THREAD:     add, set: one writer; value: any.
/// COST:       add is a load and a store of the writer's own line, no locked instruction.
class Counter {
 public:
  Counter() = default;
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  void add(uint64_t count = 1) noexcept {
    // Relaxed is enough: the only writer reads back its own value, and readers want a recent
    // number, not an order.
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }

  /// For gauges: the latest value replaces the former.
  void set(uint64_t value) noexcept {
    value_.store(value, std::memory_order_relaxed);  // as above
  }

  [[nodiscard]] uint64_t value() const noexcept {
    return value_.load(std::memory_order_relaxed);  // as above
  }

 private:
  std::atomic<uint64_t> value_{0};
};
static_assert(sizeof(Counter) == 8 && std::atomic<uint64_t>::is_always_lock_free);

}  // namespace peercache
