#pragma once

#include <cstdint>
#include <memory>
#include <Python.h>
#include <utility>
#include <vector>

#include "dataplane/base/clock.h"
#include "dataplane/base/units.h"

namespace peercache {

class Node;

/// Knows which nodes are open and which calls run without the interpreter's lock, so that the
/// interpreter can end while threads are inside a call: they are brought back first. A thread that
/// came back later would be ended by Python in the middle of C++ frames, and that aborts the
/// process.
///
/// THREAD:     any that holds the interpreter's lock; that lock guards every member.
/// INVARIANTS: (C1) after shut() no call leaves the lock any more (check_gate in bind_errors.h
/// refuses it).
class CallGate {
 public:
  /// The one of this process; it lives until the process ends.
  static CallGate& of_process();

  void add_node(const std::shared_ptr<Node>& node);
  [[nodiscard]] bool is_shut() const noexcept { return shut_; }

  /// Refuses further calls, closes all nodes and waits at most `timeout` until nobody is inside.
  /// Says whether so.
  bool shut(Nanos timeout);

  void enter() noexcept { ++inside_count_; }
  void leave() noexcept { --inside_count_; }
  void count(Nanos held, uint64_t keys) noexcept {
    ++calls_count_;
    keys_count_ += keys;
    held_ += held;
  }

  /// Totals over all batch calls: how long they held the interpreter's lock, and for how many keys.
  [[nodiscard]] uint64_t calls_count() const noexcept { return calls_count_; }
  [[nodiscard]] uint64_t keys_count() const noexcept { return keys_count_; }
  [[nodiscard]] Nanos held() const noexcept { return held_; }

 private:
  std::vector<std::weak_ptr<Node>> nodes_;
  uint32_t inside_count_ = 0;
  uint64_t calls_count_ = 0;
  uint64_t keys_count_ = 0;
  Nanos held_{0};
  bool shut_ = false;
};

/// Runs `work` without the interpreter's lock, known to the gate.
template <class Work>
auto without_lock(Work&& work) {
  /// THREAD: the calling one.
  class Unlocked {
   public:
    Unlocked() {
      CallGate::of_process().enter();
      state_ = PyEval_SaveThread();
    }
    ~Unlocked() {
      PyEval_RestoreThread(state_);
      CallGate::of_process().leave();
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

   private:
    PyThreadState* state_;
  };
  const Unlocked unlocked;
  return std::forward<Work>(work)();
}

/// Measures how long a batch call holds the interpreter's lock, from its first line to its last.
///
/// THREAD:     owned by the calling thread.
class HeldTime {
 public:
  HeldTime() noexcept : since_(monotonic_now()) {}
  ~HeldTime() { CallGate::of_process().count(held_ + (monotonic_now() - since_), keys_count_); }
  HeldTime(const HeldTime&) = delete;
  HeldTime& operator=(const HeldTime&) = delete;

  void set_keys(size_t count) noexcept { keys_count_ = count; }

  /// `work` without the lock; that time does not count.
  template <class Work>
  auto pause(Work&& work) {
    held_ += monotonic_now() - since_;
    auto result = without_lock(std::forward<Work>(work));
    since_ = monotonic_now();
    return result;
  }

 private:
  Nanos since_;
  Nanos held_{0};
  uint64_t keys_count_ = 0;
};

}  // namespace peercache
