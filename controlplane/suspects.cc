#include "controlplane/suspects.h"

#include <algorithm>

namespace peercache {

namespace {

Nanos millis(uint32_t ms) { return Nanos(int64_t{ms} * 1'000'000); }

}  // namespace

Suspects::Entry* Suspects::find(const SuspectPath& path) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.path == path; });
  return found == entries_.end() ? nullptr : &*found;
}

Nanos Suspects::longer(Nanos pause) const {
  return std::clamp(pause * 2, millis(options_.retry_ms_min), millis(options_.retry_ms_max));
}

bool Suspects::is_suspect(PeerIndex peer) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.path.peer == peer; });
}

void Suspects::report(const SuspectPath& path, Nanos now) {
  if (find(path) != nullptr) return;
  if (!is_suspect(path.peer)) {
    ++marked_count_;
    pending_.push_back({SuspectAction::Kind::kMark, path, Nanos(0)});
  }
  const Nanos pause = longer(Nanos(0));
  entries_.push_back({path, now + pause, pause, false});
}

void Suspects::probe_ok(const SuspectPath& path, Nanos /*now*/) {
  const Entry* entry = find(path);
  if (entry == nullptr || !entry->probing) return;  // forgotten meanwhile
  entries_.erase(entries_.begin() + (entry - entries_.data()));
  if (!is_suspect(path.peer)) {
    pending_.push_back({SuspectAction::Kind::kClear, path, Nanos(0)});
  }
}

void Suspects::probe_failed(const SuspectPath& path, Nanos now) {
  Entry* entry = find(path);
  if (entry == nullptr || !entry->probing) return;
  entry->probing = false;
  entry->pause = longer(entry->pause);
  entry->probe_at = now + entry->pause;
}

void Suspects::forget(PeerIndex peer) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.path.peer == peer; });
  std::erase_if(pending_, [&](const SuspectAction& action) { return action.path.peer == peer; });
}

void Suspects::step(Nanos now, std::vector<SuspectAction>& actions) {
  actions.insert(actions.end(), pending_.begin(), pending_.end());
  pending_.clear();
  for (Entry& entry : entries_) {
    if (entry.probing || entry.probe_at > now) continue;
    entry.probing = true;  // (S2)
    ++probes_count_;
    actions.push_back({SuspectAction::Kind::kProbe, entry.path, millis(options_.probe_timeout_ms)});
  }
}

Nanos Suspects::next_due() const {
  if (!pending_.empty()) return Nanos(0);
  Nanos due = Nanos::max();
  for (const Entry& entry : entries_) {
    if (!entry.probing) due = std::min(due, entry.probe_at);
  }
  return due;
}

uint32_t Suspects::suspect_count() const {
  std::vector<PeerIndex> peers;
  peers.reserve(entries_.size());
  for (const Entry& entry : entries_) peers.push_back(entry.path.peer);
  std::sort(peers.begin(), peers.end());
  return static_cast<uint32_t>(std::unique(peers.begin(), peers.end()) - peers.begin());
}

}  // namespace peercache
