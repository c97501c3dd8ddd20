// An eviction storm on the simulated fabric: one owner and one reader in one thread, step by step from one seed, with
// reads that are torn into chunks and executed out of order while the owner's puts advance between any two events.
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "dataplane/engine/client.h"
#include "tests/never_wrong/storm_options.h"
#include "tests/never_wrong/storm_writer.h"
#include "tests/support/sim_cluster.h"

namespace peercache::test {
namespace {

constexpr uint32_t kGranuleBytes = 4096;
constexpr uint64_t kPoolBytes = 2ULL << 20;  // 512 granules: small enough to stay in a cache, and to turn over fast
constexpr uint32_t kBatchOps = 16;
constexpr uint32_t kBatches = 4;
constexpr uint32_t kObjectBytesMax = 12288;

SimFaults storm_faults() {
  SimFaults faults;
  faults.jitter_ns = 1'000;
  faults.reorder_ppm = 200'000;
  faults.reorder_ns = 6'000;
  faults.torn_ppm = 250'000;
  faults.torn_chunks_max_count = 4;
  faults.torn_spread_ns = 4'000;
  return faults;
}

SimClusterOptions cluster_options(uint64_t seed) {
  SimClusterOptions options;
  options.seed = seed;
  options.peers_count = 0;
  options.faults = storm_faults();
  return options;
}

struct alignas(64) Line {
  std::array<std::byte, 64> bytes{};
};

/// One pass: owner, reader, and what was counted.
///
/// THREAD:     one.
class SimStorm {
 public:
  SimStorm(const StormOptions& options, Mutant mutant)
      : mutant_(mutant),
        random_(options.seed_id),
        bytes_(kPoolBytes / sizeof(Line)),
        headers_(kPoolBytes / kGranuleBytes),
        cluster_(cluster_options(options.seed_id)),
        writer_(PoolMemory{.bytes = bytes_[0].bytes.data(),
                           .length = Bytes(kPoolBytes),
                           .headers = headers_.data(),
                           .header_count = headers_.size(),
                           .region = kSimPublished},
                pattern_, options.seed_id, NodeId(1)) {
    connect();
    client_ = Client::open(ClientIndex(0), EngineOptions{}, cluster_.handles(), *peers_,
                           cluster_.clock())
                  .value();
    for (uint32_t i = 0; i < kBatches; ++i) {
      batches_.push_back(std::make_unique<Batch>());
    }
    while (writer_.puts() < 600) {
      writer_.step();
    }
  }

  StormCounts run(uint64_t reads, double seconds) {
    const auto start = std::chrono::steady_clock::now();
    const auto passed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    uint64_t turns = 0;
    bool stop = false;
    while (!stop || client_->busy()) {
      if (!stop) {
        submit_where_idle();
      }
      cluster_.rail().poll_once(cluster_.now());
      note_posted();
      // A few events and steps of the owner in any order; then the rail has its turn again.
      for (uint64_t i = 1 + random_.below(4); i > 0; --i) {
        if (random_.below(4) == 0) {
          writer_.step();
        }
        cluster_.fabric().step();
      }
      cluster_.rail().poll_once(cluster_.now());
      if (client_->poll() != 0) {
        collect();
      }
      stop = stop || counts_.reads >= reads ||
             (++turns % 65536 == 0 && seconds != 0 && passed() >= seconds);
    }
    client_->check_invariants();
    cluster_.check_invariants();
    writer_.pool().check_invariants();
    counts_.puts = writer_.puts();
    counts_.seconds = passed();
    return counts_;
  }

 private:
  struct Batch {
    std::array<Op, kBatchOps> ops;
    std::array<std::array<LocalPiece, 3>, kBatchOps> pieces;
    std::array<Generation, kBatchOps> posted_generation{};
    std::array<Line, kBatchOps * kObjectBytesMax / sizeof(Line)> memory;
    Ticket ticket{};
    bool busy = false;
    bool posted = false;
  };

  void connect() {
    SimRegion published;
    published.descriptor.length_bytes = kPoolBytes;
    published.descriptor.region = kSimPublished;
    published.descriptor.kind = RegionKind::kPublished;
    published.descriptor.headers_region = kSimHeaders;
    published.descriptor.granule_bytes = kGranuleBytes;
    published.memory = bytes_[0].bytes.data();
    SimRegion headers;
    headers.descriptor.length_bytes = headers_.size() * sizeof(SlotHeader);
    headers.descriptor.region = kSimHeaders;
    headers.descriptor.kind = RegionKind::kHeaders;
    headers.memory = reinterpret_cast<std::byte*>(headers_.data());
    const std::array<SimRegion, 2> regions{published, headers};
    const SimNode node = cluster_.fabric().add_node(regions).value();
    PeerInfo info;
    info.node = NodeId(1);
    info.incarnation = Incarnation(1);
    info.region_count = 2;
    info.regions[0] = published.descriptor;
    info.regions[1] = headers.descriptor;
    peer_ = peers_->add(info).value();
    peers_->set_state(peer_, PeerState::kUp);
    cluster_.transport().connect(peer_, node).value();
    cluster_.rail().proxy().connect_peer(peer_, SimCluster::probe_target()).value();
  }

