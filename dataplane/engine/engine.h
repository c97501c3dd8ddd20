#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/base/clock.h"
#include "dataplane/base/counters.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/thread_role.h"
#include "dataplane/engine/client.h"
#include "dataplane/engine/engine_options.h"
#include "dataplane/engine/engine_stats.h"
#include "dataplane/engine/peer_directory.h"
#include "dataplane/rail/rail_handle.h"

namespace peercache {

/// The rails of an engine: those that all clients share, each with a thread of its own, and for every client those
/// that it drives itself (shm).
///
/// THREAD:     any; a value that is moved into the engine.
struct EngineRails {
  std::vector<std::unique_ptr<RailHandle>> shared;
  std::vector<std::vector<std::unique_ptr<RailHandle>>> of_client;  ///< empty, or one list per client
};

/// Owns rails and a fixed number of clients, and lends the clients to calls.
///
/// The mutex: leases are taken and given back by any application thread, many at a time on both sides, and a taker has to
/// sleep until a deadline when none is left; an SPSC ring has one thread at each end and no such sleep. It is taken twice
/// per call (not per operation), held for a few instructions, and never by a rail.
///
/// THREAD:     open and destructor: the composition root; lease, give_back, stats: any.
/// OWNS:       clients and rails. BORROWS: the peer directory.
/// INVARIANTS: (E1) a client is leased at most once at a time. (E2) the client given back last is lent first: its records
///             and lanes are still in a cache.
/// COST:       lease and give_back: one uncontended lock, no allocation; a system call only to wait or to end a wait.
class Engine {
 public:
  /// Opens all clients and attaches their lanes. Errors: kOutOfRange (too many clients or rails), kSystem, and those of
  /// RailHandle::attach_lane.
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options,
                                              EngineRails rails,
                                              const PeerDirectory& peers,
                                              const Clock& clock);
  /// REQUIRES: all clients are given back; no thread drives a rail any more.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Lends a client; waits until `until` for one. Errors: kBusy with the number of clients.
  Result<Client*> lease(Nanos until);

  /// Takes a client back. REQUIRES: it is quiet (no batch under way) and its tickets are released by their owner.
  void give_back(Client& client);

  /// The rails that need a thread, for the composition root to run.
  [[nodiscard]] const std::vector<std::unique_ptr<RailHandle>>& shared_rails() const { return rails_.shared; }

  [[nodiscard]] uint32_t client_count() const { return static_cast<uint32_t>(clients_.size()); }

  [[nodiscard]] EngineStats stats() const;

 private:
  Engine(EngineRails rails, const Clock& clock);

  const Clock clock_;
  EngineRails rails_;                             // after the clients in destruction: lanes are theirs
  std::vector<std::unique_ptr<Client>> clients_;

  mutable Mutex lease_mutex_;
  std::condition_variable_any returned_;
  std::array<Client*, limits::kClientsMax> idle_ PC_GUARDED_BY(lease_mutex_){};
  uint32_t idle_count_ PC_GUARDED_BY(lease_mutex_) = 0;
  uint32_t leased_mask_ PC_GUARDED_BY(lease_mutex_) = 0;  // bit per client, for (E1)
  uint64_t leases_ PC_GUARDED_BY(lease_mutex_) = 0;
  uint64_t lease_waits_ PC_GUARDED_BY(lease_mutex_) = 0;
  uint64_t lease_busy_ PC_GUARDED_BY(lease_mutex_) = 0;
};

}  // namespace peercache
