// Clients, agent and readers on threads of their own: no wrong byte, no lost wake-up.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/dataplane/pool/pool_harness.h"

namespace peercache {
namespace {

using test::fill_pattern;
using test::key_of;

constexpr uint32_t kClients = 4;
constexpr uint32_t kPutsPerClient = 3000;
constexpr uint64_t kKeys = 400;
constexpr uint32_t kPoolBytes = 64 * 4096;
constexpr std::chrono::seconds kDeadline(40);

struct QuietListener : PoolListener {
  void on_published(const Location&) override {}
  void on_retired(const Location&) override {}
};

uint32_t length_of(uint64_t number) { return number % 3 == 0 ? 2000 : 4096; }

/// What all threads share.
struct Shared {
  Shared() : bytes(kPoolBytes), headers(kPoolBytes / 1024) {
    PoolOptions options = test::small_options(kClients);
    memory = PoolMemory{.bytes = bytes.data(),
                        .length = Bytes(kPoolBytes),
                        .headers = headers.data(),
                        .header_count = headers.size(),
                        .region = RegionIndex(1)};
    pool = PublishedPool::open(options, memory, &listener, Clock{}).value();
    event = WakeEvent::open().value();
    pool->set_agent_event(event.get());
    for (uint16_t i = 0; i < kClients; ++i) {
      clients.push_back(pool->attach_client(ClientIndex(i)).value());
    }
    classes[0] = pool->ensure_class(4096).value();
    classes[1] = pool->ensure_class(2000).value();
  }

