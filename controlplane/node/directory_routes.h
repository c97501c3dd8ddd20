#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controlplane/directory/hash_ring.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/thread_role.h"
#include "dataplane/base/units.h"
#include "dataplane/engine/peer_directory.h"
#include "dataplane/wire/wire_types.h"

namespace peercache {

/// Where lookups go: an immutable snapshot of the ring and of what the data plane reaches of it. The conductor makes a new
/// one whenever a member or a connection changes; a call keeps the one it began with.
///
/// THREAD:     immutable after construction.
struct DirectoryRoutes {
  struct Holder {
    PeerIndex peer = PeerDirectory::kNone;  ///< kNone: not connected, ask by RPC
    RegionIndex table{0};                   ///< directory region at the peer
    uint32_t member_index = 0;              ///< in the view of `epoch`
    bool live = false;  ///< false: asking is pointless, its keys have other replicas or miss
  };

  Epoch epoch{0};
  std::shared_ptr<const HashRing> ring;
  std::vector<Holder> holders;  ///< as the ring numbers them
  uint32_t replicas_count = 1;
};

/// The current routes.
///
/// THREAD:     `set` by the conductor; `get` by any, once per call.
/// A mutex, not a ring: it is held for two reference counts, once per call, and a shared_ptr has no lock-free form here.
class RoutesCell {
 public:
  void set(std::shared_ptr<const DirectoryRoutes> routes) PC_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    routes_ = std::move(routes);
  }
  std::shared_ptr<const DirectoryRoutes> get() const PC_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return routes_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const DirectoryRoutes> routes_ PC_GUARDED_BY(mutex_);
};

}  // namespace peercache
