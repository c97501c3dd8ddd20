#include <catch2/catch.hpp>

#include "dataplane/engine/client.h"
#include "tests/dataplane/engine/fake_rail.h"

namespace peercache {
namespace {

using test::ClientBench;
using test::FakeRail;

struct VerifyBench {
  explicit VerifyBench(VerifyReads mode, uint32_t one_in = 64) : bench({&rail}, options(mode, one_in)) {
    for (size_t i = 0; i < bench.buffer.size(); ++i) {
      bench.buffer[i] = static_cast<std::byte>(i * 7 + i / 256);
    }
  }
  static EngineOptions options(VerifyReads mode, uint32_t one_in) {
    EngineOptions options;
    options.verify = mode;
    options.verify_sample_reads_count = one_in;
    return options;
  }
  // Outcome of one READ whose header says `hash`.
  OpStatus read(const Op& op, uint64_t hash) {
    Client& client = *bench.client;
    const Ticket ticket = client.submit({&op, 1}, bench.later()).value();
    rail.pull();
    rail.held[0].record->landing.payload_hash = PayloadHash(hash);
    rail.complete_all(OpStatus::kOk);
    client.poll();
    const OpStatus status = client.status(ticket, 0);
    client.release(ticket);
    return status;
  }
  FakeRail rail{0};
  ClientBench bench;
};

}  // namespace

TEST_CASE("client: verify full compares the hash over the pieces", "[unit]") {
  VerifyBench bench(VerifyReads::kFull);
  const Op whole = bench.bench.read(40'000);
  const uint64_t hash = hash_bytes64(bench.bench.buffer.data(), 40'000);
  CHECK(bench.read(whole, hash) == OpStatus::kOk);
  CHECK(bench.read(whole, hash + 1) == OpStatus::kBadPayload);
  CHECK(bench.read(whole, 0) == OpStatus::kOk);  // the owner computed none
  // The same bytes in pieces of odd sizes.
  std::vector<LocalPiece> pieces;
  for (uint32_t at = 0; at < 40'000;) {
    const uint32_t bytes = std::min<uint32_t>(40'000 - at, 777);
    pieces.push_back({bench.bench.buffer.data() + at, bytes, {}});
    at += bytes;
  }
  Op scattered = whole;
  scattered.pieces = pieces;
  CHECK(bench.read(scattered, hash) == OpStatus::kOk);
  std::swap(pieces[1], pieces[2]);
  CHECK(bench.read(scattered, hash) == OpStatus::kBadPayload);
  CHECK(bench.bench.client->counters().bad_payload.value() == 2);
  CHECK(bench.bench.client->counters().verified.value() == 4);
  Op plain = whole;
  plain.validation = Validation::kNone;
  CHECK(bench.read(plain, hash + 1) == OpStatus::kOk);  // has no header
}

TEST_CASE("client: verify off compares nothing, sampled one in so many", "[unit]") {
  VerifyBench off(VerifyReads::kOff);
  CHECK(off.read(off.bench.read(4096), 1) == OpStatus::kOk);
  VerifyBench sampled(VerifyReads::kSampled, 4);
  const Op op = sampled.bench.read(4096);
  int bad = 0;
  for (int i = 0; i < 40; ++i) {
    bad += sampled.read(op, 1) == OpStatus::kBadPayload ? 1 : 0;
  }
  CHECK(bad == 10);
}

}  // namespace peercache
