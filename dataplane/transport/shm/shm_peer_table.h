#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/base/cacheline.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/ordering.h"
#include "dataplane/base/unique_handle.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/region_descriptor.h"

namespace peercache {

/// One region of a peer (or of this node) as a client of this process sees it.
///
/// THREAD:     immutable once published; a value.
struct ShmRegionView {
  const std::byte* data = nullptr;  ///< null: no such region
  std::byte* writable =
      nullptr;  ///< own kWritable regions only; nobody maps another's memory writable
  RegionDescriptor descriptor{};
};

/// The regions of one peer.
///
/// THREAD:     immutable once published in a ShmPeerTable; then read by any hot user inside a
/// ShmPin. OWNS:       the mappings of a remote peer (none for the own node).
struct ShmPeerMapping {
  std::array<ShmRegionView, limits::kRegionsPerNodeMax> regions{};
  std::vector<UniqueMapping> mappings;
  uint64_t mapped_bytes = 0;

  /// Null if there is no such region.
  [[nodiscard]] const ShmRegionView* find(RegionIndex region) const noexcept {
    const bool known = region.value() < regions.size() && regions[region.value()].data != nullptr;
    return known ? &regions[region.value()] : nullptr;
  }
};

/// Says in which epoch its thread looked at the table; 0 while it holds nothing. One per thread
/// that copies.
///
/// THREAD:     its one hot user writes, the conductor reads.
struct alignas(kFalseSharingBytes) ShmEpochWord {
  std::atomic<uint64_t> value{0};
};

/// PeerIndex -> mapped regions. What a hot user has found stays mapped until it unpins, also when
/// the peer died meanwhile.
///
/// THREAD:     publish, retire, reclaim, add_user: the conductor (or before it runs); find: a hot
/// user inside a ShmPin;
///             reaches: any.
/// OWNS:       all published and retired mappings.
/// BORROWS:    the epoch words of its users, which live as long as it does.
/// INVARIANTS: (I1) memory is unmapped only when every user is idle or entered after its entry was
/// cleared.
///             (I2) an entry is complete before it can be found.
/// COST:       a pin is one locked instruction; find is one load.
class ShmPeerTable {
 public:
  /// Hot users: every client, and as many copiers as a host has cores to spare.
  static constexpr size_t kCopiersMax = 16;
  static constexpr size_t kUsersMax = limits::kClientsMax + kCopiersMax;

  ShmPeerTable() = default;
  /// REQUIRES: every user is idle.
  ~ShmPeerTable();
  ShmPeerTable(const ShmPeerTable&) = delete;
  ShmPeerTable& operator=(const ShmPeerTable&) = delete;

  /// Makes the regions visible. REQUIRES: the peer has none published.
  void publish(PeerIndex peer, std::unique_ptr<ShmPeerMapping> mapping);

  /// Hides them and keeps them mapped until no user can be reading. No-op for an unknown peer.
  void retire(PeerIndex peer);

  /// Unmaps what nobody can read any more, at most about `step` bytes. Returns the bytes unmapped;
  /// 0 also while users are still inside (see pending_bytes).
  uint64_t reclaim(Bytes step);

  /// Registers a thread that will pin. REQUIRES: fewer than kUsersMax are registered.
  void add_user(ShmEpochWord& word) noexcept;

  [[nodiscard]] bool reaches(PeerIndex peer) const noexcept {
    // Relaxed is enough: an answer that may be old at once, nothing is read through it.
    return peer.value() < entries_.size() &&
           entries_[peer.value()].load(std::memory_order_relaxed) != nullptr;
  }

  /// Remote bytes visible to hot users, and bytes hidden but not unmapped yet.
  [[nodiscard]] uint64_t mapped_bytes() const noexcept { return mapped_bytes_; }
  [[nodiscard]] uint64_t pending_bytes() const noexcept { return pending_bytes_; }
  [[nodiscard]] bool has_retired() const noexcept { return !retired_.empty(); }

  void check_invariants() const;

 private:
  friend class ShmPin;
  struct Retired {
    uint64_t epoch;  // users that entered with this or a later one have not seen it
    std::unique_ptr<ShmPeerMapping> mapping;
  };

  [[nodiscard]] bool nobody_before(uint64_t epoch) const noexcept;

  std::array<std::atomic<const ShmPeerMapping*>, limits::kPeersMax> entries_{};
  Padded<std::atomic<uint64_t>> epoch_{{1}};

  // conductor_
  std::array<std::unique_ptr<ShmPeerMapping>, limits::kPeersMax> owned_{};
  std::array<ShmEpochWord*, kUsersMax> users_{};
  size_t user_count_ = 0;
  std::vector<Retired> retired_;
  uint64_t mapped_bytes_ = 0;
  uint64_t pending_bytes_ = 0;
};

/// Keeps everything that it finds mapped until the end of the scope.
///
/// THREAD:     the hot user that owns the word; short scopes: a turn, not a wait.
/// BORROWS:    table and word.
class ShmPin {
 public:
  ShmPin(const ShmPeerTable& table, ShmEpochWord& word) noexcept : table_(table), word_(word) {
    // P1 acquire: meets P2 in retire(); whoever reads the new epoch sees the cleared entry.
    const uint64_t epoch = table.epoch_.value.load(std::memory_order_acquire);
    // Either the retiring side sees this word, or find() sees the cleared entry.
    announce_entry(word.value, epoch);
  }
  ShmPin(const ShmPin&) = delete;
  ShmPin& operator=(const ShmPin&) = delete;
  ~ShmPin() {
    // P4 release: meets load_announced in nobody_before(); all reads of the memory come before it
    // is unmapped.
    word_.value.store(0, std::memory_order_release);
  }

  /// Null if the peer is not connected.
  [[nodiscard]] const ShmPeerMapping* find(PeerIndex peer) const noexcept {
    if (peer.value() >= table_.entries_.size()) {
      return nullptr;
    }
    return entered_load(table_.entries_[peer.value()]);  // meets P3 in publish(): complete (I2)
  }

 private:
  const ShmPeerTable& table_;
  ShmEpochWord& word_;
};

}  // namespace peercache
