#include "controlplane/directory/directory_client.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/controlplane/directory/directory_samples.h"

namespace peercache {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::record;
using test::TableMemory;

constexpr uint64_t kNode = 1;
constexpr uint32_t kIncarnation = 10;

Location life(uint64_t key, uint64_t sequence) {
  return record(key, kNode, kIncarnation, sequence);
}

/// A client whose two holders own every key (replicas 2), and the pool index it publishes from.
class Bench {
 public:
  explicit Bench(DirectoryClientOptions options = default_options(), uint32_t holders_count = 2)
      : memory(64_KiB),
        index(*BucketTable::open(memory.data(), memory.length())),
        client(options, ring_of(holders_count)) {}

  static DirectoryClientOptions default_options() {
    DirectoryClientOptions options;
    options.node = NodeId(kNode);
    options.incarnation = Incarnation(kIncarnation);
    options.batch_records_count = 8;
    options.flush_delay_us = 1000;
    return options;
  }
  static std::shared_ptr<const HashRing> ring_of(uint32_t holders_count) {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < holders_count; ++i) names.push_back("h" + std::to_string(i) + ":1");
    return std::make_shared<const HashRing>(*HashRing::make(names, 32));
  }

  void publish(const Location& location) {
    index.insert(location);
    client.on_published(location);
    client.check_invariants();
  }
  void retire(const Location& location) {
    REQUIRE(index.erase(location));
    client.on_retired(location);
    client.check_invariants();
  }
  std::vector<OutgoingUpdate> step(Nanos advance = Nanos(0)) {
    now += advance;
    std::vector<OutgoingUpdate> outgoing;
    client.step(now, &index, outgoing);
    client.check_invariants();
    return outgoing;
  }
  void reply(const OutgoingUpdate& update, UpdateOutcome outcome = UpdateOutcome::kApplied) {
    DirectoryUpdateReplyMessage message;
    message.update_id = update.update->update_id;
    message.outcomes.assign(update.update->deletes.size() + update.update->puts.size(), outcome);
    client.on_reply(update.holder_index, message.update_id, message, now);
    client.check_invariants();
  }
  void fail(const OutgoingUpdate& update) {
    client.on_reply(update.holder_index, update.update->update_id,
                    make_error(Errc::kTimeout, "test"), now);
  }
  /// Both holders up and quiet.
  void connect() {
    client.holder_up(0, Incarnation(500), now);
    client.holder_up(1, Incarnation(501), now);
    settle();
  }
  /// Answers everything until nothing is left.
  void settle() {
    for (int i = 0; i < 1000 && client.next_due() != Nanos::max(); ++i) {
      for (const OutgoingUpdate& update : step(milliseconds(1))) reply(update);
    }
    REQUIRE(client.next_due() == Nanos::max());
  }

  TableMemory memory;
  BucketTable index;
  DirectoryClient client;
  Nanos now{0};
};

TEST_CASE("directory_client: a publish goes to every owner after a short delay", "[unit]") {
  Bench bench;
  bench.connect();
  bench.publish(life(1, 100));
  REQUIRE(bench.step(microseconds(999)).empty());
  REQUIRE(bench.client.lag() == 1);
  const auto updates = bench.step(microseconds(1));
  REQUIRE(updates.size() == 2);
  REQUIRE(updates[0].holder_index != updates[1].holder_index);
  for (const OutgoingUpdate& update : updates) {
    REQUIRE(update.update->sender == NodeId(kNode));
    REQUIRE(update.update->incarnation == Incarnation(kIncarnation));
    REQUIRE(same_bytes(update.update->puts, {life(1, 100)}));
    REQUIRE(update.update->deletes.empty());
    bench.reply(update);
  }
  REQUIRE(bench.client.lag() == 0);
  REQUIRE(bench.client.stats().acknowledged_count == 2);
}

