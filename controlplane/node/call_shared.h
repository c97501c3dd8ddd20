#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "controlplane/node/directory_routes.h"
#include "controlplane/node/node_options.h"
#include "controlplane/node/primed_locations.h"
#include "dataplane/base/clock.h"
#include "dataplane/base/units.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/engine/peer_directory.h"
#include "dataplane/pool/published_pool.h"

namespace peercache {

/// A lookup by RPC, for holders whose table the data plane cannot read (yet). Filled in by the conductor.
///
/// THREAD:     the asking call until it is handed over; then the conductor, until `done`.
struct RpcLookup {
  std::vector<Key128> keys;
  std::vector<LookupResult> results;
  uint32_t holder_index = 0;  ///< in `routes`
  std::shared_ptr<const DirectoryRoutes> routes;
  Nanos deadline_at{0};
  WakeEvent* event = nullptr;  ///< of the asking client; outlives the conductor's calls
  std::atomic<bool> done{
      false};  // D1 release by the conductor: meets D2 in the call; the results are complete.
};

/// What calls need of the conductor without waiting for it.
class ConductorDoor {
 public:
  virtual ~ConductorDoor() = default;
  /// Any thread. The conductor sets `done` at the deadline at the latest.
  virtual void ask(std::shared_ptr<RpcLookup> lookup) = 0;
  /// After a push into a notice ring.
  virtual void wake() = 0;
};

/// Stamps for directory records: max(previous + 1, microseconds since the epoch).
///
/// THREAD:     any. One read-modify-write per published object; a ring per client would order nothing across them.
class SequenceSource {
 public:
  Sequence next() noexcept {
    const auto now_us =
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count());
    uint64_t last =
        last_.load(std::memory_order_relaxed);  // relaxed: only uniqueness and growth matter
    uint64_t mine = 0;
    do {
      mine = std::max(last + 1, now_us);
    } while (!last_.compare_exchange_weak(last, mine, std::memory_order_relaxed));  // as above
    return Sequence(mine);
  }

 private:
  std::atomic<uint64_t> last_{0};
};

/// What all calls of a node share. Built by the composition root before the first call.
///
/// THREAD:     any; every part says by itself who may write.
/// BORROWS:    all of it; outlives the calls.
struct CallShared {
  const NodeOptions& options;
  const Clock& clock;
  PublishedPool& pool;
  const PeerDirectory& peers;
  RoutesCell& routes;
  PrimedLocations& primed;
  SequenceSource& sequences;
  ConductorDoor& conductor;
  PeerIndex self;
  NodeId node;
  Incarnation incarnation;
};

}  // namespace peercache