  std::byte* destination(Batch& batch, uint32_t op) {
    return batch.memory[0].bytes.data() + size_t{op} * kObjectBytesMax;
  }

  void submit_where_idle() {
    for (const auto& batch : batches_) {
      if (batch->busy) {
        continue;
      }
      for (uint32_t i = 0; i < kBatchOps; ++i) {
        const Location& location = writer_.pick(random_);
        Op& op = batch->ops[i];
        op.kind = OpKind::kRead;
        op.validation = mutant_ == Mutant::kNoValidation ? Validation::kNone : Validation::kHeader;
        op.peer = peer_;
        op.target = location;
        op.pieces = split(*batch, i, location.length_bytes);
      }
      batch->ticket = client_->submit(batch->ops, cluster_.now() + Nanos(60'000'000'000)).value();
      batch->busy = true;
      batch->posted = false;
    }
  }

  // One to three pieces that follow each other, so that the object can be compared as a whole.
  std::span<const LocalPiece> split(Batch& batch, uint32_t op, uint32_t bytes) {
    std::byte* const to = destination(batch, op);
    std::array<LocalPiece, 3>& pieces = batch.pieces[op];
    const size_t count = 1 + random_.below(3);
    uint32_t at = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t left = bytes - at;
      const uint32_t take = i + 1 == count ? left : 1 + static_cast<uint32_t>(random_.below(left / 2));
      pieces[i] = LocalPiece{to + at, take, LocalKey(0)};
      at += take;
    }
    return {pieces.data(), count};
  }

  // The rail has posted all data READs in the turn just made.
  void note_posted() {
    for (const auto& batch : batches_) {
      if (batch->busy && !batch->posted) {
        batch->posted = true;
        for (uint32_t i = 0; i < kBatchOps; ++i) {
          batch->posted_generation[i] = headers_[batch->ops[i].target.slot.value()].generation;
        }
      }
    }
  }

  void collect() {
    for (const auto& batch : batches_) {
      if (!batch->busy || !client_->result(batch->ticket)->done) {
        continue;
      }
      for (uint32_t i = 0; i < kBatchOps; ++i) {
        count(*batch, i);
      }
      client_->release(batch->ticket);
      batch->busy = false;
    }
  }

  void count(Batch& batch, uint32_t i) {
    const OpStatus status = client_->status(batch.ticket, i);
    const Location& target = batch.ops[i].target;
    ++counts_.reads;
    if (status == OpStatus::kOk) {
      ++counts_.hits;
      if (!pattern_.matches(destination(batch, i), target.key, target.length_bytes)) {
        ++counts_.wrong;
      }
    } else if (status == OpStatus::kStale) {
      ++counts_.stale;
      // What the header READ itself saw, so a lower bound: changes after it do not count.
      const Generation seen = client_->header(batch.ticket, i).generation;
      counts_.overlapped += seen != batch.posted_generation[i] ? 1 : 0;
    } else {
      ++counts_.other;
    }
  }

  const Mutant mutant_;
  TestRandom random_;
  const PagePattern pattern_{};
  std::vector<Line> bytes_;
  std::vector<SlotHeader> headers_;
  SimCluster cluster_;
  StormWriter writer_;
  std::unique_ptr<PeerDirectory> peers_ = std::make_unique<PeerDirectory>();
  PeerIndex peer_{0};
  std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<Batch>> batches_;
  StormCounts counts_;
};

bool run_pass(const StormOptions& options, Mutant mutant, uint64_t reads) {
  auto storm = std::make_unique<SimStorm>(options, mutant);
  const StormCounts counts = storm->run(reads, options.seconds);
  return judge_storm("sim", options, mutant, counts);
}

}  // namespace
}  // namespace peercache::test

int main(int argc, char** argv) {
  using namespace peercache::test;
  const StormOptions options = parse_storm_options(argc, argv, 10'000'000);
  if (options.mutant_given) {
    return run_pass(options, options.mutant, options.reads_count) ? 0 : 1;
  }
  const bool good = run_pass(options, Mutant::kNone, options.reads_count);
  const bool shows = run_pass(options, Mutant::kNoValidation, mutant_reads(options));
  return good && shows ? 0 : 1;
}