TEST_CASE("directory_client: a full batch goes at once, one at a time per holder", "[unit]") {
  Bench bench;
  bench.connect();
  for (uint64_t key = 0; key < 20; ++key) bench.publish(life(key, 100 + key));
  auto updates = bench.step();
  REQUIRE(updates.size() == 2);
  REQUIRE(updates[0].update->puts.size() == 8);
  REQUIRE(bench.step(milliseconds(5)).empty());
  bench.reply(updates[0]);
  const auto next = bench.step();
  REQUIRE(next.size() == 1);
  REQUIRE(next[0].holder_index == updates[0].holder_index);
  REQUIRE(next[0].update->update_id > updates[0].update->update_id);
  REQUIRE(next[0].update->puts.size() == 8);
  bench.reply(next[0]);
  REQUIRE(bench.step()[0].update->puts.size() == 4);  // older than a millisecond by now
}

TEST_CASE("directory_client: a retired object whose publish still waits leaves no trace",
          "[unit]") {
  Bench bench;
  bench.connect();
  bench.publish(life(1, 100));
  bench.publish(life(2, 101));
  bench.retire(life(1, 100));
  const auto updates = bench.step(milliseconds(1));
  REQUIRE(same_bytes(updates[0].update->puts, {life(2, 101)}));
  REQUIRE(updates[0].update->deletes.empty());
  REQUIRE(bench.client.stats().coalesced_count == 2);
}

TEST_CASE("directory_client: retire and publish of one key are one delete and one put", "[unit]") {
  Bench bench;
  bench.publish(life(1, 100));
  bench.connect();
  bench.retire(life(1, 100));
  bench.publish(life(1, 101));
  bench.retire(life(1, 101));
  bench.publish(life(1, 102));
  const auto updates = bench.step(milliseconds(1));
  REQUIRE(updates.size() == 2);
  REQUIRE(same_bytes(updates[0].update->deletes, {life(1, 100)}));
  REQUIRE(same_bytes(updates[0].update->puts, {life(1, 102)}));
}

TEST_CASE("directory_client: an object retired while its put is under way is deleted next",
          "[unit]") {
  Bench bench;
  bench.connect();
  bench.publish(life(1, 100));
  const auto updates = bench.step(milliseconds(1));
  bench.retire(life(1, 100));
  REQUIRE(bench.step(milliseconds(5)).empty());
  bench.reply(updates[0]);
  const auto next = bench.step(milliseconds(1));
  REQUIRE(next.size() == 1);
  REQUIRE(same_bytes(next[0].update->deletes, {life(1, 100)}));
}

TEST_CASE("directory_client: a failed update is sent again, the same, after a pause", "[unit]") {
  Bench bench;
  bench.connect();
  bench.publish(life(1, 100));
  auto updates = bench.step(milliseconds(1));
  bench.reply(updates[1]);
  Nanos failed_at = bench.now;
  for (const int pause_ms : {20, 40, 80, 160, 320, 640, 1000, 1000}) {
    bench.fail(updates[0]);
    REQUIRE(bench.client.next_due() == failed_at + milliseconds(pause_ms));
    REQUIRE(bench.step(milliseconds(pause_ms) - Nanos(1)).empty());
    const auto again = bench.step(Nanos(1));
    REQUIRE(again.size() == 1);
    REQUIRE(again[0].update == updates[0].update);
    failed_at = bench.now;
  }
  REQUIRE(bench.client.stats().retries_count == 8);
  bench.reply(updates[0]);
  REQUIRE(bench.client.lag() == 0);
  REQUIRE(bench.client.next_due() == Nanos::max());
}

TEST_CASE("directory_client: a shard that has not met us yet gets the update again", "[unit]") {
  Bench bench;
  bench.connect();
  bench.publish(life(1, 100));
  const auto updates = bench.step(milliseconds(1));
  bench.reply(updates[0], UpdateOutcome::kUnknownSender);
  REQUIRE(bench.client.lag() == 1);
  REQUIRE(bench.step(milliseconds(20)).size() == 1);
}

