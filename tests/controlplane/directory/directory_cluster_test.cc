// Producers and shard holders in virtual time, with lost messages, restarts and freezes: the shards
// end up holding what the pools hold.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "controlplane/directory/directory_client.h"
#include "controlplane/directory/directory_shard.h"
#include "tests/controlplane/directory/directory_samples.h"

namespace peercache {
namespace {

using std::chrono::milliseconds;
using test::key_of;
using test::member;
using test::record;
using test::TableMemory;

constexpr uint32_t kHolders = 3;
constexpr uint64_t kProducers = 3;
constexpr uint64_t kKeys = 200;

/// Holders are nodes 101.., producers 1..; every holder has its own view of the producers.
class Directory {
 public:
  explicit Directory(uint64_t seed) : random_(seed) {
    std::vector<std::string> names;
    for (uint32_t h = 0; h < kHolders; ++h) names.push_back("h" + std::to_string(h) + ":1");
    ring_ = std::make_shared<const HashRing>(*HashRing::make(names, 64));
    for (uint64_t p = 1; p <= kProducers; ++p) incarnations_[p] = 10;
    for (uint32_t h = 0; h < kHolders; ++h) restart_holder(h);
    for (uint64_t p = 1; p <= kProducers; ++p) start_producer(p);
  }

  void restart_holder(uint32_t h) {
    holders_[h].memory = std::make_unique<TableMemory>(DirectoryShard::bytes_for(2000, 1));
    holders_[h].shard = std::make_unique<DirectoryShard>(
        *DirectoryShard::open(holders_[h].memory->data(), holders_[h].memory->length()));
    holders_[h].incarnation = Incarnation(++holder_incarnation_last_);
    for (auto& [p, producer] : producers_) {
      producer.client->holder_up(h, holders_[h].incarnation, now_);
    }
  }
  /// A restart with an empty pool: the old incarnation is dead for all holders, and purged.
  void restart_producer(uint64_t p) {
    const uint32_t old = incarnations_[p]++;
    for (Holder& holder : holders_) holder.shard->purge(NodeId(p), Incarnation(old));
    start_producer(p);
  }
  /// The holder thinks for a while that the producer is dead.
  void misjudge(uint32_t h, uint64_t p) {
    holders_[h].shard->purge(NodeId(p), Incarnation(incarnations_[p]));
  }

  void change(uint64_t p) {
    Producer& producer = producers_.at(p);
    const uint64_t key = random_() % kKeys;
    const auto held = producer.pool.find(key);
    if (held != producer.pool.end()) {
      producer.index->erase(held->second);
      producer.client->on_retired(held->second);
      producer.pool.erase(held);
      if (random_() % 2 == 0) return;
    }
    const Location fresh = record(key, p, incarnations_[p], ++sequence_);
    producer.index->insert(fresh);
    producer.pool.emplace(key, fresh);
    producer.client->on_published(fresh);
  }

  /// One millisecond.
  void run(bool lossy) {
    now_ += milliseconds(1);
    std::vector<Member> members;
    for (const auto& [p, incarnation] : incarnations_) members.push_back(member(p, incarnation));
    const View view = test::view_of(members);
    for (Holder& holder : holders_) holder.shard->purge_step(50);
    for (auto& [p, producer] : producers_) {
      std::vector<OutgoingUpdate> outgoing;
      producer.client->step(now_, producer.index.get(), outgoing);
      producer.client->check_invariants();
      for (const OutgoingUpdate& update : outgoing) deliver(*producer.client, update, view, lossy);
      if (now_ % milliseconds(50) == Nanos(0)) {  // heartbeats
        for (uint32_t h = 0; h < kHolders; ++h) {
          producer.client->holder_purged(h, holders_[h].shard->purged_count(NodeId(p)), now_);
        }
      }
    }
  }

  bool quiet() const {
    return std::all_of(producers_.begin(), producers_.end(), [](const auto& entry) {
      return entry.second.client->next_due() == Nanos::max() && entry.second.client->lag() == 0;
    });
  }

