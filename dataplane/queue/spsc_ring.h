#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "dataplane/base/assert.h"
#include "dataplane/base/cacheline.h"
#include "dataplane/base/ordering.h"

namespace peercache {

/// A bounded ring from one producer to one consumer. What does not fit is not taken: push says so
/// and the caller decides. Each side keeps a copy of the other's index and looks at the other's
/// line only when the copy is used up.
///
/// THREAD:     push*: the producer; pop*: the consumer; size_approx, peek_unconsumed: any.
/// OWNS:       `capacity` entries, taken at construction.
/// INVARIANTS: (I1) head <= tail <= head + capacity; both count up for ever (64 bits do not wrap).
///             (I2) entries [head, tail) are the consumer's to read, all others the producer's to
///             write.
/// COST:       no allocation, lock or system call after construction; one shared line per batch in
/// the steady state.
template <class T>
class SpscRing {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  /// REQUIRES: capacity is a power of two.
  explicit SpscRing(size_t capacity)
      : mask_(capacity - 1), entries_(std::make_unique<T[]>(capacity)) {
    PC_ASSERT(capacity != 0 && (capacity & (capacity - 1)) == 0, capacity);
  }
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  [[nodiscard]] size_t capacity() const noexcept { return mask_ + 1; }

  /// False if the ring is full.
  [[nodiscard]] bool push(const T& entry) noexcept {
    return push_many(std::span<const T>(&entry, 1)) == 1;
  }

  /// Takes as many of `entries` as fit, in order, and returns their number; they become visible
  /// together.
  [[nodiscard]] size_t push_many(std::span<const T> entries) noexcept {
    const uint64_t tail = producer_.tail.load(std::memory_order_relaxed);  // its own index
    if (capacity() - static_cast<size_t>(tail - producer_.head_seen) < entries.size()) {
      // R2 acquire: meets W2 in pop_many; entries below head have been copied out and may be
      // overwritten.
      producer_.head_seen = consumer_.head.load(std::memory_order_acquire);
    }
    const size_t room = capacity() - static_cast<size_t>(tail - producer_.head_seen);
    const size_t count = std::min(room, entries.size());
    for (size_t i = 0; i < count; ++i) {
      entries_[static_cast<size_t>(tail + i) & mask_] = entries[i];
    }
    // W1 release: meets R1 in pop_many; the entries below tail are readable.
    producer_.tail.store(tail + count, std::memory_order_release);
    return count;
  }

  /// How many entries would fit now; more may fit later.
  [[nodiscard]] size_t room() noexcept {
    const uint64_t tail = producer_.tail.load(std::memory_order_relaxed);  // its own index
    // R2 acquire: as in push_many.
    producer_.head_seen = consumer_.head.load(std::memory_order_acquire);
    return capacity() - static_cast<size_t>(tail - producer_.head_seen);
  }

  /// False if the ring is empty.
  [[nodiscard]] bool pop(T& entry) noexcept { return pop_many(std::span<T>(&entry, 1)) == 1; }

  /// Moves up to `entries.size()` entries out, oldest first, and returns their number.
  [[nodiscard]] size_t pop_many(std::span<T> entries) noexcept {
    const uint64_t head = consumer_.head.load(std::memory_order_relaxed);  // its own index
    if (static_cast<size_t>(consumer_.tail_seen - head) < entries.size()) {
      // R1 acquire: meets W1 in push_many; entries below tail are readable.
      consumer_.tail_seen = producer_.tail.load(std::memory_order_acquire);
    }
    const size_t ready = static_cast<size_t>(consumer_.tail_seen - head);
    const size_t count = std::min(ready, entries.size());
    for (size_t i = 0; i < count; ++i) {
      entries[i] = entries_[static_cast<size_t>(head + i) & mask_];
    }
    if (count != 0) {
      // W2 release: meets R2 in push_many; the entries below head have been read.
      consumer_.head.store(head + count, std::memory_order_release);
    }
    return count;
  }

  /// Entries in the ring, as of some moment during the call.
  [[nodiscard]] size_t size_approx() const noexcept {
    // Relaxed is enough: a hint. Head first, so that the difference is not negative for the two
    // owners.
    const uint64_t head = consumer_.head.load(std::memory_order_relaxed);
    const uint64_t tail = producer_.tail.load(std::memory_order_relaxed);
    return tail > head ? std::min(static_cast<size_t>(tail - head), capacity()) : 0;
  }

  /// Calls fn(const T&) with a copy of each entry in [head, tail), oldest first, without consuming
  /// any; stops early when fn returns false (if it returns bool). Any third thread may do so while
  /// producer and consumer work: a copy may be of an entry that was consumed meanwhile, or a
  /// mixture of two. Only for hints that are validated elsewhere
  /// ("is a put of this key still queued?"), never to act on an entry.
  template <std::invocable<const T&> Fn>
  void peek_unconsumed(Fn&& fn) const noexcept {
    // R3 acquire: meets W2 in pop_many; only bounds the scan.
    uint64_t head = consumer_.head.load(std::memory_order_acquire);
    // R4 acquire: meets W1 in push_many; entries below tail have been written at least once.
    const uint64_t tail = producer_.tail.load(std::memory_order_acquire);
    if (tail - head > capacity()) {
      head = tail - capacity();  // the consumer went on between the two loads
    }
    for (uint64_t at = head; at != tail; ++at) {
      T copy;
      racy_copy(&copy, &entries_[static_cast<size_t>(at) & mask_], sizeof(T));
      if constexpr (std::same_as<std::invoke_result_t<Fn&, const T&>, bool>) {
        if (!fn(std::as_const(copy))) {
          return;
        }
      } else {
        fn(std::as_const(copy));
      }
    }
  }

 private:
  struct alignas(kFalseSharingBytes) Producer {
    std::atomic<uint64_t> tail{0};
    uint64_t head_seen = 0;
  };
  struct alignas(kFalseSharingBytes) Consumer {
    std::atomic<uint64_t> head{0};
    uint64_t tail_seen = 0;
  };

  const size_t mask_;
  const std::unique_ptr<T[]> entries_;
  Producer producer_;
  Consumer consumer_;
};

}  // namespace peercache
