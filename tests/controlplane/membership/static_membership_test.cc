#include "controlplane/membership/static_membership.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = MembershipAction::Kind;

NodeIdentity identity(uint64_t node, uint32_t incarnation) {
  const std::string name = "node-" + std::to_string(node);
  return {name,     NodeId(node),   Incarnation(incarnation),
          "host-a", name + ":7000", "/run/" + name + ".sock"};
}

StaticMembershipOptions options_of(uint64_t own, uint32_t members_count) {
  StaticMembershipOptions options;
  options.terms = {"c", 1, 1, 160, 2, 6000};
  options.self = identity(own, 100);
  for (uint64_t i = 1; i <= members_count; ++i) {
    options.members.push_back(identity(i, 0).control_address);
  }
  return options;
}

HelloReplyMessage welcome(const NodeIdentity& from) { return {options_of(1, 1).terms, from, {}}; }

/// Node 1 of a list of three, with the test in the place of the other two.
class Bench {
 public:
  explicit Bench(StaticMembershipOptions options = options_of(1, 3))
      : membership(*StaticMembership::open(std::move(options), Nanos(0))) {}

  std::vector<MembershipAction> step(Nanos advance = Nanos(0)) {
    now += advance;
    std::vector<MembershipAction> actions;
    membership->step(now, actions);
    membership->check_invariants();
    return actions;
  }
  /// Brings member `index` up as `who`.
  void bring_up(uint32_t index, const NodeIdentity& who) {
    step();
    membership->on_hello_result(index, welcome(who), now);
    const auto actions = step();
    REQUIRE(count(actions, Kind::kMemberUp, index) == 1);
  }
  static size_t count(const std::vector<MembershipAction>& actions, Kind kind, uint32_t index) {
    return static_cast<size_t>(
        std::count_if(actions.begin(), actions.end(), [&](const MembershipAction& action) {
          return action.kind == kind && action.member_index == index;
        }));
  }
  const Member& member(uint32_t index) {
    view = membership->view();
    return view->members()[index];
  }

  std::unique_ptr<StaticMembership> membership;
  std::shared_ptr<const View> view;
  Nanos now{0};
};

const Error kTimeoutError = make_error(Errc::kTimeout, "test");
const Error kRefusedError = make_error(Errc::kConnectRefused, "test");
const Error kLostError = make_error(Errc::kPeerLost, "test");

TEST_CASE("static_membership: knows its own place and greets all others at once", "[unit]") {
  Bench bench;
  REQUIRE(bench.membership->view()->self_index() == 0U);
  REQUIRE(bench.membership->view()->up_count() == 1);
  const auto actions = bench.step();
  REQUIRE(actions.size() == 2);
  REQUIRE(Bench::count(actions, Kind::kSendHello, 1) == 1);
  REQUIRE(Bench::count(actions, Kind::kSendHello, 2) == 1);
  REQUIRE(bench.step(seconds(10)).empty());  // one call per member at a time
  REQUIRE_FALSE(bench.membership->settled());
}

TEST_CASE("static_membership: alone is up at once", "[unit]") {
  Bench bench(options_of(1, 0));
  REQUIRE(bench.step().empty());
  REQUIRE(bench.membership->settled());
  REQUIRE(bench.membership->view()->members().size() == 1);
  REQUIRE(bench.membership->next_due() == Nanos::max());
}

TEST_CASE("static_membership: a bad list is refused", "[unit]") {
  StaticMembershipOptions options = options_of(1, 2);
  options.members.push_back("no port");
  REQUIRE(StaticMembership::open(options, Nanos(0)).error().code == Errc::kBadValue);
  options = options_of(1, 2);
  options.members.push_back(options.members[0]);
  REQUIRE(StaticMembership::open(options, Nanos(0)).error().code == Errc::kBadValue);
}

