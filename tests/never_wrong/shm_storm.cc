// An eviction storm over shared memory: owner processes that put and evict as fast as they can, and
// reading threads in this process that look keys up in the owners' directories and read what they
// find.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "dataplane/base/ordering.h"
#include "dataplane/engine/client.h"
#include "dataplane/rail/rail.h"
#include "dataplane/transport/shm/shm_transport.h"
#include "tests/never_wrong/storm_options.h"
#include "tests/never_wrong/storm_writer.h"
#include "tests/support/shm_node.h"
#include "tests/support/temp_dir.h"

namespace peercache::test {
namespace {

constexpr uint32_t kGranuleBytes = 4096;
constexpr uint64_t kPoolBytes = 2ULL << 20;
constexpr uint64_t kBuckets = 1024;
constexpr uint32_t kObjectBytesMax = 12288;
constexpr uint32_t kBatchOps = 64;
constexpr uint32_t kOwnersMax = 4;
constexpr RegionIndex kPublished{0};
constexpr RegionIndex kHeaders{1};
constexpr RegionIndex kDirectory{2};

/// What all processes of a storm share besides the pools.
///
/// THREAD:     any.
struct Control {
  std::array<std::atomic<uint64_t>, kOwnersMax> next_number{};
  std::array<std::atomic<uint64_t>, kOwnersMax> puts{};
  std::atomic<bool> stop{false};
};

std::vector<RegionDescriptor> regions() {
  std::vector<RegionDescriptor> out(3);
  out[0].region = kPublished;
  out[0].kind = RegionKind::kPublished;
  out[0].length_bytes = kPoolBytes;
  out[0].headers_region = kHeaders;
  out[0].granule_bytes = kGranuleBytes;
  out[1].region = kHeaders;
  out[1].kind = RegionKind::kHeaders;
  out[1].length_bytes = kPoolBytes / kGranuleBytes * sizeof(SlotHeader);
  out[2].region = kDirectory;
  out[2].kind = RegionKind::kDirectory;
  out[2].length_bytes = kBuckets * sizeof(Bucket);
  return out;
}

ShmOptions shm_options(const testing::TempDir& directory) {
  ShmOptions options;
  options.runtime_dir = directory.path();
  return options;
}

bool stopped(const Control& control) {
  return control.stop.load(std::memory_order_relaxed);  // a flag; nothing is read through it
}

// The owner process: ends when told to stop, or with its parent.
void run_owner(uint32_t owner,
               const StormOptions& options,
               const testing::TempDir& directory,
               Control& control,
               int write_fd) {
  const PagePattern pattern;
  const ShmNodeMemory memory(regions());
  BucketTable table = BucketTable::open(memory.data(2), Bytes(kBuckets * sizeof(Bucket))).value();
  StormWriter writer(PoolMemory{.bytes = memory.data(0),
                                .length = Bytes(kPoolBytes),
                                .headers = reinterpret_cast<SlotHeader*>(memory.data(1)),
                                .header_count = kPoolBytes / kGranuleBytes,
                                .region = kPublished},
                     pattern, options.seed_id + owner, NodeId(owner + 1));
  writer.set_directory(&table);
  ServingListener listener;
  const auto endpoint = ShmEndpoint::open(shm_options(directory), shm_hello(NodeId(owner + 1)),
                                          memory.specs(), listener)
                            .value();
  const std::string line = endpoint->socket_name() + "\n";
  PC_ASSERT(::write(write_fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  while (!stopped(control) && ::getppid() != 1) {
    for (int i = 0; i < 64; ++i) {
      for (int step = 0; step < 16; ++step) {
        writer.step();
      }
      // Relaxed is enough: numbers that readers guess by.
      control.next_number[owner].store(writer.next_number(), std::memory_order_relaxed);
      control.puts[owner].store(writer.puts(), std::memory_order_relaxed);
    }
    endpoint->poll_once(monotonic_now());
  }
}

/// This node: one endpoint, and for each reading thread a rail and a client.
///
/// THREAD:     the endpoint by one thread; each reader by its own.
class ReadingNode : private ShmListener {
 public:
  ReadingNode(const testing::TempDir& directory,
              uint32_t readers_count,
              const std::vector<std::string>& sockets)
      : memory_(regions()),
        endpoint_(ShmEndpoint::open(shm_options(directory),
                                    shm_hello(NodeId(999)),
                                    memory_.specs(),
                                    *this)
                      .value()) {
    for (uint32_t i = 0; i < readers_count; ++i) {
      RailOptions options;
      options.rail = RailIndex(static_cast<uint16_t>(i));
      options.client_driven = true;
      rails_.push_back(
          Rail<ShmTransport>::open(options, ShmTransport::open(*endpoint_, nullptr).value())
              .value());
    }
    for (size_t i = 0; i < sockets.size(); ++i) {
      endpoint_->connect(sockets[i], i, monotonic_now()).value();
      while (peers_->count() == i) {
        endpoint_->poll_once(monotonic_now());
      }
    }
    for (uint32_t i = 0; i < readers_count; ++i) {
      RailHandle* handle = rails_[i].get();
      clients_.push_back(Client::open(ClientIndex(static_cast<uint16_t>(i)), EngineOptions{},
                                      {&handle, 1}, *peers_, Clock{})
                             .value());
    }
  }
  ~ReadingNode() {
    clients_.clear();
    rails_.clear();
  }

  Client& client(uint32_t reader) { return *clients_[reader]; }
  void turn() { endpoint_->poll_once(monotonic_now()); }

  /// The generation of a slot right now, read past the data plane: only to count overlaps.
  uint32_t peek_generation(PeerIndex peer, SlotIndex slot) const {
    return racy_load(
        reinterpret_cast<const uint32_t*>(&headers_[peer.value()][slot.value()].generation));
  }

 private:
  Result<PeerIndex> on_peer_up(uint64_t cookie_id,
                               const Hello& hello,
                               const ShmPeerMapping& mapping) override {
    PeerInfo info;
    info.node = hello.node;
    info.incarnation = hello.incarnation;
    for (const RegionDescriptor& region : hello.regions) {
      info.regions[info.region_count++] = region;
    }
    PC_TRY_ASSIGN(const PeerIndex index, peers_->add(info));
    headers_[cookie_id] = reinterpret_cast<const SlotHeader*>(mapping.find(kHeaders)->data);
    for (const auto& rail : rails_) {
      PC_TRY(rail->proxy().connect_peer(index, ProbeTarget{.region = kHeaders, .exists = true}));
    }
    peers_->set_state(index, PeerState::kUp);
    return index;
  }
  void on_peer_refused(uint64_t cookie_id, const Error&, const std::string&) override {
    PC_ASSERT(false, cookie_id);
  }
  void on_peer_down(PeerIndex) override {}

  ShmNodeMemory memory_;
  std::unique_ptr<PeerDirectory> peers_ = std::make_unique<PeerDirectory>();
  std::array<const SlotHeader*, kOwnersMax> headers_{};
  std::unique_ptr<ShmEndpoint> endpoint_;
  std::vector<std::unique_ptr<Rail<ShmTransport>>> rails_;
  std::vector<std::unique_ptr<Client>> clients_;
};

/// One reading thread: looks up, reads, compares.
///
/// THREAD:     its own.
class Reader {
 public:
  Reader(ReadingNode& node,
         uint32_t index,
         const StormOptions& options,
         Mutant mutant,
         const Control& control)
      : node_(node),
        client_(node.client(index)),
        validation_(mutant == Mutant::kNoValidation ? Validation::kNone : Validation::kHeader),
        owners_count_(options.writers_count),
        control_(control),
        random_(options.seed_id * 1000 + index),
        memory_(size_t{kBatchOps} * kObjectBytesMax) {}

  void run(std::atomic<uint64_t>& reads_left) {
    while (!stopped(control_)) {
      const PeerIndex peer(static_cast<uint16_t>(random_.below(owners_count_)));
      look_up(peer);
      if (ops_.empty()) {
        continue;
      }
      read(peer);
      const uint64_t done = ops_.size();
      // Relaxed is enough: a count that decides when to stop.
      if (reads_left.fetch_sub(done, std::memory_order_relaxed) <= done) {
        reads_left.store(0, std::memory_order_relaxed);
        return;
      }
    }
  }
  const StormCounts& counts() const { return counts_; }

 private:
  static Nanos soon() { return monotonic_now() + Nanos(10'000'000'000); }

  void look_up(PeerIndex peer) {
    // Relaxed: a guess. What was put some 500 numbers ago is about to be overwritten.
    const uint64_t latest = control_.next_number[peer.value()].load(std::memory_order_relaxed);
    std::array<Key128, kBatchOps> keys;
    for (Key128& key : keys) {
      key = StormWriter::small_key(latest - std::min<uint64_t>(latest, random_.below(600)));
    }
    const LookupBatch batch{
        .keys = keys.data(), .results = results_.data(), .key_count = kBatchOps};
    Op op;
    op.kind = OpKind::kLookup;
    op.peer = peer;
    op.target.region = kDirectory;
    op.lookup = &batch;
    const Ticket ticket = client_.submit({&op, 1}, soon()).value();
    const BatchResult result = client_.wait(ticket, soon()).value();
    client_.release(ticket);
    ops_.clear();
    for (uint32_t i = 0; i < kBatchOps && result.ok_count == 1; ++i) {
      if (results_[i].count != 0) {
        add_read(peer, results_[i].locations[0]);
      }
    }
  }

  void add_read(PeerIndex peer, const Location& location) {
    const size_t at = ops_.size();
    std::byte* const to = memory_.data() + at * kObjectBytesMax;
    const uint32_t first = 1 + static_cast<uint32_t>(random_.below(location.length_bytes - 1));
    pieces_[at] = {LocalPiece{to, first, LocalKey(0)},
                   LocalPiece{to + first, location.length_bytes - first, LocalKey(0)}};
    Op& op = ops_.emplace_back();
    op.validation = validation_;
    op.peer = peer;
    op.target = location;
    op.pieces = pieces_[at];
  }

  // Now and then lets the owner go on by a few puts, if it runs at all within a millisecond.
  void linger(PeerIndex peer) {
    if (random_.below(8) != 0) {
      return;
    }
    const std::atomic<uint64_t>& puts = control_.puts[peer.value()];
    const uint64_t enough =
        puts.load(std::memory_order_relaxed) + random_.below(32);  // a count, as above
    const Nanos until = monotonic_now() + Nanos(1'000'000);
    while (puts.load(std::memory_order_relaxed) < enough && monotonic_now() < until) {
      std::this_thread::yield();
    }
  }

  void read(PeerIndex peer) {
    const Ticket ticket = client_.submit(ops_, soon()).value();
    // Posted by now; the copies begin with the next turn.
    for (size_t i = 0; i < ops_.size(); ++i) {
      posted_[i] = node_.peek_generation(peer, ops_[i].target.slot);
    }
    // As if this thread were pushed off its core: before the bytes are copied, and between bytes
    // and headers.
    linger(peer);
    client_.poll();
    linger(peer);
    static_cast<void>(client_.wait(ticket, soon()).value());
    for (uint32_t i = 0; i < ops_.size(); ++i) {
      const Location& target = ops_[i].target;
      ++counts_.reads;
      switch (client_.status(ticket, i)) {
        case OpStatus::kOk:
          ++counts_.hits;
          counts_.wrong += pattern_.matches(memory_.data() + i * kObjectBytesMax, target.key,
                                            target.length_bytes)
                               ? 0
                               : 1;
          break;
        case OpStatus::kStale:
          ++counts_.stale;
          counts_.overlapped += client_.header(ticket, i).generation.value() != posted_[i] ? 1 : 0;
          break;
        default:
          ++counts_.other;
      }
    }
    client_.release(ticket);
  }

  ReadingNode& node_;
  Client& client_;
  const Validation validation_;
  const uint64_t owners_count_;
  const Control& control_;
  TestRandom random_;
  const PagePattern pattern_{};
  std::vector<std::byte> memory_;
  std::array<LookupResult, kBatchOps> results_{};
  std::array<std::array<LocalPiece, 2>, kBatchOps> pieces_{};
  std::array<uint32_t, kBatchOps> posted_{};
  std::vector<Op> ops_;
  StormCounts counts_;
};

bool run_pass(const StormOptions& options, Mutant mutant, uint64_t reads) {
  const testing::TempDir directory;
  void* shared =
      ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  PC_ASSERT(shared != MAP_FAILED);
  Control& control = *new (shared) Control();
  std::vector<std::unique_ptr<ForkedProcess>> owners;
  std::vector<std::string> sockets;
  for (uint32_t i = 0; i < options.writers_count; ++i) {
    owners.push_back(std::make_unique<ForkedProcess>(
        [&](int write_fd) { run_owner(i, options, directory, control, write_fd); }));
    sockets.push_back(owners.back()->read_line());
    PC_ASSERT(!sockets.back().empty(), i);
  }
  ReadingNode node(directory, static_cast<uint32_t>(options.readers_count), sockets);
  for (uint32_t i = 0; i < options.writers_count; ++i) {
    while (control.puts[i].load(std::memory_order_relaxed) < 1000) {  // the pool is full
      std::this_thread::yield();
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::atomic<uint64_t> reads_left{reads};
  std::vector<std::unique_ptr<Reader>> readers;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < options.readers_count; ++i) {
    readers.push_back(std::make_unique<Reader>(node, i, options, mutant, control));
    threads.emplace_back([&reads_left, reader = readers.back().get()] { reader->run(reads_left); });
  }
  // This thread is the conductor; it also ends a run that has a time.
  while (reads_left.load(std::memory_order_relaxed) != 0 &&
         (options.seconds == 0 || passed() < options.seconds)) {
    node.turn();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  control.stop.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads) {
    thread.join();
  }
  StormCounts counts;
  counts.seconds = passed();
  for (const auto& reader : readers) {
    counts.add(reader->counts());
  }
  bool owners_ended = true;
  for (uint32_t i = 0; i < options.writers_count; ++i) {
    owners_ended = owners[i]->wait() == 0 && owners_ended;
    counts.puts += control.puts[i].load(std::memory_order_relaxed);
  }
  if (!owners_ended) {
    std::printf("shm: FAILED: an owner process did not end well\n");
  }
  const bool good = judge_storm("shm", options, mutant, counts) && owners_ended;
  ::munmap(shared, sizeof(Control));
  return good;
}

}  // namespace
}  // namespace peercache::test

int main(int argc, char** argv) {
  using namespace peercache::test;
  const StormOptions options = parse_storm_options(argc, argv, 1'000'000);
  if (options.writers_count == 0 || options.writers_count > 4 || options.readers_count == 0 ||
      options.readers_count > 8) {
    std::printf("1 to 4 writers and 1 to 8 readers are possible\n");
    return 2;
  }
  if (options.mutant_given) {
    return run_pass(options, options.mutant, options.reads_count) ? 0 : 1;
  }
  const bool good = run_pass(options, Mutant::kNone, options.reads_count);
  const bool shows = run_pass(options, Mutant::kNoValidation, mutant_reads(options));
  return good && shows ? 0 : 1;
}
