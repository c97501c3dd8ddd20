#include "controlplane/suspects.h"

#include <chrono>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

using std::chrono::milliseconds;
using Kind = SuspectAction::Kind;

constexpr SuspectPath kShm{PeerIndex(3), TransportKind::kShm, RailIndex(0)};
constexpr SuspectPath kRail1{PeerIndex(3), TransportKind::kTcp, RailIndex(1)};

std::vector<SuspectAction> step(Suspects& suspects, Nanos now) {
  std::vector<SuspectAction> actions;
  suspects.step(now, actions);
  return actions;
}

TEST_CASE("suspects: one report marks the peer, more do nothing", "[unit]") {
  Suspects suspects{SuspectsOptions{}};
  REQUIRE(suspects.next_due() == Nanos::max());
  for (int i = 0; i < 128; ++i) suspects.report(kShm, Nanos(0));
  REQUIRE(suspects.next_due() == Nanos(0));
  const auto actions = step(suspects, Nanos(0));
  REQUIRE(actions.size() == 1);
  REQUIRE(actions[0].kind == Kind::kMark);
  REQUIRE(actions[0].path == kShm);
  REQUIRE(suspects.is_suspect(PeerIndex(3)));
  REQUIRE_FALSE(suspects.is_suspect(PeerIndex(4)));
  REQUIRE(suspects.marked_count() == 1);
  REQUIRE(suspects.suspect_count() == 1);
}

TEST_CASE("suspects: probes go over the path that failed, with pauses of 0.1 to 2 s", "[unit]") {
  Suspects suspects{SuspectsOptions{}};
  suspects.report(kRail1, Nanos(0));
  step(suspects, Nanos(0));
  Nanos now{0};
  std::vector<int64_t> pauses_ms;
  for (int i = 0; i < 7; ++i) {
    const Nanos due = suspects.next_due();
    REQUIRE(step(suspects, due - Nanos(1)).empty());
    const auto actions = step(suspects, due);
    REQUIRE(actions.size() == 1);
    REQUIRE(actions[0].kind == Kind::kProbe);
    REQUIRE(actions[0].path == kRail1);
    REQUIRE(actions[0].timeout == milliseconds(500));
    REQUIRE(step(suspects, due + milliseconds(400)).empty());  // one at a time
    pauses_ms.push_back((due - now).count() / 1'000'000);
    now = due + milliseconds(500);
    suspects.probe_failed(kRail1, now);
  }
  REQUIRE(pauses_ms == std::vector<int64_t>{100, 200, 400, 800, 1600, 2000, 2000});
  REQUIRE(suspects.probes_count() == 7);
  step(suspects, suspects.next_due());
  suspects.probe_ok(kRail1, now);
  const auto actions = step(suspects, now);
  REQUIRE(actions.size() == 1);
  REQUIRE(actions[0].kind == Kind::kClear);
  REQUIRE_FALSE(suspects.is_suspect(PeerIndex(3)));
  REQUIRE(suspects.next_due() == Nanos::max());
}

TEST_CASE("suspects: a peer is clear when every failed path works again", "[unit]") {
  Suspects suspects{SuspectsOptions{}};
  suspects.report(kShm, Nanos(0));
  suspects.report(kRail1, Nanos(0));
  REQUIRE(step(suspects, Nanos(0)).size() == 1);
  REQUIRE(step(suspects, milliseconds(100)).size() == 2);
  suspects.probe_ok(kShm, milliseconds(101));
  REQUIRE(step(suspects, milliseconds(101)).empty());
  REQUIRE(suspects.is_suspect(PeerIndex(3)));
  suspects.probe_ok(kRail1, milliseconds(102));
  REQUIRE(step(suspects, milliseconds(102)).size() == 1);
  REQUIRE(suspects.marked_count() == 1);
}

TEST_CASE("suspects: what was forgotten is not probed, and late answers are ignored", "[unit]") {
  Suspects suspects{SuspectsOptions{}};
  suspects.report(kShm, Nanos(0));
  step(suspects, Nanos(0));
  REQUIRE(step(suspects, milliseconds(100)).size() == 1);
  suspects.forget(PeerIndex(3));
  suspects.probe_ok(kShm, milliseconds(101));
  suspects.probe_failed(kShm, milliseconds(101));
  REQUIRE(step(suspects, milliseconds(5000)).empty());
  REQUIRE_FALSE(suspects.is_suspect(PeerIndex(3)));
  // Not yet told, already gone: no mark for a peer that nobody knows any more.
  suspects.report(kShm, Nanos(0));
  suspects.forget(PeerIndex(3));
  REQUIRE(step(suspects, milliseconds(5000)).empty());
}

}  // namespace
}  // namespace peercache