TEST_CASE("static_membership: finds itself behind another spelling by greeting itself", "[unit]") {
  StaticMembershipOptions options = options_of(1, 3);
  options.self.control_address = "0.0.0.0:7000";
  Bench bench(options);
  REQUIRE(bench.membership->view()->members().size() == 4);
  REQUIRE(bench.membership->view()->self_index() == 3U);
  REQUIRE(bench.step().size() == 3);
  // Our own hello comes in, and our own reply goes back.
  const HelloReplyMessage reply =
      bench.membership->on_hello(bench.membership->own_hello(), bench.now);
  REQUIRE(reply.refusal.empty());
  bench.membership->on_hello_result(0, reply, bench.now);
  REQUIRE(bench.membership->view()->members().size() == 3);
  REQUIRE(bench.membership->view()->self_index() == 0U);
  REQUIRE(bench.membership->view()->up_count() == 1);
  bench.step();
}

TEST_CASE("static_membership: a member is up from its answer, then gets heartbeats", "[unit]") {
  Bench bench;
  bench.bring_up(1, identity(2, 200));
  REQUIRE(bench.member(1).state == MemberState::kUp);
  REQUIRE(bench.member(1).shm_path == "/run/node-2.sock");
  REQUIRE(bench.membership->view()->liveness(NodeId(2), Incarnation(200)) == Liveness::kLive);
  REQUIRE(bench.step(milliseconds(1999)).empty());
  REQUIRE(Bench::count(bench.step(milliseconds(1)), Kind::kSendHeartbeat, 1) == 1);
  bench.membership->on_heartbeat_result(
      1, HeartbeatReplyMessage{NodeId(2), Incarnation(200), true, 0}, bench.now);
  REQUIRE(bench.step(milliseconds(1999)).empty());
  REQUIRE(bench.membership->next_due() == bench.now + milliseconds(1));
}

TEST_CASE("static_membership: silence makes suspect at half the TTL and down at all of it",
          "[unit]") {
  Bench bench;
  bench.bring_up(1, identity(2, 200));
  const Nanos heard = bench.now;
  std::vector<MembershipAction> all;
  while (bench.now < heard + seconds(7)) {
    for (const MembershipAction& action : bench.step(milliseconds(10))) {
      all.push_back(action);
      if (action.member_index == 1 && action.kind == Kind::kSendHeartbeat) {
        bench.membership->on_heartbeat_result(1, kTimeoutError, bench.now);
      }
      if (action.kind == Kind::kMemberSuspect) REQUIRE(bench.now == heard + seconds(3));
      if (action.kind == Kind::kMemberDown) REQUIRE(bench.now == heard + seconds(6));
    }
  }
  REQUIRE(Bench::count(all, Kind::kMemberSuspect, 1) == 1);
  REQUIRE(Bench::count(all, Kind::kMemberDown, 1) == 1);
  REQUIRE(bench.membership->view()->liveness(NodeId(2), Incarnation(200)) == Liveness::kDead);
  // It was only frozen: the same incarnation answers a hello and counts again.
  bench.membership->on_hello_result(1, welcome(identity(2, 200)), bench.now);
  REQUIRE(Bench::count(bench.step(), Kind::kMemberUp, 1) == 1);
  REQUIRE(bench.membership->view()->liveness(NodeId(2), Incarnation(200)) == Liveness::kLive);
}

TEST_CASE("static_membership: a refused connection is a dead process, a lost one a suspicion",
          "[unit]") {
  Bench bench;
  bench.bring_up(1, identity(2, 200));
  bench.step(seconds(2));
  bench.membership->on_heartbeat_result(1, kLostError, bench.now);
  auto actions = bench.step();
  REQUIRE(Bench::count(actions, Kind::kMemberSuspect, 1) == 1);
  REQUIRE(Bench::count(actions, Kind::kSendHeartbeat, 1) == 1);  // at once
  bench.membership->on_heartbeat_result(1, kRefusedError, bench.now);
  actions = bench.step();
  REQUIRE(Bench::count(actions, Kind::kMemberDown, 1) == 1);
  REQUIRE(bench.member(1).state == MemberState::kDown);
}

