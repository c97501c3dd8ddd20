#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/clock.h"
#include "dataplane/base/counters.h"
#include "dataplane/base/result.h"
#include "dataplane/base/thread_role.h"
#include "dataplane/base/wake_event.h"
#include "dataplane/engine/engine_options.h"
#include "dataplane/engine/op.h"
#include "dataplane/engine/peer_directory.h"
#include "dataplane/engine/striping.h"
#include "dataplane/engine/ticket_table.h"
#include "dataplane/rail/rail_handle.h"

namespace peercache {

/// What a client did, by outcome; single writer, read by anyone.
struct ClientCounters {
  Counter operations, bytes, ok, stale, bad_payload, deadline, cancelled, peer_lost, retried, refused;
  Counter failed;          ///< transport errors, bounds found wrong by the peer, no rail
  Counter verified;        ///< payload hashes compared
  Counter fence_overruns;  ///< waits that took longer than the grace to get their memory quiet
};

/// One application thread's handle: submits batches of scattered READs, WRITEs and LOOKUPs, and collects them.
///
/// THREAD:     owned by one thread at a time; not shareable. It drives client-driven rails inside submit, poll and wait.
/// OWNS:       fixed arrays of limits::kOpsPerClient records and limits::kTicketsPerClient tickets, one lane per rail.
/// BORROWS:    rails and the peer directory (outlive it); the pieces and lookups of each batch until it is done.
/// INVARIANTS: (C1) each operation becomes final exactly once. (C2) `done` means that no NIC, copier or peer can touch the
///             batch's local memory any more. (C3) an operation is retried on another rail at most once, and only after
///             its first rail reported it quiet; kFlushed does not count as an attempt.
/// COST:       no allocation, lock or system call per operation; one wake-up per sleeping rail and submit.
class Client {
 public:
  static Result<std::unique_ptr<Client>> open(ClientIndex index,
                                              const EngineOptions& options,
                                              std::span<RailHandle* const> rails,
                                              const PeerDirectory& peers,
                                              const Clock& clock);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Submits a batch. All or nothing: on error nothing was posted.
  /// Errors: kEmptyOperation (size 0), kPieceSumMismatch, kTooManyPieces, kBatchTooLarge, kOutOfBounds, kRingFull (no
  /// free records), kNoTicket. Values name index and sizes.
  Result<Ticket> submit(std::span<const Op> ops, Nanos deadline_at);

  /// Makes progress without blocking; returns the number of operations that became final.
  int poll();

  /// Blocks until the batch is done or `until` has passed; then cancels what is left and returns only when the batch is
  /// done (fencing adds at most the grace of design.md 4). Spins, pauses, then sleeps on the client's event.
  Result<BatchResult> wait(Ticket ticket, Nanos until);

  /// Progress of a batch. Errors: kStaleTicket.
  Result<BatchResult> result(Ticket ticket) const;

  /// Outcome of operation `op_index`. REQUIRES: the ticket is not stale; op_index < size of the batch.
  OpStatus status(Ticket ticket, uint32_t op_index) const;

  /// Header as it was read after the bytes of a validated READ. REQUIRES: it ended kOk or kStale.
  const SlotHeader& header(Ticket ticket, uint32_t op_index) const;

  /// Asks for the end of a batch; its operations end as kCancelled or with their true outcome. Does not wait.
  void cancel(Ticket ticket);

  /// Gives the ticket back. REQUIRES: the batch is done.
  void release(Ticket ticket);

  /// Becomes readable when operations of this client complete; may wake spuriously. Call `arm_event` before sleeping on
  /// it and `poll` after. Owned by the client.
  int event_fd() const;
  /// Announces that the caller is going to sleep; false if there is work to collect already.
  bool arm_event();

  /// True while a batch is not done.
  bool busy() const;

  ClientIndex index() const { return index_; }
  const ClientCounters& counters() const { return counters_; }

  void check_invariants() const;

 private:
  struct State;
  explicit Client(ClientIndex index, std::unique_ptr<State> state);

  ClientIndex index_;
  ClientCounters counters_;
  std::unique_ptr<State> state_;
};

}  // namespace peercache
