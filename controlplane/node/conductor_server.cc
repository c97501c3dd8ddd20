// What other nodes ask of this one.

#include "controlplane/node/conductor.h"

namespace peercache {

void Conductor::handle(const RpcRequest& request, RpcReply reply) {
  reply.send(answer(request.message));
}

Message Conductor::answer(const Message& message) {
  const Nanos now = fast_now();
  if (const auto* hello = std::get_if<HelloMessage>(&message)) {
    return membership_->on_hello(*hello, now);
  }
  if (const auto* heartbeat = std::get_if<HeartbeatMessage>(&message)) {
    HeartbeatReplyMessage reply = membership_->on_heartbeat(*heartbeat, now);
    if (shard_ != nullptr) reply.purged_count = shard_->purged_count(heartbeat->node);
    return reply;
  }
  if (const auto* leave = std::get_if<LeaveMessage>(&message)) {
    membership_->on_leave(*leave, now);
    return AckMessage{};
  }
  if (const auto* update = std::get_if<DirectoryUpdateMessage>(&message)) {
    if (shard_ != nullptr) return shard_->apply(*update, *membership_->view());
    DirectoryUpdateReplyMessage reply;
    reply.update_id = update->update_id;
    reply.outcomes.assign(update->deletes.size() + update->puts.size(), UpdateOutcome::kNotHolder);
    return reply;
  }
  if (const auto* lookup = std::get_if<DirectoryLookupMessage>(&message)) {
    if (shard_ == nullptr) return ErrorReplyMessage{Errc::kNotOwner};
    return shard_->lookup(lookup->keys, *membership_->view());
  }
  if (const auto* missing = std::get_if<ReportMissingMessage>(&message)) {
    if (shard_ != nullptr) shard_->report_missing(missing->locations);
    return AckMessage{};
  }
  if (const auto* touch = std::get_if<TouchMessage>(&message)) {
    parts_.pool_client->touch(touch->keys);
    return AckMessage{};
  }
  if (const auto* bad = std::get_if<ReportBadPayloadMessage>(&message)) {
    for (const Location& location : bad->locations) {
      // Only the life that was read: the object may have been put again since.
      LookupResult held{};
      parts_.pool->index().find(&location.key, &held, 1);
      if (held.count > 0 && held.locations[0].generation == location.generation &&
          held.locations[0].slot == location.slot) {
        static_cast<void>(parts_.pool_client->remove({&location.key, 1}));
      }
    }
    return AckMessage{};
  }
  return ErrorReplyMessage{Errc::kUnsupported};
}

}  // namespace peercache
