#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "controlplane/node/call_runner.h"
#include "controlplane/node/call_shared.h"
#include "controlplane/node/conductor.h"
#include "controlplane/node/fork_guard.h"
#include "controlplane/node/node.h"
#include "dataplane/engine/engine.h"
#include "dataplane/transport/shm/shm_endpoint.h"
#include "dataplane/transport/shm/shm_segment.h"

namespace peercache {

/// Region numbers of a node; the same on all nodes, though peers learn them from the hello.
inline constexpr RegionIndex kPoolRegion{1};
inline constexpr RegionIndex kHeadersRegion{2};
inline constexpr RegionIndex kDirectoryRegion{3};

/// All parts of a node, in the order in which they are built; taken down in reverse.
struct Node::State {
  explicit State(NodeOptions o) : options(std::move(o)), primed(kPrimedEntries) {}
  ~State();

  Result<void> name();
  Result<void> take_memory();
  Result<void> connect_parts();
  Result<void> open_engine();
  Result<void> open_runners();
  Result<void> wait_for_members(bool (*interrupted)());

  Result<void> check_usable() const;
  Result<CallRunner*> lease(Nanos until);
  void give_back(CallRunner& runner);
  Nanos timeout_of(uint64_t bytes, Nanos wanted) const;
  Result<CallRunner*> runner_of(NodeTicket ticket) const;
  void close();

  static constexpr uint32_t kPrimedEntries =
      65536;  // 4 MiB; as many as the largest prefixes of a few hundred requests

  NodeOptions options;
  Conductor::Identity identity;
  Clock clock;
  ForkGuard fork_guard;
  PrimedLocations primed;
  SequenceSource sequences;
  RoutesCell routes;
  std::unique_ptr<PeerDirectory> peers = std::make_unique<PeerDirectory>();

  std::unique_ptr<Conductor> conductor;  // its thread is stopped first, see close()
  std::unique_ptr<ShmSegment> pool_segment;
  std::unique_ptr<ShmSegment> headers_segment;
  std::unique_ptr<ShmSegment> directory_segment;
  std::unique_ptr<ShmEndpoint> endpoint;
  std::unique_ptr<PublishedPool> pool;
  PoolClient* conductor_client = nullptr;
  PeerIndex self{0};
  std::unique_ptr<Engine> engine;
  std::unique_ptr<CallShared> shared;
  std::vector<std::unique_ptr<CallRunner>> runners;  // by client index
  std::vector<PoolClient*> pool_clients;

  // Of the client that a ticket keeps: written by the thread that holds the ticket.
  struct Lease {
    std::atomic<uint32_t> generation_id{0};
    std::atomic<bool> ticket{false};
  };
  std::array<Lease, limits::kClientsMax> leases;
  std::atomic<bool> closed{false};
};

}  // namespace peercache
