#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/key.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"

namespace peercache {

/// Who holds a shard: positions in the list `addresses` ("host:port", list order). One per host
/// (host part of the address); with fewer hosts than replicas, further members in list order until
/// there are `replicas_count` of them or no member is left.
std::vector<uint32_t> choose_holders(std::span<const std::string> addresses,
                                     uint32_t replicas_count);

/// Consistent hashing: every holder has `vnodes_count` points on a ring of 2^64; a key belongs to
/// the next holders clockwise from its own point. Points come from the holder's name alone, so that
/// all nodes with the same list agree, and a holder that goes moves only its own keys. Part of what
/// the hash version in the hello stands for.
///
/// THREAD:     immutable after construction.
/// COST:       owners: a table look-up and on average one step; no allocation. 16 bytes per point.
class HashRing {
 public:
  using Owners = std::array<uint32_t, limits::kDirectoryReplicasMax>;

  /// Holder i of the ring is names[i]. Errors: kInvalidArgument (no vnodes), kOutOfRange (more than
  /// limits::kPeersMax names, or more than 2^20 points).
  static Result<HashRing> make(std::span<const std::string> names, uint32_t vnodes_count);

  /// Writes the holders of a key, first the primary, and returns how many: min(replicas_count,
  /// holders). REQUIRES: replicas_count <= limits::kDirectoryReplicasMax.
  uint32_t owners(const Key128& key, uint32_t replicas_count, Owners& owners) const noexcept;

  uint32_t holder_count() const noexcept { return holder_count_; }

 private:
  using ShortOwners = std::array<uint16_t, limits::kDirectoryReplicasMax>;

  HashRing() = default;
  void index_points();

  uint32_t holder_count_ = 0;
  uint32_t shift_ = 0;               ///< point >> shift_ indexes first_
  std::vector<uint64_t> points_;     ///< ascending
  std::vector<ShortOwners> owners_;  ///< of a key that falls on points_[i]: distinct, clockwise
  std::vector<uint32_t> first_;      ///< index of the first point of each slice of the ring
};

}  // namespace peercache