  std::vector<std::byte> bytes;
  std::vector<SlotHeader> headers;
  PoolMemory memory;
  QuietListener listener;
  std::unique_ptr<PublishedPool> pool;
  std::unique_ptr<WakeEvent> event;
  std::vector<PoolClient*> clients;
  std::array<SizeClassIndex, 2> classes;
  std::atomic<uint64_t> sequence{1};
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> late_count{0};
  std::atomic<uint64_t> wrong_count{0};
  std::atomic<uint64_t> hit_count{0};
  std::atomic<uint64_t> stale_count{0};
};

void run_agent(Shared& shared) {
  while (!shared.stop.load(std::memory_order_acquire)) {
    if (shared.pool->poll_once(monotonic_now()) > 0) {
      continue;
    }
    shared.event->announce_sleep();
    if (shared.pool->poll_once(monotonic_now()) == 0) {
      // Long: a lost wake-up shows as a client that outlives its deadline.
      shared.event->sleep(kDeadline);
    }
    shared.event->cancel_sleep();
  }
}

bool wait_for(Shared& shared, PoolClient& client, const auto& attempt) {
  const Nanos deadline = monotonic_now() + kDeadline;
  while (monotonic_now() < deadline) {
    if (attempt()) {
      return true;
    }
    client.event().announce_sleep();
    const bool done = attempt();
    if (!done) {
      client.event().sleep(std::chrono::seconds(5));
    }
    client.event().cancel_sleep();
    if (done) {
      return true;
    }
  }
  shared.late_count.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void run_client(Shared& shared, uint32_t index) {
  PoolClient& client = *shared.clients[index];
  std::mt19937_64 random(index);
  std::vector<std::byte> object;
  for (uint32_t i = 0; i < kPutsPerClient; ++i) {
    const uint64_t number = random() % kKeys + 1;
    const uint32_t length_bytes = length_of(number);
    const SizeClassIndex size_class = shared.classes[length_bytes == 4096 ? 0 : 1];
    if (i % 16 == 0) {
      client.announce(size_class, static_cast<uint32_t>(random() % 8));
    }
    SlotGrant grant{};
    const bool granted = wait_for(shared, client, [&] {
      const auto taken = client.take(size_class);
      if (taken) {
        grant = *taken;
      }
      return taken.has_value();
    });
    if (!granted) {
      return;
    }
    const Generation generation = begin_life(client.header(grant));
    object.resize(length_bytes);
    fill_pattern(object, key_of(number), generation);
    copy_bytes(client.bytes(grant), object.data(), object.size());
    if (random() % 32 == 0) {
      client.abandon(grant);
      continue;
    }
    const PublishedObject published{
        .key = key_of(number),
        .length_bytes = length_bytes,
        .layout_digest_id = static_cast<uint32_t>(random() % 4),  // mostly another: replaces
        .payload_hash = PayloadHash{},
        .sequence = Sequence(shared.sequence.fetch_add(1, std::memory_order_relaxed))};
    const GroupPlace place{.group = key_of(number),
                           .parent = number % 8 == 1 ? Key128{} : key_of(number - 1),
                           .position_index = static_cast<uint32_t>(number % 8)};
    if (!wait_for(shared, client, [&] {
          return client.publish(grant, generation, published, place).has_value();
        })) {
      return;
    }
    if (random() % 64 == 0) {
      const Key128 key = key_of(random() % kKeys + 1);
      static_cast<void>(client.remove(std::span(&key, 1)));
    }
    const Key128 used = key_of(random() % kKeys + 1);
    client.touch(std::span(&used, 1));
  }
}

void read(Shared& shared,
          const Location& location,
          std::vector<std::byte>& found,
          std::vector<std::byte>& wanted) {
  found.resize(location.length_bytes);
  copy_bytes_cached(found.data(), shared.memory.bytes + location.offset_bytes, found.size());
  validation_fence();
  SlotHeader header;
  racy_copy(&header, &shared.headers[location.slot.value()], sizeof(header));
  if (!header_proves(header, location)) {
    shared.stale_count.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  wanted.resize(location.length_bytes);
  fill_pattern(wanted, location.key, location.generation);
  shared.hit_count.fetch_add(1, std::memory_order_relaxed);
  if (found != wanted) {
    shared.wrong_count.fetch_add(1, std::memory_order_relaxed);
  }
}

void run_reader(Shared& shared) {
  std::mt19937_64 random(99);
  std::vector<std::byte> found;
  std::vector<std::byte> wanted;
  constexpr uint32_t kBatch = 16;
  while (!shared.stop.load(std::memory_order_acquire)) {
    std::array<Key128, kBatch> keys;
    std::array<LookupResult, kBatch> pending{};
    std::array<LookupResult, kBatch> results;
    for (Key128& key : keys) {
      key = key_of(random() % kKeys + 1);
    }
    shared.pool->find_pending(keys.data(), pending.data(), kBatch);
    shared.pool->index().find(keys.data(), results.data(), kBatch);
    for (uint32_t i = 0; i < kBatch; ++i) {
      for (const LookupResult* result : {&pending[i], &results[i]}) {
        if (result->count > 0) {
          read(shared, result->locations[0], found, wanted);
        }
      }
    }
  }
}

TEST_CASE("pool threads: readers beside four writers get right bytes or none", "[unit]") {
  Shared shared;
  std::thread agent([&] { run_agent(shared); });
  std::thread reader([&] { run_reader(shared); });
  std::vector<std::thread> clients;
  for (uint32_t i = 0; i < kClients; ++i) {
    clients.emplace_back([&shared, i] { run_client(shared, i); });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  shared.stop.store(true, std::memory_order_release);
  shared.event->wake();
  agent.join();
  reader.join();
  while (shared.pool->poll_once(monotonic_now()) > 0) {
  }
  shared.pool->check_invariants();
  const PoolStats stats = shared.pool->stats();
  INFO("hits " << shared.hit_count.load() << ", stale " << shared.stale_count.load()
               << ", published " << stats.published_count << ", evicted " << stats.evicted_count);
  CHECK(shared.late_count.load() == 0);
  CHECK(shared.wrong_count.load() == 0);
  CHECK(shared.hit_count.load() > 0);
  CHECK(stats.published_count > kClients * kPutsPerClient / 2);
  CHECK(stats.evicted_count > 0);
}

TEST_CASE("pool threads: a publish is always seen, in a ring or in the index", "[unit]") {
  Shared shared;
  std::thread agent([&] { run_agent(shared); });
  PoolClient& client = *shared.clients[0];
  std::atomic<uint64_t> newest{0};
  std::atomic<uint64_t> missed_count{0};
  std::atomic<uint64_t> looked_count{0};
  std::thread reader([&] {
    while (!shared.stop.load(std::memory_order_acquire)) {
      const uint64_t number = newest.load(std::memory_order_acquire);
      if (number == 0) {
        continue;
      }
      const Key128 key = key_of(number);
      LookupResult pending{};
      LookupResult indexed{};
      shared.pool->find_pending(&key, &pending, 1);
      shared.pool->index().find(&key, &indexed, 1);
      looked_count.fetch_add(1, std::memory_order_relaxed);
      // Sixty-four slots: it cannot have been evicted unless as many came after it.
      if (pending.count + indexed.count == 0 &&
          newest.load(std::memory_order_acquire) < number + 30) {
        missed_count.fetch_add(1, std::memory_order_relaxed);
      }
    }
  });
  for (uint64_t number = 1; number <= 5000; ++number) {
    SlotGrant grant{};
    REQUIRE(wait_for(shared, client, [&] {
      const auto taken = client.take(shared.classes[0]);
      if (taken) {
        grant = *taken;
      }
      return taken.has_value();
    }));
    const Generation generation = begin_life(client.header(grant));
    const PublishedObject published{.key = key_of(number),
                                    .length_bytes = 8,
                                    .layout_digest_id = 0,
                                    .payload_hash = PayloadHash{},
                                    .sequence = Sequence(number)};
    REQUIRE(wait_for(shared, client,
                     [&] { return client.publish(grant, generation, published, {}).has_value(); }));
    newest.store(number, std::memory_order_release);
  }
  shared.stop.store(true, std::memory_order_release);
  shared.event->wake();
  agent.join();
  reader.join();
  CHECK(missed_count.load() == 0);
  CHECK(looked_count.load() > 0);
}

}  // namespace
}  // namespace peercache
