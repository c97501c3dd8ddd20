#include "controlplane/directory/hash_ring.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_set>

#include "controlplane/wire/host_port.h"
#include "dataplane/base/assert.h"

namespace peercache {

namespace {

constexpr size_t kPointsMax = size_t{1} << 20;

/// Where a key stands on the ring. Mixed again: the table's bucket index is made of the same bits,
/// and a shard would otherwise see only a part of their range.
uint64_t point_of(const Key128& key) noexcept {
  uint64_t x = key.low ^ (key.high * 0x9e3779b97f4a7c15ULL);
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  return x;
}

std::string host_of(const std::string& address) {
  const Result<HostPort> parsed = parse_host_port(address);
  return parsed ? parsed->host : address;
}

}  // namespace

std::vector<uint32_t> choose_holders(std::span<const std::string> addresses,
                                     uint32_t replicas_count) {
  std::vector<bool> chosen(addresses.size(), false);
  std::unordered_set<std::string> hosts;
  size_t holders_count = 0;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (hosts.insert(host_of(addresses[i])).second) {
      chosen[i] = true;
      ++holders_count;
    }
  }
  for (size_t i = 0; i < addresses.size() && holders_count < replicas_count; ++i) {
    if (!chosen[i]) {
      chosen[i] = true;
      ++holders_count;
    }
  }
  std::vector<uint32_t> holders;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (chosen[i]) holders.push_back(static_cast<uint32_t>(i));
  }
  return holders;
}

Result<HashRing> HashRing::make(std::span<const std::string> names, uint32_t vnodes_count) {
  if (vnodes_count == 0) return make_error(Errc::kInvalidArgument, "a ring needs virtual nodes");
  if (names.size() > limits::kPeersMax || names.size() * vnodes_count > kPointsMax) {
    return make_error(Errc::kOutOfRange, "a ring of {} holders with {} points each", names.size(),
                      vnodes_count);
  }
  struct Point {
    uint64_t at;
    uint32_t name_index;
  };
  std::vector<Point> points;
  points.reserve(names.size() * vnodes_count);
  for (uint32_t i = 0; i < names.size(); ++i) {
    for (uint32_t v = 0; v < vnodes_count; ++v) {
      const std::string label = names[i] + "#" + std::to_string(v);
      points.push_back({hash_bytes64(label.data(), label.size()), i});
    }
  }
  // Equal points are next to impossible; the name decides then, not its place in somebody's list.
  std::sort(points.begin(), points.end(), [&](const Point& a, const Point& b) {
    return a.at != b.at ? a.at < b.at : names[a.name_index] < names[b.name_index];
  });

  HashRing ring;
  ring.holder_count_ = static_cast<uint32_t>(names.size());
  ring.points_.reserve(points.size());
  ring.owners_.resize(points.size());
  for (const Point& point : points) ring.points_.push_back(point.at);
  const size_t owners_max = std::min(names.size(), limits::kDirectoryReplicasMax);
  for (size_t i = 0; i < points.size(); ++i) {
    ShortOwners& owners = ring.owners_[i];
    size_t found_count = 0;
    for (size_t step = 0; step < points.size() && found_count < owners_max; ++step) {
      const auto name = static_cast<uint16_t>(points[(i + step) % points.size()].name_index);
      const auto end = owners.begin() + static_cast<ptrdiff_t>(found_count);
      if (std::find(owners.begin(), end, name) == end) owners[found_count++] = name;
    }
  }
  ring.index_points();
  return ring;
}

void HashRing::index_points() {
  if (points_.empty()) return;
  // About one point per slice; at least two slices, so that the shift is below 64.
  const size_t slices_count = std::max<size_t>(2, std::bit_ceil(points_.size()));
  shift_ = 64U - static_cast<uint32_t>(std::countr_zero(slices_count));
  first_.resize(slices_count);
  uint32_t index = 0;
  for (size_t slice = 0; slice < slices_count; ++slice) {
    const uint64_t begin = static_cast<uint64_t>(slice) << shift_;
    while (index < points_.size() && points_[index] < begin) ++index;
    first_[slice] = index;
  }
}

uint32_t HashRing::owners(const Key128& key,
                          uint32_t replicas_count,
                          Owners& owners) const noexcept {
  PC_ASSERT(replicas_count <= limits::kDirectoryReplicasMax, replicas_count);
  const uint32_t count = std::min(replicas_count, holder_count_);
  if (count == 0) return 0;
  const uint64_t at = point_of(key);
  uint32_t index = first_[at >> shift_];
  while (index < points_.size() && points_[index] < at) ++index;
  if (index == points_.size()) index = 0;  // clockwise over the end
  const ShortOwners& found = owners_[index];
  for (uint32_t i = 0; i < count; ++i) owners[i] = found[i];
  return count;
}

}  // namespace peercache
