#include "dataplane/queue/spsc_ring.h"

#include <array>
#include <random>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

// An entry that shows tearing: its words belong together.
struct Entry {
  uint64_t number = 0;
  uint64_t negated = ~uint64_t{0};
  std::array<uint64_t, 6> copies{};
};

Entry make_entry(uint64_t number) {
  Entry entry{.number = number, .negated = ~number, .copies = {}};
  entry.copies.fill(number);
  return entry;
}

bool is_whole(const Entry& entry) {
  return entry.negated == ~entry.number &&
         std::all_of(entry.copies.begin(), entry.copies.end(),
                     [&](uint64_t copy) { return copy == entry.number; });
}

std::vector<int> contents(const SpscRing<int>& ring) {
  std::vector<int> seen;
  ring.peek_unconsumed([&](const int& value) { seen.push_back(value); });
  return seen;
}

TEST_CASE("spsc ring: entries come out in order, and only those that went in", "[unit]") {
  SpscRing<int> ring(4);
  int value = -1;
  CHECK_FALSE(ring.pop(value));
  CHECK(ring.push(1));
  CHECK(ring.push(2));
  CHECK(ring.size_approx() == 2);
  REQUIRE(ring.pop(value));
  CHECK(value == 1);
  REQUIRE(ring.pop(value));
  CHECK(value == 2);
  CHECK_FALSE(ring.pop(value));
  CHECK(ring.size_approx() == 0);
}

TEST_CASE("spsc ring: a full ring takes nothing, a nearly full one a part", "[unit]") {
  SpscRing<int> ring(4);
  const std::array<int, 6> six{1, 2, 3, 4, 5, 6};
  CHECK(ring.push_many(std::span(six).first(3)) == 3);
  CHECK(ring.room() == 1);
  CHECK(ring.push_many(six) == 1);
  CHECK_FALSE(ring.push(9));
  CHECK(contents(ring) == std::vector<int>{1, 2, 3, 1});
  std::array<int, 8> out{};
  CHECK(ring.pop_many(out) == 4);
  CHECK(ring.room() == 4);
  CHECK(ring.push_many(std::span<const int>()) == 0);
  CHECK(ring.pop_many(out) == 0);
}

TEST_CASE("spsc ring: a ring of one works", "[unit]") {
  SpscRing<int> ring(1);
  for (int i = 0; i < 5; ++i) {
    int value = -1;
    CHECK(ring.push(i));
    CHECK_FALSE(ring.push(99));
    REQUIRE(ring.pop(value));
    CHECK(value == i);
  }
}

TEST_CASE("spsc ring: random batches agree with a model over many turns of the ring", "[unit]") {
  const unsigned seed = 7;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  SpscRing<int> ring(16);
  std::vector<int> model;
  int next = 0;
  for (int step = 0; step < 20'000; ++step) {
    std::array<int, 20> batch{};
    const size_t count = random() % batch.size();
    if (random() % 2 == 0) {
      for (size_t i = 0; i < count; ++i) {
        batch[i] = next + static_cast<int>(i);
      }
      const size_t pushed = ring.push_many(std::span<const int>(batch).first(count));
      REQUIRE(pushed == std::min(count, ring.capacity() - model.size()));
      model.insert(model.end(), batch.begin(), batch.begin() + static_cast<ptrdiff_t>(pushed));
      next += static_cast<int>(pushed);
    } else {
      const size_t popped = ring.pop_many(std::span<int>(batch).first(count));
      REQUIRE(popped == std::min(count, model.size()));
      REQUIRE(
          std::equal(batch.begin(), batch.begin() + static_cast<ptrdiff_t>(popped), model.begin()));
      model.erase(model.begin(), model.begin() + static_cast<ptrdiff_t>(popped));
    }
    REQUIRE(ring.size_approx() == model.size());
    REQUIRE(contents(ring) == model);
  }
}

TEST_CASE("spsc ring: peeking stops when told", "[unit]") {
  SpscRing<int> ring(8);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(ring.push(i));
  }
  int seen = 0;
  ring.peek_unconsumed([&](const int&) { return ++seen < 3; });
  CHECK(seen == 3);
}

TEST_CASE(
    "spsc ring: two threads hand over every entry, whole and in order, while a third one peeks",
    "[unit]") {
  constexpr uint64_t kEntries = 300'000;
  SpscRing<Entry> ring(64);
  std::atomic<bool> done{false};
  std::thread producer([&] {
    std::array<Entry, 7> batch{};
    uint64_t next = 1;
    while (next <= kEntries) {
      const size_t count = std::min<size_t>(batch.size(), static_cast<size_t>(kEntries - next + 1));
      for (size_t i = 0; i < count; ++i) {
        batch[i] = make_entry(next + i);
      }
      const size_t pushed = ring.push_many(std::span<const Entry>(batch).first(count));
      next += pushed;
      if (pushed == 0) {
        std::this_thread::yield();
      }
    }
  });
  uint64_t scans_too_long = 0;
  std::thread onlooker([&] {
    while (!done.load(std::memory_order_relaxed)) {  // only ends the loop
      size_t count = 0;
      ring.peek_unconsumed([&](const Entry&) { ++count; });
      scans_too_long += count > ring.capacity() ? 1 : 0;
      std::this_thread::yield();
    }
  });
  uint64_t expected = 1;
  uint64_t wrong = 0;
  std::array<Entry, 11> out{};
  while (expected <= kEntries) {
    const size_t popped = ring.pop_many(out);
    for (size_t i = 0; i < popped; ++i) {
      wrong += out[i].number == expected++ && is_whole(out[i]) ? 0 : 1;
    }
    if (popped == 0) {
      std::this_thread::yield();
    }
  }
  done.store(true, std::memory_order_relaxed);  // only ends the loop
  producer.join();
  onlooker.join();
  CHECK(wrong == 0);
  CHECK(scans_too_long == 0);
}

}  // namespace
}  // namespace peercache
