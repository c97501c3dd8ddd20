#include "controlplane/directory/directory_shard.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"
#include "dataplane/base/limits.h"

namespace peercache {

Bytes DirectoryShard::bytes_for(uint64_t objects_count, uint32_t replicas_count) {
  // Four records per bucket at a load of 0.6: 2.4, so 106.7 bytes per record and 213 per object
  // with two replicas. Two random buckets then overflow on 0.035 % of inserts.
  PC_ASSERT(objects_count < (uint64_t{1} << 48), objects_count);
  const uint64_t records_count = objects_count * replicas_count;
  const uint64_t buckets_count = (records_count * 10 + 23) / 24;
  return round_up(Bytes(std::max<uint64_t>(1, buckets_count) * sizeof(Bucket)), 4_KiB);
}

Result<DirectoryShard> DirectoryShard::open(std::byte* memory, Bytes length) {
  PC_TRY_ASSIGN(BucketTable table, BucketTable::open(memory, length));
  return DirectoryShard(table);
}

// --- updates -----------------------------------------------------------------------------------

DirectoryUpdateReplyMessage DirectoryShard::apply(const DirectoryUpdateMessage& update,
                                                  const View& view) {
  DirectoryUpdateReplyMessage reply;
  reply.update_id = update.update_id;
  reply.outcomes.reserve(update.deletes.size() + update.puts.size());
  const auto refuse_all = [&](UpdateOutcome outcome) {
    for (size_t i = 0; i < update.deletes.size(); ++i) count(outcome, false);
    for (size_t i = 0; i < update.puts.size(); ++i) count(outcome, true);
    reply.outcomes.assign(update.deletes.size() + update.puts.size(), outcome);
  };
  const Member* member = view.find(update.sender);
  if (member == nullptr || member->incarnation != update.incarnation) {
    refuse_all(UpdateOutcome::kUnknownSender);  // (D1)
  } else {
    Sender& sender = senders_[update.sender];
    if (sender.incarnation != update.incarnation) {
      sender.incarnation = update.incarnation;
      sender.update_id_last = 0;
    }
    end_purge(update.sender, update.incarnation);  // it lives
    if (update.update_id < sender.update_id_last) {
      refuse_all(UpdateOutcome::kStaleUpdate);  // (D2)
    } else {
      sender.update_id_last = update.update_id;
      for (const Location& record : update.deletes) {
        reply.outcomes.push_back(apply_delete(record, update, view));
        count(reply.outcomes.back(), false);
      }
      for (const Location& record : update.puts) {
        reply.outcomes.push_back(apply_put(record, update));
        count(reply.outcomes.back(), true);
      }
    }
  }
  reply.records_count = table_.record_count();
  reply.dropped_count = stats_.dropped_count;
  return reply;
}

UpdateOutcome DirectoryShard::apply_put(const Location& record,
                                        const DirectoryUpdateMessage& update) {
  if (!is_sound(record)) return UpdateOutcome::kBadRecord;
  if (record.node != update.sender || record.incarnation != update.incarnation) {
    return UpdateOutcome::kNotOwner;
  }
  switch (table_.insert(record).outcome) {
    case BucketTable::InsertOutcome::kInserted:
    case BucketTable::InsertOutcome::kReplaced:
      return UpdateOutcome::kApplied;
    case BucketTable::InsertOutcome::kStaleSequence:
      return UpdateOutcome::kStaleSequence;
    case BucketTable::InsertOutcome::kDroppedOldest:
      return UpdateOutcome::kAppliedDropped;
  }
  PC_UNREACHABLE();
}

UpdateOutcome DirectoryShard::apply_delete(const Location& record,
                                           const DirectoryUpdateMessage& update,
                                           const View& view) {
  if (is_empty(record)) return UpdateOutcome::kBadRecord;
  if (record.node != update.sender &&
      view.liveness(record.node, record.incarnation) != Liveness::kDead) {
    return UpdateOutcome::kNotOwner;
  }
  return table_.erase(record) ? UpdateOutcome::kApplied : UpdateOutcome::kNotFound;
}

void DirectoryShard::count(UpdateOutcome outcome, bool is_put) {
  switch (outcome) {
    case UpdateOutcome::kAppliedDropped:
      ++stats_.dropped_count;
      [[fallthrough]];
    case UpdateOutcome::kApplied:
      ++(is_put ? stats_.puts_count : stats_.deletes_count);
      break;
    case UpdateOutcome::kStaleSequence:
    case UpdateOutcome::kStaleUpdate:
      ++stats_.stale_count;
      break;
    case UpdateOutcome::kNotOwner:
    case UpdateOutcome::kUnknownSender:
    case UpdateOutcome::kBadRecord:
    case UpdateOutcome::kNotHolder:
      ++stats_.refused_count;
      break;
    case UpdateOutcome::kNotFound:
      break;
  }
}

uint64_t DirectoryShard::report_missing(std::span<const Location> locations) {
  uint64_t deleted_count = 0;
  for (const Location& location : locations) {
    if (!is_empty(location) && table_.erase(location)) ++deleted_count;
  }
  stats_.reported_count += deleted_count;
  return deleted_count;
}

// --- lookups -----------------------------------------------------------------------------------

DirectoryLookupReplyMessage DirectoryShard::lookup(std::span<const Key128> keys, const View& view) {
  DirectoryLookupReplyMessage reply;
  reply.counts.reserve(keys.size());
  constexpr size_t kChunk = 64;
  std::array<LookupResult, kChunk> results;
  for (size_t from = 0; from < keys.size(); from += kChunk) {
    const size_t chunk = std::min(kChunk, keys.size() - from);
    table_.find(keys.data() + from, results.data(), static_cast<uint32_t>(chunk));
    for (size_t i = 0; i < chunk; ++i) {
      drop_dead(results[i], view);
      reply.counts.push_back(static_cast<uint8_t>(results[i].count));
      const auto begin = results[i].locations.begin();
      reply.locations.insert(reply.locations.end(), begin, begin + results[i].count);
    }
  }
  stats_.lookups_count += keys.size();
  return reply;
}

void drop_dead(LookupResult& result, const View& view) noexcept {
  uint32_t kept_count = 0;
  const uint32_t count = std::min<uint32_t>(result.count, limits::kLocationsPerKey);
  for (uint32_t i = 0; i < count; ++i) {
    const Location& location = result.locations[i];
    if (view.liveness(location.node, location.incarnation) == Liveness::kDead) continue;
    result.locations[kept_count++] = location;
  }
  result.count = kept_count;
}

// --- purging -----------------------------------------------------------------------------------

void DirectoryShard::purge(NodeId node, Incarnation incarnation) {
  for (Purge& purge : purges_) {
    if (purge.node == node && purge.incarnation == incarnation) {
      purge.buckets_left_count = table_.bucket_count();
      return;
    }
  }
  purges_.push_back({node, incarnation, table_.bucket_count()});
}

bool DirectoryShard::must_purge(const Location& record) const {
  return std::any_of(purges_.begin(), purges_.end(), [&](const Purge& purge) {
    return record.node == purge.node && record.incarnation == purge.incarnation;
  });
}

void DirectoryShard::end_purge(NodeId node, Incarnation incarnation) {
  const auto found = std::find_if(purges_.begin(), purges_.end(), [&](const Purge& purge) {
    return purge.node == node && purge.incarnation == incarnation;
  });
  if (found == purges_.end()) return;
  purges_.erase(found);
  ++senders_[node].purged_count;
}

bool DirectoryShard::purge_step(uint64_t buckets_count) {
  if (purges_.empty()) return false;
  buckets_count = std::min(buckets_count, table_.bucket_count());
  for (uint64_t i = 0; i < buckets_count; ++i) {
    // The only writer reads its own table: no racing copy is needed.
    for (const Location& record : table_.data()[purge_cursor_index_].records) {
      if (is_empty(record) || !must_purge(record)) continue;
      const Location doomed = record;
      if (table_.erase(doomed)) ++stats_.purged_count;
    }
    purge_cursor_index_ = (purge_cursor_index_ + 1) % table_.bucket_count();
  }
  std::vector<Purge> done;
  for (Purge& purge : purges_) {
    purge.buckets_left_count -= std::min(purge.buckets_left_count, buckets_count);
    if (purge.buckets_left_count == 0) done.push_back(purge);
  }
  for (const Purge& purge : done) end_purge(purge.node, purge.incarnation);
  return !purges_.empty();
}

uint64_t DirectoryShard::purged_count(NodeId node) const {
  const auto found = senders_.find(node);
  return found == senders_.end() ? 0 : found->second.purged_count;
}

ShardStats DirectoryShard::stats() const {
  ShardStats stats = stats_;
  stats.records_count = table_.record_count();
  return stats;
}

}  // namespace peercache
