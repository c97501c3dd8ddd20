// Whole clusters of StaticMembership in virtual time: crashes, restarts, freezes, lost links.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "controlplane/membership/static_membership.h"

namespace peercache {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = MembershipAction::Kind;

/// Nodes at "n0:1", "n1:1", ... and a network that delays, refuses and swallows.
class Cluster {
 public:
  explicit Cluster(uint32_t nodes_count, uint64_t seed) : random_(seed), nodes_(nodes_count) {
    for (uint32_t i = 0; i < nodes_count; ++i) start(i);
  }

  void start(uint32_t i) {
    StaticMembershipOptions options;
    options.terms = {"c", 1, 1, 160, 2, 6000};
    const std::string name = "n" + std::to_string(i);
    options.self = {name, NodeId(i + 1), Incarnation(++incarnation_last_), "h", name + ":1", ""};
    for (size_t m = 0; m < nodes_.size(); ++m) {
      options.members.push_back("n" + std::to_string(m) + ":1");
    }
    options.seed = random_();
    nodes_[i].membership = *StaticMembership::open(options, now_);
    nodes_[i].up.clear();
  }
  void crash(uint32_t i) { nodes_[i].membership.reset(); }
  void freeze(uint32_t i, bool frozen) { nodes_[i].frozen = frozen; }
  void cut(uint32_t a, uint32_t b, bool cut) { cuts_[{std::min(a, b), std::max(a, b)}] = cut; }
  bool alive(uint32_t i) const { return nodes_[i].membership != nullptr; }

  void run(Nanos time) {
    const Nanos end = now_ + time;
    for (; now_ < end; now_ += milliseconds(5)) {
      auto due = events_.begin();
      while (due != events_.end() && due->first <= now_) {
        const std::function<void()> event = std::move(due->second);
        events_.erase(due);
        event();
        due = events_.begin();
      }
      for (uint32_t i = 0; i < nodes_.size(); ++i) step(i);
    }
  }