TEST_CASE("directory_client: replies that do not fit are ignored or retried", "[unit]") {
  Bench bench;
  bench.connect();
  bench.publish(life(1, 100));
  const auto updates = bench.step(milliseconds(1));
  const DirectoryUpdateReplyMessage foreign{999, {UpdateOutcome::kApplied}, 0, 0};
  bench.client.on_reply(0, 999, foreign, bench.now);
  REQUIRE(bench.client.lag() == 1);
  const DirectoryUpdateReplyMessage shorter{updates[0].update->update_id, {}, 0, 0};
  bench.client.on_reply(updates[0].holder_index, updates[0].update->update_id, shorter, bench.now);
  REQUIRE(bench.step(milliseconds(20)).size() == 1);
}

TEST_CASE("directory_client: flush waits for every live replica, and hurries", "[unit]") {
  Bench bench;
  bench.connect();
  REQUIRE(bench.client.flushed(bench.client.flush_target()));
  bench.publish(life(1, 100));
  const uint64_t target = bench.client.flush_target();
  REQUIRE_FALSE(bench.client.flushed(target));
  const auto updates = bench.step();  // no wait for the delay
  REQUIRE(updates.size() == 2);
  bench.publish(life(2, 101));
  bench.reply(updates[0]);
  REQUIRE_FALSE(bench.client.flushed(target));
  bench.reply(updates[1]);
  REQUIRE(bench.client.flushed(target));  // what came later does not count
  REQUIRE_FALSE(bench.client.flushed(bench.client.flush_target()));
  bench.settle();
  REQUIRE(bench.client.flushed(bench.client.flush_target()));
}

TEST_CASE("directory_client: a holder that goes down is not waited for", "[unit]") {
  Bench bench;
  bench.connect();
  bench.publish(life(1, 100));
  const uint64_t target = bench.client.flush_target();
  const auto updates = bench.step();
  bench.reply(updates[0]);
  bench.client.holder_down(updates[1].holder_index);
  REQUIRE(bench.client.flushed(target));
  bench.reply(updates[1]);  // late: of no effect
  bench.publish(life(2, 101));
  REQUIRE(bench.step(milliseconds(1)).size() == 1);
}

/// Publishes 100 objects, lets `come_back` happen to holder 1, and requires that it gets its own
/// objects again.
template <class ComeBack>
void require_own_records_again(uint32_t holders_count, ComeBack&& come_back) {
  Bench bench(Bench::default_options(), holders_count);
  const auto ring = Bench::ring_of(holders_count);
  for (uint32_t i = 0; i < holders_count; ++i) {
    bench.client.holder_up(i, Incarnation(500 + i), bench.now);
  }
  bench.settle();
  size_t wanted_count = 0;
  for (uint64_t key = 0; key < 100; ++key) {
    bench.publish(life(key, 100 + key));
    HashRing::Owners owners{};
    ring->owners(test::key_of(key), 2, owners);
    if (owners[0] == 1 || owners[1] == 1) ++wanted_count;
  }
  bench.settle();
  REQUIRE(bench.client.flushed(bench.client.flush_target()));
  come_back(bench);
  REQUIRE_FALSE(bench.client.flushed(0));  // it may lack anything
  size_t sent_count = 0;
  while (bench.client.next_due() != Nanos::max()) {
    for (const OutgoingUpdate& update : bench.step(milliseconds(1))) {
      REQUIRE(update.holder_index == 1);
      REQUIRE(update.update->deletes.empty());
      sent_count += update.update->puts.size();
      bench.reply(update);
    }
  }
  REQUIRE(sent_count == wanted_count);
  REQUIRE(bench.client.stats().republished_count == wanted_count);
  REQUIRE(bench.client.flushed(bench.client.flush_target()));
}