  void require_shards_equal_pools() {
    std::vector<std::map<std::pair<uint64_t, uint64_t>, Location>> wanted(kHolders);
    for (const auto& [p, producer] : producers_) {
      REQUIRE(producer.client->flushed(producer.client->flush_target()));
      for (const auto& [key, location] : producer.pool) {
        HashRing::Owners owners{};
        const uint32_t count = ring_->owners(key_of(key), 2, owners);
        for (uint32_t i = 0; i < count; ++i) wanted[owners[i]].emplace(std::pair{key, p}, location);
      }
    }
    for (uint32_t h = 0; h < kHolders; ++h) {
      DirectoryShard& shard = *holders_[h].shard;
      shard.check_invariants();
      size_t right_count = 0;
      shard.table().for_each([&](const Location& found) {
        const auto entry = wanted[h].find({found.slot.value(), found.node.value()});
        REQUIRE(entry != wanted[h].end());
        REQUIRE(same_bytes(entry->second, found));
        ++right_count;
      });
      REQUIRE(right_count == wanted[h].size());
      REQUIRE(shard.stats().dropped_count == 0);
    }
  }

 private:
  struct Holder {
    std::unique_ptr<TableMemory> memory;
    std::unique_ptr<DirectoryShard> shard;
    Incarnation incarnation{};
  };
  struct Producer {
    std::unique_ptr<TableMemory> memory;
    std::unique_ptr<BucketTable> index;
    std::unique_ptr<DirectoryClient> client;
    std::map<uint64_t, Location> pool;
  };

  void start_producer(uint64_t p) {
    Producer producer;
    producer.memory = std::make_unique<TableMemory>(64_KiB);
    producer.index = std::make_unique<BucketTable>(
        *BucketTable::open(producer.memory->data(), producer.memory->length()));
    DirectoryClientOptions options;
    options.node = NodeId(p);
    options.incarnation = Incarnation(incarnations_[p]);
    options.batch_records_count = 16;
    producer.client = std::make_unique<DirectoryClient>(options, ring_);
    for (uint32_t h = 0; h < kHolders; ++h) {
      producer.client->holder_up(h, holders_[h].incarnation, now_);
      producer.client->holder_purged(h, holders_[h].shard->purged_count(NodeId(p)), now_);
    }
    producers_.insert_or_assign(p, std::move(producer));
  }

  void deliver(DirectoryClient& client,
               const OutgoingUpdate& update,
               const View& view,
               bool lossy) {
    const auto lost = [&] { return lossy && random_() % 5 == 0; };
    const uint64_t id = update.update->update_id;
    Result<DirectoryUpdateReplyMessage> reply = make_error(Errc::kTimeout, "test");
    if (!lost()) {
      DirectoryUpdateReplyMessage answer =
          holders_[update.holder_index].shard->apply(*update.update, view);
      if (!lost()) reply = std::move(answer);
    }
    client.on_reply(update.holder_index, id, reply, now_);
  }

  std::mt19937_64 random_;
  std::shared_ptr<const HashRing> ring_;
  std::array<Holder, kHolders> holders_;
  std::map<uint64_t, Producer> producers_;
  std::map<uint64_t, uint32_t> incarnations_;
  uint32_t holder_incarnation_last_ = 500;
  uint64_t sequence_ = 0;
  Nanos now_{0};
};

TEST_CASE("directory cluster: shards end up holding what the pools hold", "[unit]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed * 77);
    Directory directory(seed);
    for (int ms = 0; ms < 1500; ++ms) {
      for (uint64_t i = random() % 8; i > 0; --i) directory.change(1 + random() % kProducers);
      switch (random() % 200) {
        case 0:
          directory.restart_holder(static_cast<uint32_t>(random() % kHolders));
          break;
        case 1:
          directory.restart_producer(1 + random() % kProducers);
          break;
        case 2:
          directory.misjudge(static_cast<uint32_t>(random() % kHolders), 1 + random() % kProducers);
          break;
        default:
          break;
      }
      directory.run(true);
    }
    for (int ms = 0; ms < 3000; ++ms) directory.run(false);
    REQUIRE(directory.quiet());
    directory.require_shards_equal_pools();
  }
}

}  // namespace
}  // namespace peercache
