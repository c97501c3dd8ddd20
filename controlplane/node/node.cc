#include "controlplane/node/node.h"

#include <algorithm>
#include <thread>

#include "controlplane/node/node_state.h"
#include "dataplane/base/log.h"

namespace peercache {
namespace {

constexpr Nanos kCloseWait = std::chrono::seconds(3);

Nanos milliseconds(uint64_t count) {
  return std::chrono::milliseconds(static_cast<int64_t>(count));
}

/// Shapes that do not fit each other are refused before anything is touched.
Result<uint64_t> check_batch(const ObjectBatch& batch, std::span<KeyStatus> statuses) {
  if (batch.piece_offsets.size() != batch.keys.size() + 1) {
    return make_error(Errc::kInvalidArgument,
                      "{} piece offsets for {} keys: one more than keys is needed",
                      batch.piece_offsets.size(), batch.keys.size());
  }
  if (statuses.size() != batch.keys.size()) {
    return make_error(Errc::kInvalidArgument, "{} statuses for {} keys", statuses.size(),
                      batch.keys.size());
  }
  if (batch.piece_offsets.back() != batch.pieces.size()) {
    return make_error(Errc::kPieceSumMismatch, "piece offsets end at {}, there are {} pieces",
                      batch.piece_offsets.back(), batch.pieces.size());
  }
  uint64_t total_bytes = 0;
  for (size_t i = 0; i < batch.keys.size(); ++i) {
    const uint32_t from = batch.piece_offsets[i];
    const uint32_t to = batch.piece_offsets[i + 1];
    if (to < from || to > batch.pieces.size()) {
      return make_error(Errc::kPieceSumMismatch, "pieces of key {} run from {} to {} of {}", i,
                        from, to, batch.pieces.size());
    }
    if (to - from > limits::kPiecesPerOpMax) {
      return make_error(Errc::kTooManyPieces, "key {} has {} pieces, at most {} are possible", i,
                        to - from, limits::kPiecesPerOpMax);
    }
    uint64_t object_bytes = 0;
    for (uint32_t p = from; p < to; ++p) {
      const LocalPiece& piece = batch.pieces[p];
      if (piece.length_bytes == 0 || piece.address == nullptr) {
        return make_error(Errc::kEmptyOperation, "piece {} of key {} is empty", p - from, i);
      }
      object_bytes += piece.length_bytes;
    }
    if (object_bytes == 0) return make_error(Errc::kEmptyOperation, "key {} has no bytes", i);
    if (object_bytes > limits::kObjectBytesMax.value()) {
      return make_error(Errc::kOutOfRange, "key {} has {} bytes, at most {} are possible", i,
                        object_bytes, limits::kObjectBytesMax.value());
    }
    total_bytes += object_bytes;
  }
  return total_bytes;
}

}  // namespace

const char* to_string(KeyStatus status) noexcept {
  switch (status) {
    case KeyStatus::kPending:
      return "pending";
    case KeyStatus::kHitOwn:
      return "hit own";
    case KeyStatus::kHitPeer:
      return "hit peer";
    case KeyStatus::kMiss:
      return "miss";
    case KeyStatus::kStored:
      return "stored";
    case KeyStatus::kHeld:
      return "held";
    case KeyStatus::kNoSpace:
      return "no space";
    case KeyStatus::kDeadline:
      return "deadline";
    case KeyStatus::kFailed:
      return "failed";
    case KeyStatus::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

Node::Node(std::unique_ptr<State> state) : state_(std::move(state)) {}

Node::~Node() { close(); }

Node::State::~State() { close(); }

Result<void> Node::State::check_usable() const {
  if (fork_guard.in_child()) {
    return make_error(Errc::kForked, "this process was forked from the one that opened the node");
  }
  // Relaxed: a call that comes in at the same moment is waited for by close().
  if (closed.load(std::memory_order_relaxed))
    return make_error(Errc::kClosed, "the node is closed");
  return {};
}

Nanos Node::State::timeout_of(uint64_t bytes, Nanos wanted) const {
  if (wanted > Nanos(0)) return wanted;
  return milliseconds(options.transfer_timeout_ms +
                      options.transfer_timeout_ms_per_MiB * (bytes >> 20));
}

Result<CallRunner*> Node::State::lease(Nanos until) {
  PC_TRY(check_usable());
  PC_TRY_ASSIGN(Client * client, engine->lease(until));
  CallRunner* runner = runners[client->index().value()].get();
  if (closed.load(std::memory_order_relaxed)) {  // as in check_usable
    engine->give_back(*client);
    return make_error(Errc::kClosed, "the node is closed");
  }
  return runner;
}

void Node::State::give_back(CallRunner& runner) { engine->give_back(runner.client()); }

Result<void> Node::prepare_length(uint32_t length_bytes) {
  PC_TRY(state_->check_usable());
  PC_TRY_ASSIGN([[maybe_unused]] const SizeClassIndex size_class,
                state_->pool->ensure_class(length_bytes));
  return {};
}

Result<NodeTicket> Node::submit_put(const ObjectBatch& batch,
                                    const PrefixPlace& place,
                                    std::span<KeyStatus> statuses,
                                    Nanos timeout) {
  PC_TRY_ASSIGN(const uint64_t bytes, check_batch(batch, statuses));
  uint64_t last_bytes = 0;
  for (size_t i = 0; i < batch.keys.size(); ++i) {
    uint64_t object_bytes = 0;
    for (uint32_t p = batch.piece_offsets[i]; p < batch.piece_offsets[i + 1]; ++p) {
      object_bytes += batch.pieces[p].length_bytes;
    }
    if (object_bytes != last_bytes) PC_TRY(prepare_length(narrow<uint32_t>(object_bytes)));
    last_bytes = object_bytes;
  }
  const Nanos until = state_->clock.now() + state_->timeout_of(bytes, timeout);
  PC_TRY_ASSIGN(CallRunner * runner, state_->lease(until));
  runner->begin_put(batch, place, statuses, until);
  return ticket_for(*runner);
}

Result<NodeTicket> Node::submit_get(const ObjectBatch& batch,
                                    std::span<KeyStatus> statuses,
                                    Nanos timeout) {
  PC_TRY_ASSIGN(const uint64_t bytes, check_batch(batch, statuses));
  const Nanos until = state_->clock.now() + state_->timeout_of(bytes, timeout);
  PC_TRY_ASSIGN(CallRunner * runner, state_->lease(until));
  runner->begin_get(batch, statuses, until);
  return ticket_for(*runner);
}

Result<NodeTicket> Node::submit_exists(std::span<const Key128> keys,
                                       std::span<KeyStatus> statuses,
                                       Nanos timeout) {
  if (!statuses.empty() && statuses.size() != keys.size()) {
    return make_error(Errc::kInvalidArgument, "{} statuses for {} keys", statuses.size(),
                      keys.size());
  }
  const Nanos longest =
      timeout > Nanos(0) ? timeout : milliseconds(state_->options.exists_timeout_ms);
  const Nanos until = state_->clock.now() + longest;
  PC_TRY_ASSIGN(CallRunner * runner, state_->lease(until));
  runner->begin_exists(keys, statuses, until);
  return ticket_for(*runner);
}

NodeTicket Node::ticket_for(CallRunner& runner) {
  const uint32_t index = runner.client().index().value();
  State::Lease& lease = state_->leases[index];
  // Relaxed: the ticket's owner is the only one that asks, and it has the value from here.
  const uint32_t generation = lease.generation_id.load(std::memory_order_relaxed) + 1;
  lease.generation_id.store(generation, std::memory_order_relaxed);  // as above
  lease.ticket.store(true, std::memory_order_relaxed);               // as above
  return {index, generation};
}

Result<CallRunner*> Node::State::runner_of(NodeTicket ticket) const {
  if (fork_guard.in_child()) {
    return make_error(Errc::kForked, "this process was forked from the one that opened the node");
  }
  // Relaxed: as in ticket_for.
  if (ticket.client_index >= runners.size() ||
      leases[ticket.client_index].generation_id.load(std::memory_order_relaxed) !=
          ticket.generation_id ||
      !leases[ticket.client_index].ticket.load(std::memory_order_relaxed)) {
    return make_error(Errc::kStaleTicket, "ticket {} of client {} was collected",
                      ticket.generation_id, ticket.client_index);
  }
  return runners[ticket.client_index].get();
}

Result<bool> Node::poll(NodeTicket ticket) {
  PC_TRY_ASSIGN(CallRunner * runner, state_->runner_of(ticket));
  return runner->idle() || runner->poll();
}

Result<bool> Node::wait(NodeTicket ticket, Nanos timeout) {
  PC_TRY_ASSIGN(CallRunner * runner, state_->runner_of(ticket));
  return runner->idle() || runner->wait(state_->clock.now() + timeout);
}

Result<void> Node::cancel(NodeTicket ticket) {
  PC_TRY_ASSIGN(CallRunner * runner, state_->runner_of(ticket));
  runner->cancel();
  return {};
}

Result<void> Node::collect(NodeTicket ticket) {
  PC_TRY_ASSIGN(CallRunner * runner, state_->runner_of(ticket));
  if (!runner->idle()) {
    runner->cancel();
    // Memory safety beats the deadline: nobody may touch the caller's arrays after this.
    while (!runner->wait(state_->clock.now() + std::chrono::seconds(1))) {
      PC_LOG_WARN("client {} is still fencing its last call", ticket.client_index);
    }
  }
  // Relaxed: the next owner gets the client through the engine's lease, which orders it.
  state_->leases[ticket.client_index].ticket.store(false, std::memory_order_relaxed);
  state_->give_back(*runner);
  return {};
}

Result<int> Node::event_fd(NodeTicket ticket) const {
  PC_TRY_ASSIGN(CallRunner * runner, state_->runner_of(ticket));
  return runner->event_fd();
}

/// The blocking forms: a ticket that is waited for at once.
Result<void> Node::finish(const Result<NodeTicket>& ticket) {
  if (!ticket) return ticket.error();
  CallRunner& runner = *state_->runners[ticket->client_index];
  // The call ends itself at its deadline; this bound only limits one wait.
  while (!runner.wait(state_->clock.now() + std::chrono::seconds(1))) {
  }
  return collect(*ticket);
}

Result<void> Node::put(const ObjectBatch& batch,
                       const PrefixPlace& place,
                       std::span<KeyStatus> statuses,
                       Nanos timeout) {
  return finish(submit_put(batch, place, statuses, timeout));
}

Result<void> Node::get(const ObjectBatch& batch, std::span<KeyStatus> statuses, Nanos timeout) {
  return finish(submit_get(batch, statuses, timeout));
}

Result<uint32_t> Node::exists(std::span<const Key128> keys,
                              std::span<KeyStatus> statuses,
                              Nanos timeout) {
  const Result<NodeTicket> ticket = submit_exists(keys, statuses, timeout);
  if (!ticket) return ticket.error();
  CallRunner& runner = *state_->runners[ticket->client_index];
  while (!runner.wait(state_->clock.now() + std::chrono::seconds(1))) {
  }
  const uint32_t leading_count = runner.leading_hits_count();
  PC_TRY(collect(*ticket));
  return leading_count;
}

Result<void> Node::remove(std::span<const Key128> keys, Nanos timeout) {
  return tell_pool(timeout, [keys](PoolClient& pool) { return pool.remove(keys); });
}

Result<void> Node::clear(Nanos timeout) {
  return tell_pool(timeout, [](PoolClient& pool) { return pool.clear(); });
}

template <class Tell>
Result<void> Node::tell_pool(Nanos timeout, Tell tell) {
  const Nanos until = state_->clock.now() + state_->timeout_of(0, timeout);
  PC_TRY_ASSIGN(CallRunner * runner, state_->lease(until));
  PoolClient& pool = runner->pool_client();
  Result<void> told = tell(pool);
  while (!told && told.error().code == Errc::kRingFull && state_->clock.now() < until) {
    std::this_thread::yield();
    told = tell(pool);
  }
  // Done when it returns: the agent has taken the message up.
  while (told && pool.pending_count() > 0) {
    if (state_->clock.now() >= until) {
      told = make_error(Errc::kTimeout, "the pool agent has {} messages before it",
                        pool.pending_count());
      break;
    }
    std::this_thread::yield();
  }
  state_->give_back(*runner);
  return told;
}

Result<void> Node::flush(Nanos timeout) {
  PC_TRY(state_->check_usable());
  const Nanos until = state_->clock.now() + state_->timeout_of(0, timeout);
  auto waiter = std::make_shared<Conductor::FlushWaiter>();
  state_->conductor->request_flush(waiter);
  // E2 acquire: meets E1 in the conductor; the acknowledgements have arrived.
  while (!waiter->done.load(std::memory_order_acquire)) {
    if (state_->clock.now() >= until) {
      return make_error(Errc::kTimeout, "{} records were not acknowledged in time",
                        state_->conductor->stats().directory_lag_count);
    }
    std::this_thread::sleep_for(
        std::chrono::microseconds(50));  // control path; acknowledgements take a round trip
  }
  return {};
}

const std::string& Node::node_id() const { return state_->identity.node_name; }

std::string Node::control_address() const { return state_->conductor->control_address(); }

uint32_t Node::members_up_count() const { return state_->conductor->stats().members_up_count; }

void Node::close() { state_->close(); }

void Node::State::close() {
  if (fork_guard.in_child()) return;  // threads, sockets and mappings are the parent's
  if (closed.exchange(true, std::memory_order_acq_rel))
    return;  // J1 acq_rel: meets itself; one caller closes
  if (engine != nullptr) {
    // Calls under way end by their own deadlines or now, whichever comes first.
    const Nanos until = clock.now() + kCloseWait;
    std::vector<Client*> clients;
    while (clients.size() < runners.size()) {
      const Result<Client*> client = engine->lease(until);
      if (!client) break;
      clients.push_back(*client);
    }
    if (clients.size() < runners.size()) {
      PC_LOG_WARN("closing while {} calls are under way", runners.size() - clients.size());
    }
    for (Client* client : clients) engine->give_back(*client);
  }
  if (conductor != nullptr) conductor->stop();
}

}  // namespace peercache
