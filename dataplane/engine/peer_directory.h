#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/region_descriptor.h"
#include "dataplane/wire/wire_types.h"

namespace peercache {

enum class PeerState : uint32_t { kAbsent = 0, kUp = 1, kSuspect = 2, kGone = 3 };

/// What any thread may know of one connected peer; immutable once published.
struct PeerInfo {
  NodeId node{};
  Incarnation incarnation{};
  uint32_t region_count = 0;
  std::array<RegionDescriptor, limits::kRegionsPerNodeMax> regions{};

  std::span<const RegionDescriptor> region_table() const { return {regions.data(), region_count}; }
};

/// Peers of this process: index -> identity and region table. A peer that comes back with a new
/// incarnation gets a new index, so an index never changes its meaning; infos are kept until the
/// directory is destroyed.
///
/// THREAD:     written by the conductor; read by anyone without a lock.
/// INVARIANTS: (P1) an info is complete before its state says kUp. (P2) an info is never changed or
///             freed while the directory lives.
class PeerDirectory {
 public:
  /// Adds a peer whose tables were checked. Errors: kOutOfRange when limits::kPeersMax are in use.
  Result<PeerIndex> add(const PeerInfo& info);
  void set_state(PeerIndex peer, PeerState state) noexcept;

  PeerState state(PeerIndex peer) const noexcept;
  /// Null while absent.
  const PeerInfo* info(PeerIndex peer) const noexcept;
  /// Finds the peer that is this node in this incarnation, in any state but kGone; nullopt-like:
  /// kPeersMax when unknown.
  PeerIndex find(NodeId node, Incarnation incarnation) const noexcept;
  static constexpr PeerIndex kNone{limits::kPeersMax};
  uint32_t count() const noexcept;

 private:
  struct Entry {
    std::unique_ptr<PeerInfo> info;  // conductor writes before `published`
    std::atomic<const PeerInfo*> published{nullptr};
    std::atomic<PeerState> state{PeerState::kAbsent};
  };
  std::array<Entry, limits::kPeersMax> entries_;
  std::atomic<uint32_t> count_{0};
};

}  // namespace peercache
