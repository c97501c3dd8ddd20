#include "dataplane/engine/peer_directory.h"

#include <catch2/catch.hpp>
#include <memory>

#include "tests/dataplane/engine/fake_rail.h"

namespace peercache {

TEST_CASE("peer directory: an added peer is absent until it is up", "[unit]") {
  const auto peers = std::make_unique<PeerDirectory>();
  CHECK(peers->count() == 0);
  CHECK(peers->info(PeerIndex(0)) == nullptr);
  const PeerIndex peer = peers->add(test::ClientBench::peer_info(9)).value();
  CHECK(peers->count() == 1);
  CHECK(peers->state(peer) == PeerState::kAbsent);
  peers->set_state(peer, PeerState::kUp);
  CHECK(peers->state(peer) == PeerState::kUp);
  REQUIRE(peers->info(peer) != nullptr);
  CHECK(peers->info(peer)->node == NodeId(9));
  CHECK(peers->info(peer)->region_table().size() == 4);
}

TEST_CASE("peer directory: a node is found by incarnation, unless it is gone", "[unit]") {
  const auto peers = std::make_unique<PeerDirectory>();
  PeerInfo info = test::ClientBench::peer_info(9);
  const PeerIndex first = peers->add(info).value();
  info.incarnation = Incarnation(777);
  const PeerIndex second = peers->add(info).value();
  CHECK(first != second);  // a peer that comes back is another one
  CHECK(peers->find(NodeId(9), Incarnation(109)) == first);
  CHECK(peers->find(NodeId(9), Incarnation(777)) == second);
  CHECK(peers->find(NodeId(9), Incarnation(1)) == PeerDirectory::kNone);
  CHECK(peers->find(NodeId(8), Incarnation(777)) == PeerDirectory::kNone);
  peers->set_state(first, PeerState::kSuspect);
  CHECK(peers->find(NodeId(9), Incarnation(109)) == first);
  peers->set_state(first, PeerState::kGone);
  CHECK(peers->find(NodeId(9), Incarnation(109)) == PeerDirectory::kNone);
  CHECK(peers->info(first) != nullptr);  // kept: a rail may still look at it
}

TEST_CASE("peer directory: the last index and the one after it", "[unit]") {
  const auto peers = std::make_unique<PeerDirectory>();
  for (size_t i = 0; i < limits::kPeersMax; ++i) {
    REQUIRE(peers->add(PeerInfo{}).has_value());
  }
  const auto refused = peers->add(PeerInfo{});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::kOutOfRange);
  CHECK(refused.error().values[0] == limits::kPeersMax);
  CHECK(peers->state(PeerDirectory::kNone) == PeerState::kAbsent);
  CHECK(peers->info(PeerDirectory::kNone) == nullptr);
  CHECK(test::aborts([&] { peers->set_state(PeerDirectory::kNone, PeerState::kUp); }));
}

}  // namespace peercache