TEST_CASE("static_membership: a member that never answers is asked for ever, ever less often",
          "[unit]") {
  Bench bench;
  std::vector<Nanos> asked;
  while (bench.now < seconds(60)) {
    for (const MembershipAction& action : bench.step(milliseconds(5))) {
      if (action.member_index != 2 || action.kind != Kind::kSendHello) continue;
      asked.push_back(bench.now);
      bench.membership->on_hello_result(2, kRefusedError, bench.now);
    }
  }
  REQUIRE(asked.size() > 30);  // at least every 2 s
  REQUIRE(asked.size() < 50);
  REQUIRE(asked[1] - asked[0] <= milliseconds(105));
  REQUIRE(asked.back() > seconds(57));
  // The moment it starts it greets us, and is asked at once.
  const HelloMessage hello{options_of(1, 1).terms, identity(3, 300)};
  REQUIRE(bench.membership->on_hello(hello, bench.now).refusal.empty());
  REQUIRE(Bench::count(bench.step(), Kind::kSendHello, 2) == 1);
}

TEST_CASE("static_membership: a new incarnation makes the old one dead at once", "[unit]") {
  Bench bench;
  bench.bring_up(1, identity(2, 200));
  const HelloMessage hello{options_of(1, 1).terms, identity(2, 201)};
  REQUIRE(bench.membership->on_hello(hello, bench.now).refusal.empty());
  REQUIRE(bench.membership->view()->liveness(NodeId(2), Incarnation(200)) == Liveness::kDead);
  auto actions = bench.step();
  REQUIRE(Bench::count(actions, Kind::kMemberReplaced, 1) == 1);
  REQUIRE(actions[0].incarnation == Incarnation(200));
  REQUIRE(Bench::count(actions, Kind::kSendHello, 1) == 1);
  bench.membership->on_hello_result(1, welcome(identity(2, 201)), bench.now);
  actions = bench.step();
  REQUIRE(Bench::count(actions, Kind::kMemberUp, 1) == 1);
  REQUIRE(bench.membership->view()->liveness(NodeId(2), Incarnation(201)) == Liveness::kLive);

  // What the old process still says is of no effect.
  const HelloMessage late{options_of(1, 1).terms, identity(2, 200)};
  REQUIRE(bench.membership->on_hello(late, bench.now).refusal.find("replaced") !=
          std::string::npos);
  REQUIRE_FALSE(bench.membership->on_heartbeat({NodeId(2), Incarnation(200)}, bench.now).known);
  bench.membership->on_leave({NodeId(2), Incarnation(200)}, bench.now);
  bench.membership->on_peer_lost(NodeId(2), Incarnation(200), bench.now);
  REQUIRE(bench.step().empty());
  REQUIRE(bench.membership->view()->liveness(NodeId(2), Incarnation(201)) == Liveness::kLive);
}

TEST_CASE("static_membership: a heartbeat that another process answers starts over", "[unit]") {
  Bench bench;
  bench.bring_up(1, identity(2, 200));
  bench.step(seconds(2));
  bench.membership->on_heartbeat_result(
      1, HeartbeatReplyMessage{NodeId(2), Incarnation(201), false, 0}, bench.now);
  const auto actions = bench.step();
  REQUIRE(Bench::count(actions, Kind::kMemberReplaced, 1) == 1);
  REQUIRE(Bench::count(actions, Kind::kSendHello, 1) == 1);
}

TEST_CASE("static_membership: who does not know us is greeted again", "[unit]") {
  Bench bench;
  bench.bring_up(1, identity(2, 200));
  bench.step(seconds(2));
  bench.membership->on_heartbeat_result(
      1, HeartbeatReplyMessage{NodeId(2), Incarnation(200), false, 0}, bench.now);
  REQUIRE(bench.member(1).state == MemberState::kUp);
  REQUIRE(Bench::count(bench.step(), Kind::kSendHello, 1) == 1);
}

