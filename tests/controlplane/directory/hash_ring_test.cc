#include "controlplane/directory/hash_ring.h"

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

std::vector<std::string> names(uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) names.push_back("10.0.0." + std::to_string(i) + ":7000");
  return names;
}

TEST_CASE("hash_ring: owners are distinct, as many as asked for or there are", "[unit]") {
  std::mt19937_64 random(1);
  for (const uint32_t holders_count : {1U, 2U, 3U, 5U, 64U}) {
    const HashRing ring = *HashRing::make(names(holders_count), 160);
    REQUIRE(ring.holder_count() == holders_count);
    for (uint32_t replicas = 0; replicas <= limits::kDirectoryReplicasMax; ++replicas) {
      for (int i = 0; i < 200; ++i) {
        HashRing::Owners owners{};
        const uint32_t count = ring.owners(Key128{random(), random()}, replicas, owners);
        REQUIRE(count == std::min(replicas, holders_count));
        const std::set<uint32_t> distinct(owners.begin(), owners.begin() + count);
        REQUIRE(distinct.size() == count);
        for (const uint32_t owner : distinct) REQUIRE(owner < holders_count);
      }
    }
  }
}

TEST_CASE("hash_ring: an empty ring has no owners", "[unit]") {
  const HashRing ring = *HashRing::make({}, 160);
  HashRing::Owners owners{};
  REQUIRE(ring.owners(Key128{1, 2}, 2, owners) == 0);
  REQUIRE(HashRing::make(names(3), 0).error().code == Errc::kInvalidArgument);
  REQUIRE(HashRing::make(names(1000), 1100).error().code == Errc::kOutOfRange);
}

TEST_CASE("hash_ring: 160 points per holder spread keys evenly", "[unit]") {
  constexpr uint32_t kHolders = 8;
  constexpr int kKeys = 200'000;
  const HashRing ring = *HashRing::make(names(kHolders), 160);
  std::array<int, kHolders> first{};
  std::array<int, kHolders> any{};
  std::mt19937_64 random(2);
  for (int i = 0; i < kKeys; ++i) {
    HashRing::Owners owners{};
    ring.owners(Key128{random(), random()}, 2, owners);
    ++first[owners[0]];
    ++any[owners[0]];
    ++any[owners[1]];
  }
  // The spread of n points is 1/sqrt(n): 8 %. Four of that.
  for (uint32_t h = 0; h < kHolders; ++h) {
    REQUIRE(std::abs(first[h] - kKeys / 8) < kKeys / 8 * 32 / 100);
    REQUIRE(std::abs(any[h] - kKeys / 4) < kKeys / 4 * 32 / 100);
  }
}

TEST_CASE("hash_ring: a holder that goes moves only its own keys", "[unit]") {
  const std::vector<std::string> all = names(8);
  std::vector<std::string> fewer = all;
  fewer.erase(fewer.begin() + 3);
  const HashRing before = *HashRing::make(all, 160);
  const HashRing after = *HashRing::make(fewer, 160);
  std::mt19937_64 random(3);
  int moved_count = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Key128 key{random(), random()};
    HashRing::Owners old_owners{};
    HashRing::Owners new_owners{};
    before.owners(key, 3, old_owners);
    after.owners(key, 2, new_owners);
    // The owners that are left keep their order; the next one takes the empty place.
    std::vector<std::string> left;
    for (uint32_t o = 0; o < 3; ++o) {
      if (old_owners[o] != 3) left.push_back(all[old_owners[o]]);
    }
    REQUIRE(fewer[new_owners[0]] == left[0]);
    REQUIRE(fewer[new_owners[1]] == left[1]);
    if (old_owners[0] == 3) ++moved_count;
  }
  REQUIRE(moved_count > 20'000 / 8 / 2);
  REQUIRE(moved_count < 20'000 / 8 * 2);
}

TEST_CASE("hash_ring: the order of the list does not move keys", "[unit]") {
  const std::vector<std::string> forward = names(7);
  const std::vector<std::string> backward(forward.rbegin(), forward.rend());
  const HashRing a = *HashRing::make(forward, 40);
  const HashRing b = *HashRing::make(backward, 40);
  std::mt19937_64 random(4);
  for (int i = 0; i < 5000; ++i) {
    const Key128 key{random(), random()};
    HashRing::Owners of_a{};
    HashRing::Owners of_b{};
    a.owners(key, 2, of_a);
    b.owners(key, 2, of_b);
    for (int o = 0; o < 2; ++o) REQUIRE(forward[of_a[o]] == backward[of_b[o]]);
  }
}

// These owners are what the hash version of the hello stands for: another result needs another
// version.
TEST_CASE("hash_ring: golden owners", "[unit]") {
  const HashRing ring = *HashRing::make(names(5), 160);
  std::string found;
  for (uint64_t i = 0; i < 24; ++i) {
    HashRing::Owners owners{};
    ring.owners(Key128{i * 0x9e3779b97f4a7c15ULL, ~i}, 2, owners);
    found += std::to_string(owners[0]) + std::to_string(owners[1]) + " ";
  }
  REQUIRE(found == "24 04 01 01 43 04 24 23 21 32 14 02 40 13 01 43 01 32 40 43 34 20 43 42 ");
}

TEST_CASE("choose_holders: one per host, more only as far as replicas need them", "[unit]") {
  const auto choose = [](const std::vector<std::string>& addresses, uint32_t replicas) {
    return choose_holders(addresses, replicas);
  };
  using Holders = std::vector<uint32_t>;
  REQUIRE(choose({}, 2).empty());
  REQUIRE(choose({"a:1"}, 2) == Holders{0});
  REQUIRE(choose({"a:1", "a:2", "a:3", "a:4"}, 2) == Holders{0, 1});
  REQUIRE(choose({"a:1", "a:2", "a:3", "a:4"}, 1) == Holders{0});
  REQUIRE(choose({"a:1", "a:2", "b:1", "b:2"}, 2) == Holders{0, 2});
  REQUIRE(choose({"a:1", "a:2", "b:1", "b:2"}, 3) == Holders{0, 1, 2});
  REQUIRE(choose({"a:1", "a:2", "b:1", "c:1", "c:2"}, 2) == Holders{0, 2, 3});
  REQUIRE(choose({"[::1]:1", "[::1]:2", "[::2]:1"}, 2) == Holders{0, 2});
}

}  // namespace
}  // namespace peercache
