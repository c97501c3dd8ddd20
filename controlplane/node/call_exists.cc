#include "controlplane/node/call_runner.h"

namespace peercache {

void CallRunner::report_exists() {
  leading_hits_count_ = 0;
  uint64_t hits_count = 0;
  bool leading = true;
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    const KeyPlan& plan = plans_[i];
    if (plan.found) {
      statuses_[i] = plan.own ? KeyStatus::kHitOwn : KeyStatus::kHitPeer;
      ++hits_count;
      if (leading) ++leading_hits_count_;
    } else {
      statuses_[i] = KeyStatus::kMiss;
      leading = false;
    }
  }
  counters_.exists_hits.add(hits_count);
}

}  // namespace peercache
