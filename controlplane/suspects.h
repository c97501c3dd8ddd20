#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/transport/work_request.h"

namespace peercache {

/// The way to a peer that failed: probes must take the same one.
///
/// THREAD:     any; a value.
struct SuspectPath {
  PeerIndex peer{0};
  TransportKind transport = TransportKind::kShm;
  RailIndex rail{0};
  friend bool operator==(const SuspectPath&, const SuspectPath&) = default;
};

/// THREAD:     any; a value.
struct SuspectsOptions {
  uint32_t retry_ms_min = 100;  ///< pause before a probe, doubled up to
  uint32_t retry_ms_max = 2000;
  uint32_t probe_timeout_ms = 500;
};

/// THREAD:     any; a value.
struct SuspectAction {
  enum class Kind : uint8_t {
    kMark,   ///< operations towards the peer miss at once from now on
    kProbe,  ///< do one small read over `path`; answer with probe_ok or probe_failed
    kClear,  ///< every path that had failed works again
  };
  Kind kind;
  SuspectPath path;
  Nanos timeout{0};
};

/// Which peers are suspect: after one time-out or transport error, until a background probe over
/// the path that failed succeeds. Pure: reports and time in, actions out; the flag that operations
/// look at is PeerDirectory's.
///
/// THREAD:     the conductor's.
/// INVARIANTS: (S1) kMark and kClear of a peer alternate. (S2) at most one probe per path is under
/// way.
class Suspects {
 public:
  explicit Suspects(const SuspectsOptions& options) : options_(options) {}

  /// An operation over the path timed out or failed. Again while suspect: nothing.
  void report(const SuspectPath& path, Nanos now);
  void probe_ok(const SuspectPath& path, Nanos now);
  void probe_failed(const SuspectPath& path, Nanos now);
  /// The peer is gone (or back as another index): its paths are forgotten, without kClear.
  void forget(PeerIndex peer);

  bool is_suspect(PeerIndex peer) const;
  void step(Nanos now, std::vector<SuspectAction>& actions);
  Nanos next_due() const;

  uint64_t marked_count() const noexcept { return marked_count_; }
  uint64_t probes_count() const noexcept { return probes_count_; }
  uint32_t suspect_count() const;

 private:
  struct Entry {
    SuspectPath path;
    Nanos probe_at{0};
    Nanos pause{0};
    bool probing = false;
  };
  Entry* find(const SuspectPath& path);
  Nanos longer(Nanos pause) const;

  SuspectsOptions options_;
  std::vector<Entry> entries_;
  std::vector<SuspectAction> pending_;
  uint64_t marked_count_ = 0;
  uint64_t probes_count_ = 0;
};

}  // namespace peercache
