// The published pool: a client thread that fills slots as fast as it gets them, and the agent that evicts ahead of it.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/base/clock.h"
#include "dataplane/pool/published_pool.h"
#include "perf/harness/allocation_count.h"
#include "perf/harness/perf_case.h"

namespace {

using namespace peercache;        // NOLINT: a program, not a header
using namespace peercache::perf;  // NOLINT

class Deaf final : public PoolListener {
  void on_published(const Location&) override {}
  void on_retired(const Location&) override {}
};

struct Setup {
  static constexpr uint32_t kGranuleBytes = 4096;
  static constexpr uint64_t kSlots = 65536;

  Setup() : bytes(kSlots * kGranuleBytes), headers(kSlots) {
    PoolMemory memory;
    memory.bytes = bytes.data();
    memory.length = Bytes(bytes.size());
    memory.headers = headers.data();
    memory.header_count = headers.size();
    memory.region = RegionIndex(1);
    PoolOptions options;
    options.client_count = 1;
    options.node = NodeId(1);
    pool = PublishedPool::open(options, memory, &listener, clock).value();
    client = pool->attach_client(ClientIndex(0)).value();
    size_class = pool->ensure_class(kGranuleBytes).value();
  }

  /// Publishes one object without writing its bytes: what is measured is the pool. False: no free slot yet.
  bool publish(uint64_t number, const Key128& parent) {
    const Result<SlotGrant> grant = client->take(size_class);
    if (!grant) return false;
    const Generation generation = begin_life(client->header(*grant));
    const Key128 key{number + 1, number * 0x9e3779b97f4a7c15ULL};
    const PublishedObject object{key, kGranuleBytes, 0, PayloadHash(0), Sequence(number + 1)};
    while (!client->publish(*grant, generation, object, {key, parent, 0})) pool->poll_once(clock.now());
    return true;
  }

  std::vector<std::byte> bytes;
  std::vector<SlotHeader> headers;
  Deaf listener;
  Clock clock;
  std::unique_ptr<PublishedPool> pool;
  PoolClient* client = nullptr;
  SizeClassIndex size_class{0};
};

void stepped_case(const PerfOptions& options) {
  PerfRow row;
  row.bench = "pool";
  row.case_name = "publish and evict, agent and client in one thread";
  if (!options.wants(row.case_name)) return;
  row.unit = "objects/s";
  Setup setup;
  setup.client->announce(setup.size_class, 128);
  uint64_t number = 0;
  const auto fill = [&](uint64_t count) {
    for (const uint64_t until = number + count; number < until;) {
      if (setup.publish(number, {})) {
        ++number;
      } else {
        setup.pool->poll_once(setup.clock.now());
      }
    }
  };
  fill(Setup::kSlots + 1000);  // full: from here on each publish is an eviction
  const uint64_t before = allocations_of_this_thread();
  uint64_t done = 0;
  run_interleaved(options, row, nullptr, [&] {
    return rate_of(options.run_time(), [&] {
      fill(1024);
      done += 1024;
      return 1024.0;
    });
  });
  const auto allocated = static_cast<double>(allocations_of_this_thread() - before);
  row.extra = {{"allocations_per_object", allocated / static_cast<double>(done)},
               {"evicted_count", static_cast<double>(setup.pool->stats().evicted_count)}};
  report(options, row);
}

void supply_case(const PerfOptions& options) {
  PerfRow row;
  row.bench = "pool";
  row.case_name = "publish and evict, agent in its own thread";
  if (!options.wants(row.case_name)) return;
  row.unit = "objects/s";
  Setup setup;
  setup.client->announce(setup.size_class, 128);
  std::atomic<bool> stop{false};
  std::thread agent([&] {
    // Relaxed: the flag only ends the loop.
    while (!stop.load(std::memory_order_relaxed)) setup.pool->poll_once(setup.clock.now());
  });
  uint64_t number = 0;
  uint64_t starved = 0;
  run_interleaved(options, row, nullptr, [&] {
    return rate_of(options.run_time(), [&] {
      for (int i = 0; i < 1024;) {
        const Result<SlotGrant> grant = setup.client->take(setup.size_class);
        if (!grant) {
          ++starved;
          std::this_thread::yield();
          continue;
        }
        const Generation generation = begin_life(setup.client->header(*grant));
        const Key128 key{number + 1, number * 0x9e3779b97f4a7c15ULL};
        const PublishedObject object{key, Setup::kGranuleBytes, 0, PayloadHash(0), Sequence(number + 1)};
        while (!setup.client->publish(*grant, generation, object, {key, {}, 0})) std::this_thread::yield();
        ++number;
        ++i;
      }
      return 1024.0;
    });
  });
  stop.store(true, std::memory_order_relaxed);  // as above
  agent.join();
  row.extra = {{"starved_per_object", static_cast<double>(starved) / static_cast<double>(number)}};
  report(options, row);
}

}  // namespace

int main(int argc, char** argv) {
  const PerfOptions options =
      parse_perf_options(argc, argv, "pool_perf: publishing into a full pool, and the supply of free slots");
  stepped_case(options);
  supply_case(options);
  return 0;
}
