#include "dataplane/base/ordering.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include <catch2/catch.hpp>

#include "dataplane/base/clock.h"

namespace peercache {
namespace {

TEST_CASE("ordering: racy_copy copies every size at every alignment and nothing around it",
          "[unit]") {
  std::array<unsigned char, 96> from{};
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<unsigned char>(i + 1);
  }
  for (size_t bytes = 0; bytes <= 70; ++bytes) {
    for (size_t to_offset = 0; to_offset < 9; ++to_offset) {
      for (size_t from_offset = 0; from_offset < 9; ++from_offset) {
        std::array<unsigned char, 96> to{};
        racy_copy(to.data() + to_offset, from.data() + from_offset, bytes);
        CAPTURE(bytes, to_offset, from_offset);
        REQUIRE(std::memcmp(to.data() + to_offset, from.data() + from_offset, bytes) == 0);
        REQUIRE(std::count(to.begin(), to.end(), 0) == static_cast<ptrdiff_t>(to.size() - bytes));
      }
    }
  }
}

TEST_CASE("ordering: racy loads and stores of words agree", "[unit]") {
  uint64_t word = 0;
  racy_store(&word, uint64_t{0x0123456789abcdef});
  CHECK(racy_load(&word) == 0x0123456789abcdefULL);
}

// A slot as design 6 has it, with a header of a generation only.
struct Slot {
  alignas(64) uint64_t generation = 0;
  alignas(64) std::array<uint64_t, 64> bytes{};
};

TEST_CASE("ordering: a copy that passes the validation is of one life", "[unit]") {
  constexpr uint64_t kLives = 20'000;
  Slot slot;
  std::atomic<bool> done{false};
  std::thread owner([&] {
    for (uint64_t life = 1; life <= kLives; ++life) {
      racy_store(&slot.generation, life);
      life_fence();
      std::array<uint64_t, 64> next{};
      next.fill(life);
      racy_copy(slot.bytes.data(), next.data(), sizeof(next));
      copy_done_fence();
      // The reader below takes its location between lives only by chance; the pause makes that
      // chance real.
      for (int i = 0; i < 8; ++i) {
        cpu_pause();
      }
    }
    done.store(true, std::memory_order_release);  // meets the acquire below; only ends the loop
  });
  uint64_t accepted = 0;
  uint64_t wrong = 0;
  while (!done.load(std::memory_order_acquire) || accepted == 0) {  // meets the release above
    const uint64_t generation = racy_load(&slot.generation);
    std::array<uint64_t, 64> copy{};
    racy_copy(copy.data(), slot.bytes.data(), sizeof(copy));
    validation_fence();
    if (racy_load(&slot.generation) == generation) {
      ++accepted;
      // Bytes of an older life are possible here (this test has no PUBLISHED state); newer ones are
      // not.
      for (const uint64_t word : copy) {
        wrong += word > generation ? 1 : 0;
      }
    }
  }
  owner.join();
  CHECK(accepted > 0);
  CHECK(wrong == 0);
}

TEST_CASE("ordering: of many wakers one takes the announcement", "[unit]") {
  std::atomic<uint32_t> word{kAwake};
  CHECK_FALSE(must_wake(word));
  announce_sleep(word);
  CHECK(must_wake(word));
  CHECK_FALSE(must_wake(word));
  announce_sleep(word);
  cancel_sleep(word);
  CHECK_FALSE(must_wake(word));
}

// Dekker's pattern without an event: after both sides have done their half, at least one must have
// seen the other. The time limit is the test's bound; a busy or instrumented machine does fewer
// rounds.
TEST_CASE("ordering: up to a million announcements lose no wake-up", "[unit]") {
  constexpr uint64_t kRoundsMax = 1'000'000;
  constexpr uint64_t kNoMore = UINT64_MAX;
  std::atomic<uint32_t> word{kAwake};
  alignas(128) std::atomic<uint64_t> item{0};
  alignas(128) std::atomic<uint64_t> sleeper_round{0};
  std::atomic<uint64_t> waker_round{0};
  bool woke = false;
  std::thread waker([&] {
    for (uint64_t round = 1;; ++round) {
      uint64_t reached = 0;
      while (reached < round) {
        reached = sleeper_round.load(
            std::memory_order_acquire);  // meets the sleeper's release: same start
      }
      if (reached == kNoMore) {
        return;
      }
      item.store(round, std::memory_order_relaxed);  // what is announced: ordered by must_wake
                                                     // alone, as under test
      woke = must_wake(word);
      waker_round.store(
          round, std::memory_order_release);  // meets the sleeper's acquire: woke is readable
    }
  });
  const Nanos end = monotonic_now() + std::chrono::seconds(3);
  uint64_t lost = 0;
  uint64_t round = 0;
  while (round < kRoundsMax && monotonic_now() < end) {
    ++round;
    sleeper_round.store(round, std::memory_order_release);  // meets the waker's acquire
    announce_sleep(word);
    const bool saw_item =
        item.load(std::memory_order_relaxed) == round;  // ordered by announce_sleep alone
    while (waker_round.load(std::memory_order_acquire) < round) {  // meets the waker's release
      cpu_pause();
    }
    lost += !saw_item && !woke ? 1 : 0;
    cancel_sleep(word);
  }
  sleeper_round.store(kNoMore, std::memory_order_release);  // meets the waker's acquire
  waker.join();
  INFO(round << " rounds");
  CHECK(round > 100);
  CHECK(lost == 0);
}

}  // namespace
}  // namespace peercache
