#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "controlplane/node/node_options.h"
#include "controlplane/node/node_stats.h"
#include "dataplane/base/error.h"
#include "dataplane/base/key.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/transport/work_request.h"

namespace peercache {

/// What became of one key of a call.
enum class KeyStatus : uint8_t {
  kPending = 0,
  kHitOwn = 1,    ///< get, exists: held by this node
  kHitPeer = 2,   ///< get, exists: held by another node
  kMiss = 3,      ///< get, exists: nowhere, or lost between lookup and read
  kStored = 4,    ///< put: copied and published here
  kHeld = 5,      ///< put: a live node holds it already; nothing copied
  kNoSpace = 6,   ///< put: no free slot within the deadline
  kDeadline = 7,  ///< the call's deadline passed first
  kFailed = 8,    ///< see stats; for instance no size class fits
  kCancelled = 9,
};
const char* to_string(KeyStatus status) noexcept;

/// Keys of one call and where their bytes are: object i is pieces[piece_offsets[i] .. piece_offsets[i + 1]), concatenated.
/// Borrowed until the call (or its ticket) is done.
struct ObjectBatch {
  std::span<const Key128> keys;
  std::span<const LocalPiece> pieces;
  std::span<const uint32_t> piece_offsets;  ///< keys.size() + 1 entries
};

/// How the keys of a call stand to each other.
struct PrefixPlace {
  bool chained = true;  ///< keys are consecutive pages of one prefix, head first
  Key128 parent{};      ///< page before keys[0], or zero when unknown or none
  uint32_t first_position_index = 0;
};

/// Handle of an asynchronous call.
struct NodeTicket {
  uint32_t client_index = 0;
  uint32_t generation_id = 0;
};

/// One PeerCache instance: publishes objects into its own pool, finds and reads those of others.
///
/// THREAD:     any; each call leases one of `client_count` clients for its duration (a ticket keeps its client until it is
///             collected). Calls of different threads run at the same time.
/// OWNS:       pool, directory shard, rails, the conductor thread.
/// INVARIANTS: (N1) a key is reported as a hit only if every byte was validated against the slot it came from.
///             (N2) when a call returns nobody touches its memory any more. (N3) every call returns within its deadline plus
///             250 ms.
class Node {
 public:
  /// Starts a node. Waits up to start_timeout_ms for the other members unless `interrupted` (may be null) turns true, then
  /// runs alone and goes on looking. Errors: kMemoryBudget, kPoolTooSmall, kSystem, kBadValue, kPeerRefused, ...
  static Result<std::unique_ptr<Node>> open(const NodeOptions& options,
                                            bool (*interrupted)() = nullptr);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Prepares for objects of this length (a size class); optional. Errors: kNoSizeClass, kPoolTooSmall.
  Result<void> prepare_length(uint32_t length_bytes);

  /// Publishes objects. statuses.size() == keys.size(). A put returns when all sources have been copied or given up.
  /// A page is published whole or not at all. timeout 0: the default for its size.
  /// Errors (nothing was done): kInvalidArgument, kPieceSumMismatch, kNoSizeClass, kBusy, kClosed, kForked.
  Result<void> put(const ObjectBatch& batch,
                   const PrefixPlace& place,
                   std::span<KeyStatus> statuses,
                   Nanos timeout);

  /// Reads objects into the pieces. Bytes of keys that are no hit are undefined.
  Result<void> get(const ObjectBatch& batch, std::span<KeyStatus> statuses, Nanos timeout);

  /// Looks keys up; returns the length of the leading run of hits. `statuses` may be empty. Primes the next get.
  Result<uint32_t> exists(std::span<const Key128> keys,
                          std::span<KeyStatus> statuses,
                          Nanos timeout);

  /// Asynchronous forms: same arguments, which must stay valid until collected.
  Result<NodeTicket> submit_put(const ObjectBatch& batch,
                                const PrefixPlace& place,
                                std::span<KeyStatus> statuses,
                                Nanos timeout);
  Result<NodeTicket> submit_get(const ObjectBatch& batch,
                                std::span<KeyStatus> statuses,
                                Nanos timeout);
  Result<NodeTicket> submit_exists(std::span<const Key128> keys,
                                   std::span<KeyStatus> statuses,
                                   Nanos timeout);
  /// Makes progress; true when the call is over and its memory quiet. By one thread at a time.
  Result<bool> poll(NodeTicket ticket);
  /// Waits at most `timeout` for the call; true when it is over.
  Result<bool> wait(NodeTicket ticket, Nanos timeout);
  Result<void> cancel(NodeTicket ticket);
  /// Gives the client back. A ticket that is not over is cancelled and fenced first.
  Result<void> collect(NodeTicket ticket);
  /// Readable when poll can make progress; may wake spuriously.
  Result<int> event_fd(NodeTicket ticket) const;

  /// Removes the node's own objects; others are not touched. `clear` removes all of them. Done when it returns.
  Result<void> remove(std::span<const Key128> keys, Nanos timeout);
  Result<void> clear(Nanos timeout);

  /// Waits until everything put so far was acknowledged by every live replica. Errors: kTimeout.
  Result<void> flush(Nanos timeout);

  NodeStats stats() const;

  /// What the node is called and where it listens ("host:port").
  const std::string& node_id() const;
  std::string control_address() const;
  uint32_t members_up_count() const;

  /// Ends all calls, leaves, frees everything; later calls answer kClosed. Idempotent; under 5 s also with dead peers.
  void close();

 private:
  struct State;
  NodeTicket ticket_for(class CallRunner& runner);
  Result<void> finish(const Result<NodeTicket>& ticket);
  template <class Tell>
  Result<void> tell_pool(Nanos timeout, Tell tell);
  explicit Node(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace peercache