TEST_CASE("static_membership: who leaves is down at once and never back", "[unit]") {
  Bench bench;
  bench.bring_up(1, identity(2, 200));
  bench.membership->on_leave({NodeId(2), Incarnation(200)}, bench.now);
  REQUIRE(Bench::count(bench.step(), Kind::kMemberDown, 1) == 1);
  REQUIRE(bench.member(1).state == MemberState::kDown);
  auto actions = bench.step(seconds(2));
  REQUIRE(Bench::count(actions, Kind::kSendHello, 1) == 1);
  bench.membership->on_hello_result(1, welcome(identity(2, 200)), bench.now);
  REQUIRE(bench.member(1).state == MemberState::kDown);
  REQUIRE(Bench::count(bench.step(seconds(3)), Kind::kSendHello, 1) == 1);
  bench.membership->on_hello_result(1, welcome(identity(2, 201)), bench.now);
  REQUIRE(bench.member(1).state == MemberState::kUp);
}

TEST_CASE("static_membership: an end seen by the data path is looked into at once", "[unit]") {
  Bench bench;
  bench.bring_up(1, identity(2, 200));
  bench.membership->on_peer_lost(NodeId(2), Incarnation(200), bench.now);
  auto actions = bench.step();
  REQUIRE(Bench::count(actions, Kind::kMemberSuspect, 1) == 1);
  REQUIRE(Bench::count(actions, Kind::kSendHeartbeat, 1) == 1);
  // It still answers: up again.
  bench.membership->on_heartbeat_result(
      1, HeartbeatReplyMessage{NodeId(2), Incarnation(200), true, 0}, bench.now);
  REQUIRE(Bench::count(bench.step(), Kind::kMemberUp, 1) == 1);
}

TEST_CASE("static_membership: a refusal names field and values, and is told once", "[unit]") {
  Bench bench;
  bench.step();
  HelloReplyMessage reply = welcome(identity(2, 200));
  reply.terms.vnodes_count = 32;
  bench.membership->on_hello_result(1, reply, bench.now);
  REQUIRE(Bench::count(bench.step(), Kind::kMemberRefused, 1) == 1);
  REQUIRE(bench.member(1).refusal == "vnodes differs: 160 here, 32 there");
  REQUIRE(bench.member(1).state == MemberState::kUnknown);
  const auto actions = bench.step(seconds(2));
  REQUIRE(Bench::count(actions, Kind::kSendHello, 1) == 1);
  bench.membership->on_hello_result(1, reply, bench.now);
  REQUIRE(Bench::count(bench.step(), Kind::kMemberRefused, 1) == 0);
  bench.membership->on_hello_result(2, welcome(identity(3, 300)), bench.now);
  REQUIRE(bench.membership->settled());  // waiting longer would not help

  // Put right, it joins.
  bench.step(seconds(2));
  bench.membership->on_hello_result(1, welcome(identity(2, 201)), bench.now);
  REQUIRE(bench.member(1).state == MemberState::kUp);
  REQUIRE(bench.member(1).refusal.empty());

  // The other way round: our hello is refused there, and theirs here.
  HelloMessage hello{options_of(1, 1).terms, identity(3, 300)};
  hello.terms.cluster_name = "other";
  REQUIRE(bench.membership->on_hello(hello, bench.now).refusal ==
          "cluster_name differs: \"c\" here, \"other\" there");
}

TEST_CASE("static_membership: one node id cannot be two nodes", "[unit]") {
  Bench bench;
  bench.bring_up(1, identity(2, 200));
  bench.membership->on_hello_result(2, welcome(identity(2, 200)), bench.now);
  REQUIRE(bench.member(2).refusal == "node id node-2 is used by member node-2:7000 as well");
  HelloReplyMessage reply = welcome(identity(1, 999));
  bench.membership->on_hello_result(2, reply, bench.now);
  REQUIRE(bench.member(2).refusal == "node id node-1 is used by this node as well");
  const HelloMessage hello{options_of(1, 1).terms, identity(1, 999)};
  REQUIRE(bench.membership->on_hello(hello, bench.now).refusal.find("used twice") !=
          std::string::npos);
  bench.step();
}

}  // namespace
}  // namespace peercache
