#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/clock.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/transport/sim/sim_faults.h"
#include "dataplane/transport/sim/sim_random.h"
#include "dataplane/wire/region_descriptor.h"

namespace peercache {

class SimTransport;

/// Names a simulated node (the owner of memory) within its fabric.
using SimNode = StrongId<struct SimNodeTag, uint16_t>;

/// A region of a simulated node. BORROWS: `memory`, which outlives the fabric's use of the node.
struct SimRegion {
  RegionDescriptor descriptor{};
  std::byte* memory = nullptr;
};

/// THREAD: any; a value.
struct SimFabricOptions {
  uint64_t seed = 1;
  uint32_t nodes_max_count = 64;
  uint32_t transports_max_count = 32;
  /// For code that waits: a poll that finds nothing takes a few steps of the fabric, or lets
  /// idle_tick_ns pass when no event is pending. Otherwise only step and run_until move the time.
  bool drive_on_poll = false;
  /// Steps of one such poll, unless something completes before
  uint32_t drive_events_max_count = 16;
  uint64_t idle_tick_ns = 10'000;
};

/// The simulated network: nodes with memory, links with faults, and virtual time that moves from
/// event to event. The same seed and the same calls give the same run.
///
/// THREAD:     everything attached to a fabric runs on one thread.
/// OWNS:       the virtual clock and a heap of events, sized for all attached transports when they
///             attach.
/// BORROWS:    the memory of nodes; attached transports (they detach when they are destroyed,
///             before the fabric).
/// INVARIANTS: (S1) time never goes back, and no event lies before now. (S2) each request in flight
///             that is not lost has exactly one event; each fence has one.
/// COST:       one heap step per event; a READ takes two events, a torn one up to kSimChunksMax +
///             1.
class SimFabric {
 public:
  /// Called before each event is executed, at its time: a test's writers do their work here. No
  /// allocation needed.
  using Hook = void (*)(void* context, Nanos now);

  explicit SimFabric(SimFabricOptions options);
  SimFabric(const SimFabric&) = delete;
  SimFabric& operator=(const SimFabric&) = delete;
  ~SimFabric();

  /// Adds a node. Errors: kTooManyPeers, kTooManyRegions, kNoSuchRegion (index too large),
  /// kAlreadyExists (region twice).
  Result<SimNode> add_node(std::span<const SimRegion> regions);

  // Faults, at any time: of all links (also those of transports still to come), of a rail, towards
  // a node, of one link.
  void set_faults(const SimFaults& faults);
  void set_rail_faults(const SimTransport& rail, const SimFaults& faults);
  void set_node_faults(SimNode node, const SimFaults& faults);
  SimFaults& link(const SimTransport& rail, SimNode node);

  /// The node dies: requests towards it end as kPeerLost at their next step, and its memory is not
  /// touched any more.
  void kill(SimNode node);
  void revive(SimNode node);

  // Time.
  [[nodiscard]] Clock clock() const noexcept { return clock_.clock(); }
  [[nodiscard]] Nanos now() const noexcept { return clock_.now(); }
  /// When the next event is due; nothing if none is pending.
  [[nodiscard]] std::optional<Nanos> next_event_at() const noexcept;
  /// Advances to the next event and executes it. False if there is none.
  bool step() noexcept;
  /// Executes all events up to and including `until`, then sets the time to it.
  void run_until(Nanos until) noexcept;
  /// One event, or idle_tick_ns if none is pending. True if it was an event.
  bool drive() noexcept;

  void set_hook(Hook hook, void* context) noexcept;

  [[nodiscard]] uint64_t events_count() const noexcept { return events_count_; }
  void check_invariants() const;

 private:
  friend class SimTransport;

  enum class EventKind : uint8_t { kOperation, kFence };
  struct Event {
    int64_t at_ns;
    uint64_t order;  // of creation: decides between events of one time
    // kFence: flushes what was posted before this; kOperation: identity of the request
    uint64_t posted_before;
    uint16_t transport;
    uint16_t subject;  // request slot, or peer
    EventKind kind;
  };
  struct Node {
    std::array<SimRegion, limits::kRegionsPerNodeMax> regions{};
    bool alive = true;
  };

  uint16_t attach(SimTransport& transport, uint32_t events_max_count);
  void detach(uint16_t transport) noexcept;
  /// Removes the events of a transport's requests that have ended otherwise, so that (S2) holds.
  /// O(events).
  void drop_dead_events(uint16_t transport) noexcept;
  void schedule(int64_t at_ns,
                EventKind kind,
                uint16_t transport,
                uint16_t subject,
                uint64_t posted_before) noexcept;
  const SimFaults& link(uint16_t transport, SimNode node) const noexcept;
  static bool later(const Event& a, const Event& b) noexcept;

  const SimFabricOptions options_;
  ManualClock clock_;
  SimRandom random_;
  SimFaults default_faults_{};
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<SimTransport*> transports_;
  std::vector<SimFaults> links_;  // [transport][node]
  std::vector<Event> heap_;
  size_t events_max_count_ = 0;
  uint64_t next_order_ = 0;
  uint64_t events_count_ = 0;
  Hook hook_ = nullptr;
  void* hook_context_ = nullptr;
};

}  // namespace peercache
