// The reads of a get: validated READs in windows, then once more for what proved stale.

#include <algorithm>

#include "controlplane/node/call_runner.h"
#include "dataplane/base/assert.h"

namespace peercache {

bool CallRunner::submit_reads() {
  ops_.clear();
  op_keys_.clear();
  while (cursor_ < keys_.size() && ops_.size() < limits::kBatchOpsMax) {
    const uint32_t i = cursor_++;
    const KeyPlan& plan = plans_[i];
    if (!plan.found || statuses_[i] != KeyStatus::kPending) continue;
    if (plan.location.length_bytes != object_bytes(i)) {
      // Stored with another size: not what the caller means by this key.
      statuses_[i] = KeyStatus::kMiss;
      continue;
    }
    Op op;
    op.kind = OpKind::kRead;
    op.validation = Validation::kHeader;
    op.peer = plan.peer;
    op.target = plan.location;
    op.pieces = pieces_of(i);
    ops_.push_back(op);
    op_keys_.push_back(i);
  }
  if (ops_.empty()) return false;
  Result<Ticket> ticket = client_.submit(ops_, deadline_at_);
  if (!ticket) {
    // Refused as a whole (a record passed every check of ours but not the engine's): misses,
    // nothing was touched.
    for (const uint32_t i : op_keys_) statuses_[i] = KeyStatus::kFailed;
    return false;
  }
  read_ticket_ = *ticket;
  cancel_sent_ = false;
  return true;
}

bool CallRunner::collect_reads() {
  if (expired(shared_.clock.now()) && !cancel_sent_) {
    client_.cancel(read_ticket_);
    cancel_sent_ = true;
  }
  client_.poll();
  const Result<BatchResult> result = client_.result(read_ticket_);
  PC_ASSERT(result.has_value());
  if (!result->done) return false;
  for (uint32_t i = 0; i < op_keys_.size(); ++i) {
    judge_read(op_keys_[i], client_.status(read_ticket_, i));
  }
  client_.release(read_ticket_);
  return true;
}

void CallRunner::judge_read(uint32_t key_index, OpStatus status) {
  const KeyPlan& plan = plans_[key_index];
  switch (status) {
    case OpStatus::kOk: {
      statuses_[key_index] = plan.own ? KeyStatus::kHitOwn : KeyStatus::kHitPeer;
      const uint64_t bytes = plan.location.length_bytes;
      (plan.own ? counters_.get_bytes_own : counters_.get_bytes_peer).add(bytes);
      (plan.own ? counters_.get_hits_own : counters_.get_hits_peer).add();
      PeerCounters& peer = peer_counters_[plan.peer.value()];
      peer.objects.add();
      peer.bytes.add(bytes);
      if (!plan.own) notice(NoticeKind::kTouch, plan.location, plan.peer);
      return;
    }
    case OpStatus::kDeadline:
    case OpStatus::kCancelled:
      statuses_[key_index] = cancelled_ ? KeyStatus::kCancelled : KeyStatus::kDeadline;
      return;
    default:
      note_stale(key_index, status);
  }
}

void CallRunner::note_stale(uint32_t key_index, OpStatus status) {
  KeyPlan& plan = plans_[key_index];
  missing_.add(plan.location, shared_.clock.now());
  shared_.primed.forget(keys_[key_index]);
  if (status == OpStatus::kStale) {
    counters_.stale_reads.add();
    if (!plan.own) notice(NoticeKind::kMissing, plan.location, plan.peer);
  } else if (status == OpStatus::kBadPayload) {
    counters_.bad_payload.add();
    notice(NoticeKind::kBadPayload, plan.location, plan.peer);
  } else if (!plan.own) {
    notice(NoticeKind::kPeerLost, plan.location, plan.peer);
  }
  if (retrying_) {
    statuses_[key_index] = KeyStatus::kMiss;
    return;
  }
  plan = KeyPlan{};
  plan.retried = true;
  retry_.push_back(key_index);
}

/// Looks the failed keys up afresh, once per call. False if there are none.
bool CallRunner::start_retry() {
  if (retrying_ || retry_.empty() || expired(shared_.clock.now())) return false;
  retrying_ = true;
  counters_.retried_reads.add(retry_.size());
  // Another thread may have published here meanwhile; find_own skips what was found missing a
  // moment ago.
  find_own();
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    if (statuses_[i] != KeyStatus::kPending) plans_[i].found = false;
  }
  cursor_ = 0;
  start_lookups();
  return true;
}

}  // namespace peercache
