#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "controlplane/node/call_shared.h"
#include "controlplane/node/directory_routes.h"
#include "dataplane/engine/client.h"

namespace peercache {

/// One round of directory lookups: all keys, all replicas, every shard holder asked once and at the
/// same time.
///
/// THREAD:     its call's.
/// OWNS:       per holder the keys asked and the answers; grown to the largest round and kept.
/// COST:       two buckets per key and replica; no allocation once grown (holders asked by RPC
///             excepted).
class LookupRound {
 public:
  LookupRound(const CallShared& shared, Client& client) : shared_(shared), client_(client) {}

  /// Asks for keys[i] for each i in `wanted`. REQUIRES: no round is under way; the arguments live
  /// until it is over.
  void start(std::shared_ptr<const DirectoryRoutes> routes,
             std::span<const Key128> keys,
             std::span<const uint32_t> wanted,
             Nanos deadline_at,
             WakeEvent* event);

  /// Makes progress; true when all answers are there or given up, and nobody writes into them any
  /// more.
  bool done(bool expired);

  /// Calls fn(key_index, answers of its live replicas) for each wanted key. REQUIRES: done.
  template <class Fn>
  void for_each(Fn&& fn) const {
    for (size_t i = 0; i < wanted_.size(); ++i) {
      std::array<const LookupResult*, limits::kDirectoryReplicasMax> answers{};
      uint32_t answers_count = 0;
      for (uint32_t r = 0; r < places_[i].count; ++r) {
        const Place::At at = places_[i].at[r];
        const Asked& asked = asked_[at.holder_index];
        if (asked.answered) answers[answers_count++] = &answers_of(asked)[at.position_index];
      }
      fn(wanted_[i], std::span<const LookupResult* const>(answers.data(), answers_count));
    }
  }

 private:
  struct Place {
    struct At {
      uint32_t holder_index;
      uint32_t position_index;
    };
    std::array<At, limits::kDirectoryReplicasMax> at;
    uint32_t count;
  };
  struct Asked {
    std::vector<Key128> keys;
    std::vector<LookupResult> results;
    LookupBatch batch{};
    std::shared_ptr<RpcLookup> rpc;
    bool answered = false;
  };

  void submit(Nanos deadline_at);
  void ask_by_rpc(uint32_t holder_index, Nanos deadline_at, WakeEvent* event);
  static const std::vector<LookupResult>& answers_of(const Asked& asked) {
    return asked.rpc ? asked.rpc->results : asked.results;
  }

  const CallShared& shared_;
  Client& client_;
  std::shared_ptr<const DirectoryRoutes> routes_;
  std::span<const uint32_t> wanted_;
  std::vector<Place> places_;
  std::vector<Asked> asked_;
  std::vector<Op> ops_;
  std::vector<uint32_t> op_holders_;
  Ticket ticket_{};
  bool submitted_ = false;
  bool cancel_sent_ = false;
};

}  // namespace peercache
