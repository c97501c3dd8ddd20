#include "controlplane/directory/directory_client.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"

namespace peercache {

namespace {

Nanos millis(uint32_t ms) { return Nanos(int64_t{ms} * 1'000'000); }

bool same_life(const Location& a, const Location& b) {
  return a.slot == b.slot && a.generation == b.generation && a.sequence == b.sequence;
}

}  // namespace

DirectoryClient::DirectoryClient(const DirectoryClientOptions& options,
                                 std::shared_ptr<const HashRing> ring)
    : options_(options), ring_(std::move(ring)), holders_(ring_->holder_count()) {
  PC_ASSERT(options_.batch_records_count > 0 &&
                options_.batch_records_count <= message_limits::kRecordsMax,
            options_.batch_records_count);
  PC_ASSERT(options_.queue_records_count >= 16, options_.queue_records_count);
}

// --- events ------------------------------------------------------------------------------------

void DirectoryClient::on_published(const Location& location) {
  ++number_;
  ++stats_.published_count;
  HashRing::Owners owners{};
  const uint32_t count = ring_->owners(location.key, options_.replicas_count, owners);
  for (uint32_t i = 0; i < count; ++i) {
    if (holders_[owners[i]].live) queue_put(holders_[owners[i]], location, true);
  }
}

void DirectoryClient::on_retired(const Location& location) {
  ++number_;
  ++stats_.retired_count;
  HashRing::Owners owners{};
  const uint32_t count = ring_->owners(location.key, options_.replicas_count, owners);
  for (uint32_t i = 0; i < count; ++i) {
    if (holders_[owners[i]].live) queue_erase(holders_[owners[i]], location);
  }
}

DirectoryClient::Change* DirectoryClient::change_of(Holder& holder, const Key128& key) {
  const auto found = holder.places.find(key);
  return found == holder.places.end() ? nullptr : &holder.queue[found->second - holder.front_id];
}

/// Null if the queue was full: then it is empty now, and everything will be published again.
DirectoryClient::Change* DirectoryClient::add_change(Holder& holder, const Key128& key) {
  if (holder.queue.size() >= options_.queue_records_count) {
    ++stats_.overflows_count;
    clear_queue(holder);
    start_republish(holder);
    return nullptr;
  }
  holder.places.emplace(key, holder.front_id + holder.queue.size());
  Change& change = holder.queue.emplace_back();
  change.key = key;
  change.number = number_;
  change.since = now_;
  return &change;
}

/// What is left of a change that was undone is skipped later, or goes now if it is the front.
void DirectoryClient::drop_if_empty(Holder& holder, const Change& change) {
  if (!change.empty()) return;
  holder.places.erase(change.key);
  while (!holder.queue.empty() && holder.queue.front().empty()) {
    holder.queue.pop_front();
    ++holder.front_id;
  }
}

void DirectoryClient::queue_put(Holder& holder, const Location& location, bool is_new) {
  Change* change = change_of(holder, location.key);
  if (change == nullptr) {
    change = add_change(holder, location.key);
    if (change == nullptr) return;
  } else {
    ++stats_.coalesced_count;
  }
  change->put = location;
  change->put_is_new = is_new;
}

void DirectoryClient::queue_erase(Holder& holder, const Location& location) {
  Change* change = change_of(holder, location.key);
  if (change == nullptr) {
    change = add_change(holder, location.key);
    if (change != nullptr) change->erase = location;
    return;
  }
  ++stats_.coalesced_count;
  const bool undoes = change->put && same_life(*change->put, location);
  // A put that the holder may have got before leaves a record behind that must go.
  if (!undoes || !change->put_is_new) change->erase = location;
  if (undoes) change->put.reset();
  drop_if_empty(holder, *change);
}

void DirectoryClient::clear_queue(Holder& holder) {
  holder.front_id += holder.queue.size();
  holder.queue.clear();
  holder.places.clear();
}

// --- holders -----------------------------------------------------------------------------------

void DirectoryClient::holder_up(uint32_t holder_index, Incarnation incarnation, Nanos now) {
  Holder& holder = holders_.at(holder_index);
  now_ = std::max(now_, now);
  if (holder.live && holder.incarnation == incarnation) return;
  holder_down(holder_index);
  if (holder.incarnation != incarnation) holder.purged_count.reset();
  holder.live = true;
  holder.incarnation = incarnation;
  start_republish(holder);
}

void DirectoryClient::holder_purged(uint32_t holder_index, uint64_t purged_count, Nanos now) {
  Holder& holder = holders_.at(holder_index);
  now_ = std::max(now_, now);
  const bool changed = holder.purged_count && *holder.purged_count != purged_count;
  holder.purged_count = purged_count;
  if (changed && holder.live) start_republish(holder);
}

void DirectoryClient::holder_down(uint32_t holder_index) {
  Holder& holder = holders_.at(holder_index);
  clear_queue(holder);
  holder.live = false;
  holder.update.reset();
  holder.sent = false;
  holder.flush_now = false;
  holder.retry = Nanos(0);
  holder.retry_at = Nanos(0);
  holder.republishing = false;
  holder.republish_left_count = 0;
}

// --- publishing again --------------------------------------------------------------------------

void DirectoryClient::start_republish(Holder& holder) {
  holder.republishing = true;
  holder.republish_left_count = kWholeIndex;
}

/// True if somebody is published to again, and all of those have room: one cursor serves all, the
/// slowest decides.
bool DirectoryClient::can_republish() const {
  bool wanted = false;
  for (const Holder& holder : holders_) {
    if (holder.republish_left_count == 0) continue;
    // Half of the queue is left to events, so that publishing again does not make it overflow.
    if (holder.queue.size() > options_.queue_records_count / 2) return false;
    wanted = true;
  }
  return wanted;
}

int DirectoryClient::republish_step(const BucketTable* index) {
  if (!can_republish()) return 0;
  const uint64_t buckets_count = index == nullptr ? 0 : index->bucket_count();
  const uint64_t most_count = std::min<uint64_t>(buckets_count, options_.republish_buckets_count);
  uint64_t done_count = 0;
  while (done_count < most_count && can_republish()) {
    if (republish_cursor_index_ >= buckets_count) republish_cursor_index_ = 0;
    // This is the index's own writer: no racing copy is needed.
    for (const Location& record : index->data()[republish_cursor_index_].records) {
      if (!is_empty(record)) republish(record);
    }
    ++republish_cursor_index_;
    ++done_count;
  }
  for (Holder& holder : holders_) {
    if (holder.republish_left_count == 0) continue;
    holder.republish_left_count = std::min(holder.republish_left_count, buckets_count);
    holder.republish_left_count -= std::min(holder.republish_left_count, done_count);
    if (holder.republish_left_count == 0) {
      holder.republish_end_id = holder.front_id + holder.queue.size();
    }
  }
  return 1;
}

void DirectoryClient::republish(const Location& location) {
  HashRing::Owners owners{};
  const uint32_t count = ring_->owners(location.key, options_.replicas_count, owners);
  for (uint32_t i = 0; i < count; ++i) {
    Holder& holder = holders_[owners[i]];
    if (holder.republish_left_count == 0) continue;
    const Change* waiting = change_of(holder, location.key);
    if (waiting != nullptr && waiting->put) continue;
    queue_put(holder, location, false);
    ++stats_.republished_count;
  }
}

void DirectoryClient::end_republish_if_done(Holder& holder) {
  if (holder.republishing && holder.republish_left_count == 0 && !holder.update &&
      (holder.queue.empty() || holder.front_id >= holder.republish_end_id)) {
    holder.republishing = false;
  }
}

// --- updates -----------------------------------------------------------------------------------

void DirectoryClient::build_update(Holder& holder) {
  auto update = std::make_shared<DirectoryUpdateMessage>();
  update->sender = options_.node;
  update->incarnation = options_.incarnation;
  update->update_id = ++holder.update_id_last;
  holder.update_number = holder.queue.front().number;
  while (!holder.queue.empty()) {
    const Change& change = holder.queue.front();
    if (!change.empty()) {
      if (update->puts.size() + update->deletes.size() >= options_.batch_records_count) break;
      if (change.erase) update->deletes.push_back(*change.erase);
      if (change.put) update->puts.push_back(*change.put);
      holder.places.erase(change.key);
    }
    holder.queue.pop_front();
    ++holder.front_id;
  }
  if (holder.queue.empty()) holder.flush_now = false;
  holder.update = std::move(update);
}

/// When something should be sent to the holder; Nanos::max() if nothing.
Nanos DirectoryClient::due_at(const Holder& holder) const {
  if (!holder.live || holder.sent) return Nanos::max();
  if (holder.update) return holder.retry_at;
  if (holder.queue.empty()) return Nanos::max();
  if (holder.flush_now || holder.places.size() >= options_.batch_records_count) {
    return holder.retry_at;
  }
  return std::max(holder.retry_at,
                  holder.queue.front().since + Nanos(int64_t{options_.flush_delay_us} * 1000));
}

int DirectoryClient::step(Nanos now,
                          const BucketTable* index,
                          std::vector<OutgoingUpdate>& outgoing) {
  now_ = std::max(now_, now);
  int work = republish_step(index);
  for (uint32_t i = 0; i < holders_.size(); ++i) {
    Holder& holder = holders_[i];
    end_republish_if_done(holder);
    if (due_at(holder) > now) continue;
    if (holder.update) {
      ++stats_.retries_count;
    } else {
      build_update(holder);
    }
    holder.sent = true;  // (C1)
    ++stats_.updates_count;
    outgoing.push_back({i, millis(options_.call_timeout_ms), holder.update});
    ++work;
  }
  return work;
}

Nanos DirectoryClient::next_due() const {
  if (can_republish()) return Nanos(0);
  Nanos due = Nanos::max();
  for (const Holder& holder : holders_) due = std::min(due, due_at(holder));
  return due;
}

void DirectoryClient::on_reply(uint32_t holder_index,
                               uint64_t update_id,
                               const Result<DirectoryUpdateReplyMessage>& reply,
                               Nanos now) {
  Holder& holder = holders_.at(holder_index);
  now_ = std::max(now_, now);
  if (!holder.update || !holder.sent || holder.update->update_id != update_id) return;
  holder.sent = false;
  if (!reply || !settle(holder, *reply)) {
    retry_later(holder, now);
    return;
  }
  holder.update.reset();
  holder.retry = Nanos(0);
  holder.retry_at = Nanos(0);
  end_republish_if_done(holder);
}

/// False if the update must be sent again.
bool DirectoryClient::settle(Holder& holder, const DirectoryUpdateReplyMessage& reply) {
  const size_t records_count = holder.update->deletes.size() + holder.update->puts.size();
  if (reply.update_id != holder.update->update_id || reply.outcomes.size() != records_count) {
    return false;
  }
  uint64_t acknowledged_count = 0;
  uint64_t refused_count = 0;
  for (const UpdateOutcome outcome : reply.outcomes) {
    switch (outcome) {
      case UpdateOutcome::kUnknownSender:
        return false;  // our hello is on its way
      case UpdateOutcome::kNotOwner:
      case UpdateOutcome::kBadRecord:
      case UpdateOutcome::kStaleUpdate:
      case UpdateOutcome::kNotHolder:
        ++refused_count;
        break;
      case UpdateOutcome::kApplied:
      case UpdateOutcome::kAppliedDropped:
      case UpdateOutcome::kStaleSequence:
      case UpdateOutcome::kNotFound:
        ++acknowledged_count;
        break;
    }
  }
  stats_.acknowledged_count += acknowledged_count;
  stats_.refused_count += refused_count;
  return true;
}

void DirectoryClient::retry_later(Holder& holder, Nanos now) {
  holder.retry =
      std::clamp(holder.retry * 2, millis(options_.retry_ms_min), millis(options_.retry_ms_max));
  holder.retry_at = now + holder.retry;
}

// --- what was acknowledged ---------------------------------------------------------------------

uint64_t DirectoryClient::flush_target() {
  for (Holder& holder : holders_) holder.flush_now = holder.live && !holder.queue.empty();
  return number_;
}

bool DirectoryClient::flushed(uint64_t target) const {
  return std::all_of(holders_.begin(), holders_.end(), [&](const Holder& holder) {
    if (!holder.live) return true;
    if (holder.republishing) return false;  // it may lack anything
    if (holder.update && holder.update_number <= target) return false;
    return holder.queue.empty() || holder.queue.front().number > target;  // (C3)
  });
}

uint64_t DirectoryClient::lag() const {
  uint64_t lag = 0;
  for (const Holder& holder : holders_) {
    if (!holder.live) continue;
    const uint64_t under_way =
        holder.update ? holder.update->deletes.size() + holder.update->puts.size() : 0;
    lag = std::max(lag, holder.places.size() + under_way);
  }
  return lag;
}

void DirectoryClient::check_invariants() const {
  for (const Holder& holder : holders_) {
    uint64_t number = 0;
    uint64_t waiting_count = 0;
    for (size_t i = 0; i < holder.queue.size(); ++i) {
      const Change& change = holder.queue[i];
      PC_ASSERT(change.number >= number, change.number, number);
      number = change.number;
      if (change.empty()) continue;
      ++waiting_count;
      const auto place = holder.places.find(change.key);  // (C2)
      PC_ASSERT(place != holder.places.end());
      PC_ASSERT(place->second == holder.front_id + i, place->second, holder.front_id, i);
    }
    PC_ASSERT(waiting_count == holder.places.size(), waiting_count, holder.places.size());
    PC_ASSERT(holder.queue.empty() || !holder.queue.front().empty());
    PC_ASSERT(!holder.sent || holder.update != nullptr);  // (C1)
    PC_ASSERT(holder.live || (holder.queue.empty() && !holder.update));
    PC_ASSERT(holder.queue.size() <= options_.queue_records_count, holder.queue.size());
  }
}

}  // namespace peercache
