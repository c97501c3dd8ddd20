#include "controlplane/membership/view.h"

#include <random>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

Member member(uint64_t node, uint32_t incarnation, MemberState state) {
  Member member;
  member.control_address = "h" + std::to_string(node) + ":1";
  member.node = NodeId(node);
  member.incarnation = Incarnation(incarnation);
  member.state = state;
  return member;
}

TEST_CASE("view: a record counts by the incarnation and state of its node", "[unit]") {
  const View view(Epoch(3), {member(1, 10, MemberState::kUp), member(2, 20, MemberState::kSuspect),
                             member(3, 30, MemberState::kDown),
                             member(4, 40, MemberState::kUnknown), Member{}});
  REQUIRE(view.epoch() == Epoch(3));
  REQUIRE(view.liveness(NodeId(1), Incarnation(10)) == Liveness::kLive);
  REQUIRE(view.liveness(NodeId(1), Incarnation(11)) == Liveness::kDead);
  REQUIRE(view.liveness(NodeId(2), Incarnation(20)) == Liveness::kSuspect);
  REQUIRE(view.liveness(NodeId(3), Incarnation(30)) == Liveness::kDead);
  REQUIRE(view.liveness(NodeId(4), Incarnation(40)) == Liveness::kUnknown);
  REQUIRE(view.liveness(NodeId(4), Incarnation(41)) == Liveness::kDead);
  REQUIRE(view.liveness(NodeId(5), Incarnation(50)) == Liveness::kUnknown);
  REQUIRE(view.liveness(NodeId(0), Incarnation(0)) == Liveness::kUnknown);
  REQUIRE(view.up_count() == 1);
  REQUIRE_FALSE(view.self_index().has_value());
}

TEST_CASE("view: an empty view knows nobody", "[unit]") {
  const View view;
  REQUIRE(view.find(NodeId(1)) == nullptr);
  REQUIRE(view.liveness(NodeId(1), Incarnation(1)) == Liveness::kUnknown);
}

TEST_CASE("view: all of many members are found, and nobody else", "[unit]") {
  std::mt19937_64 random(7);
  std::vector<Member> members;
  for (int i = 0; i < 1000; ++i) members.push_back(member(random() | 1, 1, MemberState::kUp));
  members[123].self = true;
  const View view(Epoch(1), members);
  for (const Member& each : members) {
    REQUIRE(view.find(each.node) != nullptr);
    REQUIRE(view.find(each.node)->control_address == each.control_address);
    REQUIRE(view.find(NodeId(each.node.value() + 1)) == nullptr);
  }
  REQUIRE(view.up_count() == 1000);
  REQUIRE(view.self_index() == 123U);
}

TEST_CASE("view: a node that stands in the list twice counts at its first place", "[unit]") {
  Member first = member(1, 10, MemberState::kUp);
  first.self = true;
  Member second = first;
  second.control_address = "alias:1";
  const View view(Epoch(1), {member(2, 20, MemberState::kUp), first, second});
  REQUIRE(view.self_index() == 1U);
  REQUIRE(view.find(NodeId(1))->control_address == "h1:1");
}

}  // namespace
}  // namespace peercache
