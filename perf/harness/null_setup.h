#pragma once

#include <memory>
#include <vector>

#include "dataplane/engine/client.h"
#include "dataplane/engine/engine.h"
#include "dataplane/rail/managed_rail.h"
#include "dataplane/transport/null/null_transport.h"

namespace peercache::perf {

/// A peer with published slots behind the null device, and an engine over it: what remains of an operation's cost is ours.
///
/// THREAD:     the benchmark's main thread, plus the rail's if `threaded`.
class NullSetup {
 public:
  static constexpr uint32_t kSlots = 4096;
  static constexpr uint32_t kObjectBytes = 4096;

  enum class Time : uint8_t {
    kReal,
    kStill,  ///< time stands still: the same instructions in every run, also under an instrumenting simulator
  };
  /// REQUIRES: clients_count <= limits::kClientsMax; kReal if threaded.
  NullSetup(bool threaded, uint32_t clients_count, Time time = Time::kReal);
  ~NullSetup();
  NullSetup(const NullSetup&) = delete;
  NullSetup& operator=(const NullSetup&) = delete;

  /// `count` READs of the peer's slots from `first` on, into one buffer (nothing is written there).
  std::vector<Op> make_batch(uint32_t first, uint32_t count, Validation validation) const;

  Client& client(uint32_t i) { return *clients_[i]; }
  RailHandle& rail() { return *rail_; }
  const Clock& clock() const { return clock_; }

  /// Submits the batch, drives it to its end, and gives its ticket back. With a threaded rail it only polls.
  void run_batch(Client& client, const std::vector<Op>& batch);

 private:
  bool threaded_;
  ManualClock still_{std::chrono::seconds(1)};
  Clock clock_;
  PeerDirectory peers_;
  PeerIndex peer_{0};
  std::vector<SlotHeader> headers_;
  std::vector<std::byte> buffer_;
  std::vector<LocalPiece> pieces_;
  ManagedRail* rail_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::vector<Client*> clients_;
};

}  // namespace peercache::perf
