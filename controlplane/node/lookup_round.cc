#include "controlplane/node/lookup_round.h"

#include <algorithm>

#include "dataplane/base/assert.h"

namespace peercache {

void LookupRound::start(std::shared_ptr<const DirectoryRoutes> routes,
                        std::span<const Key128> keys,
                        std::span<const uint32_t> wanted,
                        Nanos deadline_at,
                        WakeEvent* event) {
  PC_ASSERT(!submitted_);
  routes_ = std::move(routes);
  wanted_ = wanted;
  places_.resize(wanted.size());
  if (asked_.size() < routes_->holders.size()) asked_.resize(routes_->holders.size());
  for (Asked& asked : asked_) {
    asked.keys.clear();
    asked.rpc.reset();
    asked.answered = false;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    Place& place = places_[i];
    place.count = 0;
    std::array<uint32_t, limits::kDirectoryReplicasMax> owners{};
    const Key128& key = keys[wanted[i]];
    const uint32_t owners_count = routes_->ring->owners(key, routes_->replicas_count, owners);
    for (uint32_t r = 0; r < owners_count; ++r) {
      if (!routes_->holders[owners[r]].live) continue;
      Asked& asked = asked_[owners[r]];
      place.at[place.count++] = {owners[r], static_cast<uint32_t>(asked.keys.size())};
      asked.keys.push_back(key);
    }
  }
  submit(deadline_at);
  for (uint32_t h = 0; h < routes_->holders.size(); ++h) {
    if (!asked_[h].keys.empty() && routes_->holders[h].peer == PeerDirectory::kNone) {
      ask_by_rpc(h, deadline_at, event);
    }
  }
}

void LookupRound::submit(Nanos deadline_at) {
  ops_.clear();
  op_holders_.clear();
  for (uint32_t h = 0; h < routes_->holders.size(); ++h) {
    Asked& asked = asked_[h];
    const DirectoryRoutes::Holder& holder = routes_->holders[h];
    if (asked.keys.empty() || holder.peer == PeerDirectory::kNone) continue;
    if (asked.results.size() < asked.keys.size()) asked.results.resize(asked.keys.size());
    asked.batch = {asked.keys.data(), asked.results.data(),
                   static_cast<uint32_t>(asked.keys.size())};
    Op op;
    op.kind = OpKind::kLookup;
    op.validation = Validation::kNone;
    op.peer = holder.peer;
    op.target.region = holder.table;
    op.lookup = &asked.batch;
    ops_.push_back(op);
    op_holders_.push_back(h);
  }
  cancel_sent_ = false;
  if (ops_.empty()) return;
  Result<Ticket> ticket = client_.submit(ops_, deadline_at);
  // A refusal (no record or ticket left) leaves these holders unanswered: their keys miss.
  if (!ticket) return;
  ticket_ = *ticket;
  submitted_ = true;
}

void LookupRound::ask_by_rpc(uint32_t holder_index, Nanos deadline_at, WakeEvent* event) {
  Asked& asked = asked_[holder_index];
  asked.rpc = std::make_shared<RpcLookup>();
  asked.rpc->keys = asked.keys;
  asked.rpc->results.resize(asked.keys.size());
  asked.rpc->holder_index = holder_index;
  asked.rpc->routes = routes_;
  asked.rpc->deadline_at = deadline_at;
  asked.rpc->event = event;
  shared_.conductor.ask(asked.rpc);
}

bool LookupRound::done(bool expired) {
  if (submitted_) {
    if (expired && !cancel_sent_) {
      client_.cancel(ticket_);
      cancel_sent_ = true;
    }
    client_.poll();
    const Result<BatchResult> result = client_.result(ticket_);
    PC_ASSERT(result.has_value());
    if (!result->done) return false;
    for (uint32_t i = 0; i < op_holders_.size(); ++i) {
      asked_[op_holders_[i]].answered = client_.status(ticket_, i) == OpStatus::kOk;
    }
    client_.release(ticket_);
    submitted_ = false;
  }
  for (Asked& asked : asked_) {
    if (asked.rpc == nullptr || asked.answered) continue;
    // D2 acquire: meets D1 in the conductor; the results are complete.
    if (asked.rpc->done.load(std::memory_order_acquire)) {
      asked.answered = true;
    } else if (expired) {
      // Left to the conductor, which owns the arrays together with us.
      asked.rpc.reset();
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace peercache
