// What a call knows of its keys before it moves bytes: own index, primed locations, directory.

#include <algorithm>

#include "controlplane/node/call_runner.h"
#include "dataplane/wire/region_descriptor.h"

namespace peercache {

void CallRunner::find_own() {
  const auto count = static_cast<uint32_t>(keys_.size());
  if (own_results_.size() < count) own_results_.resize(count);
  for (uint32_t i = 0; i < count; ++i) own_results_[i].count = 0;
  // Rings first, then the index: a publish that the agent takes up in between is in one of them.
  if (shared_.pool.find_pending(keys_.data(), own_results_.data(), count) > 0) {
    for (uint32_t i = 0; i < count; ++i) {
      if (own_results_[i].count == 0) continue;
      plans_[i].location = own_results_[i].locations[0];
      plans_[i].found = true;
    }
  }
  shared_.pool.index().find(keys_.data(), own_results_.data(), count);
  for (uint32_t i = 0; i < count; ++i) {
    KeyPlan& plan = plans_[i];
    if (!plan.found && own_results_[i].count > 0) {
      plan.location = own_results_[i].locations[0];
      plan.found = true;
    }
    if (plan.found && missing_.contains(plan.location, shared_.clock.now())) plan.found = false;
    plan.own = plan.found;
    plan.peer = shared_.self;
  }
}

void CallRunner::find_primed() {
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    KeyPlan& plan = plans_[i];
    if (plan.found || !shared_.primed.find(keys_[i], plan.location)) continue;
    if (!acceptable(plan.location, plan.peer)) continue;
    plan.found = true;
    plan.primed = true;
    counters_.primed.add();
  }
}

void CallRunner::start_lookups() {
  wanted_.clear();
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    if (!plans_[i].found && statuses_[i] == KeyStatus::kPending) wanted_.push_back(i);
  }
  if (!wanted_.empty()) {
    counters_.lookup_rounds.add();
    counters_.lookup_keys.add(wanted_.size());
  }
  lookup_round_.start(routes_, keys_, wanted_, deadline_at_, &pool_client_.event());
}

bool CallRunner::finish_lookups() {
  if (!lookup_round_.done(expired(shared_.clock.now()))) return false;
  lookup_round_.for_each([this](uint32_t key_index, std::span<const LookupResult* const> answers) {
    choose(key_index, answers);
  });
  return true;
}

/// True if the record may be read: its node lives in this incarnation and is connected, the record
/// fits the region table
/// that the node showed at connect, and nobody found it wrong a moment ago.
bool CallRunner::acceptable(const Location& location, PeerIndex& peer) const {
  // Own records that the index no longer has are on their way out of the directory.
  if (location.node == shared_.node) return false;
  const PeerIndex found = shared_.peers.find(location.node, location.incarnation);
  if (found == PeerDirectory::kNone || shared_.peers.state(found) != PeerState::kUp) return false;
  const PeerInfo* info = shared_.peers.info(found);
  if (info == nullptr || !check_location(location, info->region_table())) return false;
  if (missing_.contains(location, shared_.clock.now())) return false;
  peer = found;
  return true;
}

void CallRunner::choose(uint32_t key_index, std::span<const LookupResult* const> answers) {
  KeyPlan& plan = plans_[key_index];
  for (const LookupResult* answer : answers) {
    const uint32_t count = std::min<uint32_t>(answer->count, limits::kLocationsPerKey);
    for (uint32_t i = 0; i < count; ++i) {
      const Location& location = answer->locations[i];
      PeerIndex peer{0};
      if (plan.found && location.sequence <= plan.location.sequence) continue;
      if (!acceptable(location, peer)) continue;
      plan.location = location;
      plan.peer = peer;
      plan.found = true;
      plan.fresh = true;
    }
  }
  if (plan.found) shared_.primed.put(plan.location);
}

void CallRunner::notice(NoticeKind kind, const Location& location, PeerIndex peer) {
  // Full: dropped. Touches are hints, and a record that is wrong will be met again.
  if (notices_.push({location, peer, kind})) noticed_ = true;
}

}  // namespace peercache
