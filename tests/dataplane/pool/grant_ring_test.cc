#include "dataplane/pool/grant_ring.h"

#include <atomic>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/base/ordering.h"

namespace peercache {
namespace {

TEST_CASE("grant ring: first in, first out; full and empty are said", "[unit]") {
  GrantRing ring(4);
  SlotIndex slot;
  REQUIRE_FALSE(ring.take(slot));
  for (uint32_t round = 0; round < 10; ++round) {
    for (uint32_t i = 0; i < 4; ++i) {
      REQUIRE(ring.push(SlotIndex(round * 10 + i)));
    }
    REQUIRE_FALSE(ring.push(SlotIndex(99)));
    REQUIRE(ring.ready_count() == 4);
    for (uint32_t i = 0; i < 4; ++i) {
      REQUIRE(ring.take(slot));
      REQUIRE(slot == SlotIndex(round * 10 + i));
    }
    REQUIRE_FALSE(ring.take(slot));
    REQUIRE(ring.ready_count() == 0);
  }
  REQUIRE(ring.taken_count() == 40);
}

TEST_CASE("grant ring: the agent takes back the newest, down to nothing", "[unit]") {
  GrantRing ring(4);
  SlotIndex slot;
  REQUIRE_FALSE(ring.reclaim(slot));
  REQUIRE(ring.push(SlotIndex(0)));
  REQUIRE(ring.push(SlotIndex(1)));
  REQUIRE(ring.push(SlotIndex(2)));
  REQUIRE(ring.reclaim(slot));
  REQUIRE(slot == SlotIndex(2));
  REQUIRE(ring.take(slot));
  REQUIRE(slot == SlotIndex(0));
  REQUIRE(ring.reclaim(slot));
  REQUIRE(slot == SlotIndex(1));
  REQUIRE_FALSE(ring.reclaim(slot));
  REQUIRE_FALSE(ring.take(slot));
  REQUIRE(ring.push(SlotIndex(7)));
  REQUIRE(ring.take(slot));
  REQUIRE(slot == SlotIndex(7));
}

TEST_CASE("grant ring: under contention every slot has one owner", "[unit]") {
  constexpr uint32_t kSlots = 8;
  constexpr uint32_t kTakes = 20000;
  GrantRing ring(8);
  std::array<std::atomic<uint32_t>, kSlots> holders{};  // 1 while the client has it
  std::array<std::atomic<bool>, kSlots> back{};
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> bug_count{0};
  std::thread client([&] {
    uint32_t taken = 0;
    while (taken < kTakes) {
      SlotIndex slot;
      if (!ring.take(slot)) {
        std::this_thread::yield();
        continue;
      }
      ++taken;
      if (holders[slot.value()].fetch_add(1, std::memory_order_relaxed) != 0) {
        bug_count.fetch_add(1, std::memory_order_relaxed);
      }
      holders[slot.value()].fetch_sub(1, std::memory_order_relaxed);
      back[slot.value()].store(true, std::memory_order_release);
    }
    stop.store(true, std::memory_order_release);
  });
  std::vector<uint32_t> own;
  for (uint32_t i = 0; i < kSlots; ++i) {
    own.push_back(i);
  }
  uint64_t reclaimed_count = 0;
  while (!stop.load(std::memory_order_acquire)) {
    for (uint32_t i = 0; i < kSlots; ++i) {
      if (back[i].exchange(false, std::memory_order_acquire)) {
        own.push_back(i);
      }
    }
    while (!own.empty() && ring.push(SlotIndex(own.back()))) {
      own.pop_back();
    }
    SlotIndex slot;
    if (ring.reclaim(slot)) {
      ++reclaimed_count;
      if (holders[slot.value()].load(std::memory_order_relaxed) != 0) {
        bug_count.fetch_add(1, std::memory_order_relaxed);
      }
      own.push_back(slot.value());
    }
  }
  client.join();
  REQUIRE(bug_count.load() == 0);
  uint32_t in_ring = 0;
  SlotIndex slot;
  while (ring.take(slot)) {
    ++in_ring;
  }
  uint32_t in_back = 0;
  for (const auto& flag : back) {
    in_back += flag.load() ? 1 : 0;
  }
  REQUIRE(own.size() + in_ring + in_back == kSlots);
  REQUIRE(reclaimed_count > 0);
}

}  // namespace
}  // namespace peercache
