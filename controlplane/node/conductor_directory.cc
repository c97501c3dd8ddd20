// What goes to the directory: updates of this node's records, lookups by RPC, and what readers noticed.

#include <algorithm>

#include "controlplane/node/conductor.h"
#include "dataplane/base/log.h"

namespace peercache {
namespace {

// Touches and reports wait so long for company: they are hints, and a message each would cost more than they are worth.
constexpr Nanos kNoticesEvery = std::chrono::milliseconds(5);
constexpr Nanos kNoticeTimeout = std::chrono::milliseconds(1000);
constexpr size_t kNoticesPerTurn = 1024;
constexpr uint64_t kPurgeBucketsPerTurn = 4096;

}  // namespace

int Conductor::step_directory(Nanos now) {
  int work = 0;
  if (shard_ != nullptr && shard_->purging()) {
    shard_->purge_step(kPurgeBucketsPerTurn);
    ++work;
  }
  if (now < directory_.next_due()) return work;
  outgoing_.clear();
  work += directory_.step(now, &parts_.pool->index(), outgoing_);
  for (const OutgoingUpdate& update : outgoing_) send_update(update);
  return work;
}

void Conductor::send_update(const OutgoingUpdate& outgoing) {
  if (outgoing.holder_index == own_holder_index_) {
    const DirectoryUpdateReplyMessage reply = shard_->apply(*outgoing.update, *membership_->view());
    directory_.on_reply(outgoing.holder_index, outgoing.update->update_id, reply, fast_now());
    return;
  }
  client_->call(rpc_peer_of(holder_members_[outgoing.holder_index]), *outgoing.update,
                outgoing.timeout,
                [this, holder = outgoing.holder_index,
                 update_id = outgoing.update->update_id](Result<Message> reply) {
                  Result<DirectoryUpdateReplyMessage> result =
                      make_error(Errc::kUnsupported, "not an update reply");
                  if (!reply) {
                    result = reply.error();
                  } else if (auto* update = std::get_if<DirectoryUpdateReplyMessage>(&*reply)) {
                    result = std::move(*update);
                  }
                  directory_.on_reply(holder, update_id, result, fast_now());
                });
}

void Conductor::ask(std::shared_ptr<RpcLookup> lookup) {
  loop_->post([this, lookup = std::move(lookup)] { answer_lookup(lookup); });
  event_->wake_if_sleeping();
}

void Conductor::answer_lookup(const std::shared_ptr<RpcLookup>& lookup) {
  if (lookup->holder_index == own_holder_index_) {
    shard_->table().find(lookup->keys.data(), lookup->results.data(),
                         narrow<uint32_t>(lookup->keys.size()));
    lookup->done.store(
        true, std::memory_order_release);  // D1 release: meets D2; the results are complete.
    lookup->event->wake_if_sleeping();
    return;
  }
  ask_chunk(lookup, rpc_peer_of(holder_members_[lookup->holder_index]), 0);
}

void Conductor::ask_chunk(const std::shared_ptr<RpcLookup>& lookup, RpcPeerId peer, size_t from) {
  const auto finish = [lookup] {
    lookup->done.store(
        true, std::memory_order_release);  // D1 release: meets D2; the results are complete.
    lookup->event->wake_if_sleeping();
  };
  const Nanos left = lookup->deadline_at - fast_now();
  if (from >= lookup->keys.size() || left <= Nanos(0)) return finish();
  const size_t count = std::min(lookup->keys.size() - from, message_limits::kRecordsMax);
  DirectoryLookupMessage message;
  message.keys.assign(lookup->keys.begin() + static_cast<std::ptrdiff_t>(from),
                      lookup->keys.begin() + static_cast<std::ptrdiff_t>(from + count));
  client_->call(
      peer, message, left, [this, lookup, peer, from, count, finish](Result<Message> reply) {
        const auto* found = reply ? std::get_if<DirectoryLookupReplyMessage>(&*reply) : nullptr;
        if (found == nullptr || found->counts.size() != count) return finish();
        size_t next = 0;
        for (size_t i = 0; i < count; ++i) {
          LookupResult& result = lookup->results[from + i];
          for (uint32_t n = 0; n < found->counts[i] && next < found->locations.size(); ++n) {
            const Location& location = found->locations[next++];
            if (result.count < limits::kLocationsPerKey && is_sound(location) &&
                location.key == lookup->keys[from + i]) {
              result.locations[result.count++] = location;
            }
          }
        }
        ask_chunk(lookup, peer, from + count);
      });
}

int Conductor::drain_notices(Nanos now) {
  int work = 0;
  NodeNotice notice;
  for (SpscRing<NodeNotice>* ring : parts_.notices) {
    for (size_t n = 0; n < kNoticesPerTurn && ring->pop(notice); ++n, ++work) {
      switch (notice.kind) {
        case NoticeKind::kTouch:
          touches_[notice.location.node].push_back(notice.location.key);
          break;
        case NoticeKind::kMissing:
          missing_.push_back(notice.location);
          break;
        case NoticeKind::kBadPayload:
          bad_payloads_[notice.location.node].push_back(notice.location);
          break;
        case NoticeKind::kPeerLost:
          suspects_.report({notice.peer, TransportKind::kShm, RailIndex(0)}, now);
          break;
      }
    }
  }
  if (work > 0 && notices_due_ <= now) notices_due_ = now + kNoticesEvery;
  const bool waiting = !touches_.empty() || !missing_.empty() || !bad_payloads_.empty();
  if (waiting && now >= notices_due_) send_notices();
  return work;
}

void Conductor::send_notices() {
  const std::shared_ptr<const View> view = membership_->view();
  const auto ignore = [](const Result<Message>&) {};
  for (auto& [node, keys] : touches_) {
    const Member* member = view->find(node);
    if (member == nullptr || member->state != MemberState::kUp) continue;
    // Readers report in key order, head first; the owner wants tails first.
    std::reverse(keys.begin(), keys.end());
    if (keys.size() > message_limits::kRecordsMax) keys.resize(message_limits::kRecordsMax);
    client_->call(rpc_peer_of(member->control_address), TouchMessage{std::move(keys)},
                  kNoticeTimeout, ignore);
  }
  for (auto& [node, locations] : bad_payloads_) {
    if (node == identity_.node) {
      for (const Location& location : locations) {
        static_cast<void>(parts_.pool_client->remove({&location.key, 1}));
      }
      continue;
    }
    const Member* member = view->find(node);
    if (member == nullptr || member->state != MemberState::kUp) continue;
    if (locations.size() > message_limits::kRecordsMax)
      locations.resize(message_limits::kRecordsMax);
    client_->call(rpc_peer_of(member->control_address),
                  ReportBadPayloadMessage{std::move(locations)}, kNoticeTimeout, ignore);
  }
  report_missing(missing_);
  touches_.clear();
  bad_payloads_.clear();
  missing_.clear();
}

/// Every holder of a key is told of the record that proved wrong.
void Conductor::report_missing(const std::vector<Location>& locations) {
  std::vector<std::vector<Location>> by_holder(holder_members_.size());
  for (const Location& location : locations) {
    HashRing::Owners owners{};
    const uint32_t count = ring_->owners(location.key, options_.directory_replicas, owners);
    for (uint32_t r = 0; r < count; ++r) {
      if (by_holder[owners[r]].size() < message_limits::kRecordsMax) {
        by_holder[owners[r]].push_back(location);
      }
    }
  }
  for (uint32_t h = 0; h < by_holder.size(); ++h) {
    if (by_holder[h].empty()) continue;
    if (h == own_holder_index_) {
      shard_->report_missing(by_holder[h]);
    } else {
      client_->call(rpc_peer_of(holder_members_[h]), ReportMissingMessage{std::move(by_holder[h])},
                    kNoticeTimeout, [](const Result<Message>&) {});
    }
  }
}

void Conductor::step_suspects(Nanos now) {
  if (now < suspects_.next_due()) return;
  suspect_actions_.clear();
  suspects_.step(now, suspect_actions_);
  for (const SuspectAction& action : suspect_actions_) {
    const PeerIndex peer = action.path.peer;
    switch (action.kind) {
      case SuspectAction::Kind::kMark:
        if (peers_.state(peer) == PeerState::kUp) peers_.set_state(peer, PeerState::kSuspect);
        break;
      case SuspectAction::Kind::kProbe:
        // Over shm a read fails only when the mapping is gone: the probe asks for the mapping.
        if (parts_.endpoint->table().reaches(peer)) {
          suspects_.probe_ok(action.path, now);
        } else {
          suspects_.probe_failed(action.path, now);
        }
        break;
      case SuspectAction::Kind::kClear:
        if (peers_.state(peer) == PeerState::kSuspect) peers_.set_state(peer, PeerState::kUp);
        break;
    }
    routes_dirty_ = true;
  }
}

}  // namespace peercache