TEST_CASE("directory_client: a holder that comes back gets exactly its records again", "[unit]") {
  for (const uint32_t holders_count : {2U, 5U}) {
    require_own_records_again(holders_count, [](Bench& bench) {  // as a new incarnation
      bench.client.holder_up(1, Incarnation(999), bench.now);
    });
    require_own_records_again(holders_count, [](Bench& bench) {  // after it was down
      bench.client.holder_down(1);
      bench.client.holder_up(1, Incarnation(501), bench.now);
    });
    require_own_records_again(holders_count, [](Bench& bench) {  // after it had purged us
      bench.client.holder_purged(1, 3, bench.now);
      REQUIRE(bench.client.next_due() == Nanos::max());
      bench.client.holder_purged(1, 4, bench.now);
    });
  }
}

TEST_CASE("directory_client: the same incarnation announced again changes nothing", "[unit]") {
  Bench bench;
  bench.publish(life(1, 100));
  bench.connect();
  const uint64_t before = bench.client.stats().republished_count;
  bench.client.holder_up(0, Incarnation(500), bench.now);
  REQUIRE(bench.client.next_due() == Nanos::max());
  REQUIRE(bench.client.stats().republished_count == before);
}

TEST_CASE("directory_client: an object retired while it waits to be published again is deleted",
          "[unit]") {
  Bench bench;
  bench.connect();
  bench.publish(life(1, 100));
  bench.settle();
  bench.client.holder_purged(0, 0, bench.now);
  bench.client.holder_purged(0, 1, bench.now);
  bench.step();  // queues the put
  bench.retire(life(1, 100));
  std::vector<Location> deletes;
  std::vector<Location> puts;
  for (int i = 0; i < 10; ++i) {
    for (const OutgoingUpdate& update : bench.step(milliseconds(1))) {
      if (update.holder_index == 0) {
        deletes.insert(deletes.end(), update.update->deletes.begin(), update.update->deletes.end());
        puts.insert(puts.end(), update.update->puts.begin(), update.update->puts.end());
      }
      bench.reply(update);
    }
  }
  // The holder may still have had it.
  REQUIRE(same_bytes(deletes, {life(1, 100)}));
  REQUIRE(puts.empty());
}

TEST_CASE("directory_client: a full queue is dropped and the index published again", "[unit]") {
  DirectoryClientOptions options = Bench::default_options();
  options.queue_records_count = 32;
  Bench bench(options);
  bench.connect();
  bench.publish(life(0, 100));
  const auto stuck = bench.step(milliseconds(1));  // both holders are silent from now on
  for (uint64_t key = 1; key < 200; ++key) bench.publish(life(key, 100 + key));
  REQUIRE(bench.client.stats().overflows_count > 0);
  REQUIRE_FALSE(bench.client.flushed(0));
  std::vector<uint64_t> got(2, 0);
  for (const OutgoingUpdate& update : stuck) bench.reply(update);
  while (bench.client.next_due() != Nanos::max()) {
    for (const OutgoingUpdate& update : bench.step(milliseconds(1))) {
      got[update.holder_index] += update.update->puts.size();
      bench.reply(update);
    }
  }
  bench.step();
  REQUIRE(got[0] >= 199);
  REQUIRE(got[1] >= 199);
  REQUIRE(bench.client.flushed(bench.client.flush_target()));
}

TEST_CASE("directory_client: publishing again goes in steps and leaves room for events", "[unit]") {
  DirectoryClientOptions options = Bench::default_options();
  options.queue_records_count = 64;
  options.republish_buckets_count = 16;
  Bench bench(options);
  for (uint64_t key = 0; key < 400; ++key) bench.publish(life(key, 100 + key));
  bench.client.holder_up(0, Incarnation(500), bench.now);
  bench.client.holder_up(1, Incarnation(501), bench.now);
  for (int i = 0; i < 100; ++i) {
    bench.step();  // nobody answers
    // Half of the queue, and what the buckets of one step hold.
    REQUIRE(bench.client.lag() <= 8 + 32 + 16 * 4);
  }
  REQUIRE(bench.client.stats().overflows_count == 0);
  REQUIRE(bench.client.next_due() != Nanos(0));  // and nobody spins meanwhile
}

}  // namespace
}  // namespace peercache
