#include "dataplane/base/strong_id.h"

#include <concepts>
#include <type_traits>
#include <unordered_set>

#include <catch2/catch.hpp>

#include "dataplane/base/units.h"

namespace peercache {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };

TEST_CASE("strong id: there is no implicit conversion and no arithmetic", "[unit]") {
  STATIC_REQUIRE_FALSE(std::is_convertible_v<uint16_t, RailIndex>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<RailIndex, uint16_t>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<RailIndex, PeerIndex>);
  STATIC_REQUIRE_FALSE(Addable<RailIndex, int>);
  STATIC_REQUIRE_FALSE(Addable<RailIndex, RailIndex>);
  STATIC_REQUIRE(sizeof(RailIndex) == sizeof(uint16_t));
}

TEST_CASE("strong id: ids are ordered and hashable", "[unit]") {
  CHECK(RailIndex(1) < RailIndex(2));
  CHECK(RailIndex(2) == RailIndex(2));
  const std::unordered_set<PeerIndex> peers{PeerIndex(1), PeerIndex(2), PeerIndex(1)};
  CHECK(peers.size() == 2);
}

}  // namespace
}  // namespace peercache
