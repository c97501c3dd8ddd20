#include "dataplane/engine/engine.h"

#include <chrono>

namespace peercache {

Engine::Engine(EngineRails rails, const Clock& clock) : clock_(clock), rails_(std::move(rails)) {}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options,
                                             EngineRails rails,
                                             const PeerDirectory& peers,
                                             const Clock& clock) {
  if (options.client_count == 0 || options.client_count > limits::kClientsMax) {
    return make_error(Errc::kOutOfRange, "{} clients; 1 to {} are possible", options.client_count,
                      limits::kClientsMax);
  }
  if (!rails.of_client.empty() && rails.of_client.size() != options.client_count) {
    return make_error(Errc::kInvalidArgument, "rails for {} clients, but {} clients",
                      rails.of_client.size(), options.client_count);
  }
  std::unique_ptr<Engine> engine(new Engine(std::move(rails), clock));
  for (uint32_t i = 0; i < options.client_count; ++i) {
    std::vector<RailHandle*> handles;
    if (!engine->rails_.of_client.empty()) {
      for (const auto& rail : engine->rails_.of_client[i]) {
        handles.push_back(rail.get());
      }
    }
    for (const auto& rail : engine->rails_.shared) {
      handles.push_back(rail.get());
    }
    PC_TRY_ASSIGN(std::unique_ptr<Client> client,
                  Client::open(ClientIndex(static_cast<uint16_t>(i)), options, handles, peers, clock));
    engine->clients_.push_back(std::move(client));
  }
  const MutexLock lock(engine->lease_mutex_);
  for (uint32_t i = options.client_count; i-- > 0;) {
    engine->idle_[engine->idle_count_++] = engine->clients_[i].get();
  }
  return engine;
}

Engine::~Engine() {
  const MutexLock lock(lease_mutex_);
  PC_ASSERT(leased_mask_ == 0, leased_mask_);
}

Result<Client*> Engine::lease(Nanos until) {
  const MutexLock lock(lease_mutex_);
  bool waited = false;
  while (idle_count_ == 0) {
    lease_waits_ += waited ? 0 : 1;
    waited = true;
    const Nanos left = until - clock_.now();
    if (left <= Nanos(0)) {
      ++lease_busy_;
      return make_error(Errc::kBusy, "all {} clients are in use", clients_.size());
    }
    // Wakes early when one comes back; otherwise looks at the clock again.
    returned_.wait_for(lease_mutex_, left);
  }
  Client* client = idle_[--idle_count_];  // (E2)
  const uint32_t bit = uint32_t{1} << client->index().value();
  PC_ASSERT((leased_mask_ & bit) == 0, client->index(), leased_mask_);  // (E1)
  leased_mask_ |= bit;
  ++leases_;
  return client;
}

void Engine::give_back(Client& client) {
  PC_ASSERT(!client.busy(), client.index());
  {
    const MutexLock lock(lease_mutex_);
    const uint32_t bit = uint32_t{1} << client.index().value();
    PC_ASSERT((leased_mask_ & bit) != 0, client.index(), leased_mask_);  // (E1)
    leased_mask_ &= ~bit;
    idle_[idle_count_++] = &client;
  }
  returned_.notify_one();
}

EngineStats Engine::stats() const {
  EngineStats stats;
  for (const auto& client : clients_) {
    stats.clients.add(client->counters());
  }
  for (const auto& rail : rails_.shared) {
    stats.rails[stats.rail_count++] =
        RailSnapshot{.rail = rail->index(), .kind = rail->kind(), .stats = rail->stats()};
  }
  for (const auto& list : rails_.of_client) {
    for (const auto& rail : list) {
      add(stats.client_rails, rail->stats());
    }
  }
  const MutexLock lock(lease_mutex_);
  stats.leased_count = static_cast<uint32_t>(clients_.size()) - idle_count_;
  stats.leases_count = leases_;
  stats.lease_waits_count = lease_waits_;
  stats.lease_busy_count = lease_busy_;
  return stats;
}

}  // namespace peercache