  /// Every living node sees exactly the living ones, in their present incarnations.
  bool converged() const {
    for (const Node& node : nodes_) {
      if (!node.membership) continue;
      const std::shared_ptr<const View> view = node.membership->view();
      for (uint32_t i = 0; i < nodes_.size(); ++i) {
        const bool up = view->members()[i].state == MemberState::kUp;
        if (up != alive(i)) return false;
        if (up &&
            view->members()[i].incarnation != nodes_[i].membership->own_heartbeat().incarnation) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  struct Node {
    std::unique_ptr<StaticMembership> membership;
    bool frozen = false;
    std::set<std::pair<uint32_t, uint32_t>> up;  ///< (member, incarnation) told to be up
  };

  void step(uint32_t i) {
    Node& node = nodes_[i];
    if (!node.membership || node.frozen) return;
    std::vector<MembershipAction> actions;
    node.membership->step(now_, actions);
    node.membership->check_invariants();
    for (const MembershipAction& action : actions) act(i, action);
  }

  void act(uint32_t from, const MembershipAction& action) {
    const std::pair<uint32_t, uint32_t> who{action.member_index, action.incarnation.value()};
    switch (action.kind) {
      case Kind::kSendHello:
      case Kind::kSendHeartbeat:
        call(from, action);
        break;
      case Kind::kMemberUp:
        nodes_[from].up.insert(who);
        break;
      case Kind::kMemberDown:
      case Kind::kMemberReplaced:
        REQUIRE(nodes_[from].up.erase(who) == 1);
        break;  // (M3)
      case Kind::kMemberSuspect:
        REQUIRE(nodes_[from].up.contains(who));
        break;
      case Kind::kMemberRefused:
        FAIL("nobody differs here");
        break;
    }
  }

  void after(Nanos delay, std::function<void()> fn) {
    events_.emplace(now_ + delay, std::move(fn));
  }
  Nanos delay() { return milliseconds(1 + random_() % 20); }
  bool is_cut(uint32_t a, uint32_t b) {
    return random_() % 50 == 0 || cuts_[{std::min(a, b), std::max(a, b)}];
  }

  /// A call: there, back, or an error. The caller may be another incarnation by then, as in a
  /// process that restarts: then nobody is called back.
  void call(uint32_t from, const MembershipAction& action) {
    const uint32_t to = action.member_index;
    StaticMembership* const caller = nodes_[from].membership.get();
    const Incarnation own = caller->own_heartbeat().incarnation;
    const bool hello = action.kind == Kind::kSendHello;
    const auto finish = [=, this](std::function<void(StaticMembership&)> fn) {
      Node& node = nodes_[from];
      if (node.membership && node.membership->own_heartbeat().incarnation == own) {
        fn(*node.membership);
      }
    };
    const auto fail = [=, this](Errc code) {
      const Error error = make_error(code, "test");
      finish([=, this](StaticMembership& self) {
        if (hello) {
          self.on_hello_result(to, error, now_);
        } else {
          self.on_heartbeat_result(to, error, now_);
        }
      });
    };
    if (is_cut(from, to) || (alive(to) && nodes_[to].frozen)) {
      after(action.timeout, [=] { fail(Errc::kTimeout); });
    } else if (!alive(to)) {
      after(delay(), [=] { fail(Errc::kConnectRefused); });
    } else {
      const HelloMessage greeting = caller->own_hello();
      const HeartbeatMessage beat = caller->own_heartbeat();
      after(delay(), [=, this] {
        if (!alive(to)) {
          fail(Errc::kPeerLost);
          return;
        }
        StaticMembership& callee = *nodes_[to].membership;
        if (hello) {
          const HelloReplyMessage reply = callee.on_hello(greeting, now_);
          after(delay(), [=, this] {
            finish([=, this](StaticMembership& self) { self.on_hello_result(to, reply, now_); });
          });
        } else {
          const HeartbeatReplyMessage reply = callee.on_heartbeat(beat, now_);
          after(delay(), [=, this] {
            finish(
                [=, this](StaticMembership& self) { self.on_heartbeat_result(to, reply, now_); });
          });
        }
      });
    }
  }

  std::mt19937_64 random_;
  std::vector<Node> nodes_;
  std::multimap<Nanos, std::function<void()>> events_;
  std::map<std::pair<uint32_t, uint32_t>, bool> cuts_;
  uint32_t incarnation_last_ = 0;
  Nanos now_{0};
};

TEST_CASE("membership cluster: forms within a second", "[unit]") {
  Cluster cluster(8, 1);
  cluster.run(seconds(4));
  REQUIRE(cluster.converged());
}

TEST_CASE("membership cluster: converges after crashes, restarts, freezes and cut links",
          "[unit]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Cluster cluster(6, seed);
    cluster.run(seconds(2));
    for (int round = 0; round < 12; ++round) {
      const auto i = static_cast<uint32_t>(random() % 6);
      const auto j = static_cast<uint32_t>((i + 1 + random() % 5) % 6);
      switch (random() % 5) {
        case 0:
          cluster.crash(i);
          break;
        case 1:
          cluster.start(i);
          break;  // also a restart in place, faster than anybody notices
        case 2:
          cluster.freeze(i, true);
          break;
        case 3:
          cluster.freeze(i, false);
          break;
        case 4:
          cluster.cut(i, j, random() % 2 == 0);
          break;
      }
      cluster.run(milliseconds(random() % 4000));
    }
    for (uint32_t i = 0; i < 6; ++i) {
      cluster.freeze(i, false);
      for (uint32_t j = 0; j < i; ++j) cluster.cut(i, j, false);
    }
    // A TTL, the longest pause, and some lost messages (2 %).
    bool converged = false;
    for (int tries = 0; tries < 20 && !converged; ++tries) {
      cluster.run(seconds(1));
      converged = cluster.converged();
    }
    REQUIRE(converged);
  }
}

}  // namespace
}  // namespace peercache
