#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataplane/rail/rail.h"
#include "dataplane/transport/shm/shm_transport.h"
#include "tests/conformance/fixture_options.h"
#include "tests/support/shm_node.h"
#include "tests/support/temp_dir.h"

namespace peercache::test {

/// The engine over shared memory: each client with a rail of its own, peers in this process or in their own.
///
/// THREAD:     the test's; it plays client and conductor in turn.
class ShmFixture : private ShmListener {
 public:
  static constexpr const char* kName = "shm";
  static constexpr OpKind kBlocks = OpKind::kWrite;  // a READ needs nothing of its peer
  static constexpr uint32_t kRailsMax = 1;

  explicit ShmFixture(const FixtureOptions& options) {
    for (uint32_t p = 0; p < options.peers_count; ++p) {
      remotes_.push_back(std::make_unique<Remote>());
      start_peer(p, options);
    }
    own_memory_ = std::make_unique<ShmNodeMemory>(OwnerView::regions(1));
    own_ = ShmEndpoint::open(shm_options(), shm_hello(NodeId(999)), own_memory_->specs(), *this).value();
    for (uint32_t c = 0; c < options.clients_count; ++c) {
      RailOptions rail_options;
      rail_options.rail = RailIndex(static_cast<uint16_t>(c));
      rail_options.client_driven = true;
      rail_options.operation_timeout_ms = options.operation_timeout_ms;
      rails_.push_back(Rail<ShmTransport>::open(rail_options, ShmTransport::open(*own_, nullptr).value()).value());
    }
    for (uint32_t p = 0; p < options.peers_count; ++p) {
      own_->connect(remotes_[p]->socket, p, now()).value();
      PC_ASSERT(run_until([&] { return peers_->count() > p; }), p);
    }
    for (uint32_t c = 0; c < options.clients_count; ++c) {
      RailHandle* handle = rails_[c].get();
      clients_.push_back(
          Client::open(ClientIndex(static_cast<uint16_t>(c)), options.engine, {&handle, 1}, *peers_, Clock{}).value());
    }
  }
  ~ShmFixture() {
    clients_.clear();
    rails_.clear();
  }

  Client& client(uint32_t c = 0) { return *clients_[c]; }
  PeerIndex peer(uint32_t p = 0) const { return PeerIndex(static_cast<uint16_t>(p)); }
  const OwnerView& owner(uint32_t p = 0) const { return remotes_[p]->owner; }
  const PagePattern& pattern() const { return pattern_; }
  PeerDirectory& peers() { return *peers_; }
  Nanos now() const { return monotonic_now(); }

  template <class Done>
  bool run_until(Done&& done) {
    const Nanos end = now() + Nanos(10'000'000'000);
    while (now() < end) {
      turn();
      if (done()) {
        return true;
      }
    }
    return false;
  }

  void turn() {
    own_->poll_once(now());
    for (const auto& remote : remotes_) {
      if (remote->endpoint != nullptr && !remote->frozen) {
        remote->endpoint->poll_once(now());
      }
    }
    for (const auto& client : clients_) {
      client->poll();
    }
  }

  void freeze(uint32_t p) {
    remotes_[p]->frozen = true;
    if (remotes_[p]->process != nullptr) {
      remotes_[p]->process->signal(SIGSTOP);
    }
  }
  void thaw(uint32_t p) {
    remotes_[p]->frozen = false;
    if (remotes_[p]->process != nullptr) {
      remotes_[p]->process->signal(SIGCONT);
    }
  }
  void kill(uint32_t p) {
    if (remotes_[p]->process != nullptr) {
      remotes_[p]->process->kill();
    } else {
      remotes_[p]->endpoint.reset();
    }
  }

  void check_invariants() {
    own_->check_invariants();
    for (size_t c = 0; c < clients_.size(); ++c) {
      rails_[c]->check_invariants();
      clients_[c]->check_invariants();
    }
  }

 private:
  struct Remote {
    std::unique_ptr<ShmNodeMemory> memory;  // of a peer in this process
    ServingListener listener;
    std::unique_ptr<ShmEndpoint> endpoint;
    std::unique_ptr<ForkedProcess> process;
    std::string socket;
    OwnerView owner;
    bool frozen = false;
  };

  ShmOptions shm_options() const {
    ShmOptions options;
    options.runtime_dir = directory_.path();
    return options;
  }

  void start_peer(uint32_t p, const FixtureOptions& options) {
    Remote& remote = *remotes_[p];
    remote.owner.owner = p;
    remote.owner.slots_count = options.slots_count;
    remote.owner.pattern = &pattern_;
    if (!options.own_processes) {
      serve(remote, options);
      return;
    }
    remote.process = std::make_unique<ForkedProcess>([&](int write_fd) {
      Remote mine;
      mine.owner = remote.owner;
      serve(mine, options);
      const std::string line = mine.socket + "\n";
      PC_ASSERT(::write(write_fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
      while (::getppid() != 1) {
        if (mine.endpoint->poll_once(monotonic_now()) == 0) {
          ::usleep(200);  // a process of its own: nothing in the test waits for this
        }
      }
    });
    remote.socket = remote.process->read_line();
    PC_ASSERT(!remote.socket.empty(), p);
  }

  void serve(Remote& remote, const FixtureOptions& options) {
    remote.memory = std::make_unique<ShmNodeMemory>(OwnerView::regions(options.slots_count));
    OwnerView& owner = remote.owner;
    owner.bytes = remote.memory->data(0);
    owner.headers = reinterpret_cast<SlotHeader*>(remote.memory->data(1));
    owner.buckets = reinterpret_cast<Bucket*>(remote.memory->data(2));
    owner.writable = remote.memory->data(3);
    for (uint32_t i = 0; i < options.initial_count; ++i) {
      const Location at = owner.publish(i * options.initial_stride, options.initial_bytes);
      PC_ASSERT(owner.insert(at));
    }
    remote.endpoint =
        ShmEndpoint::open(shm_options(), shm_hello(owner.node()), remote.memory->specs(), remote.listener).value();
    remote.socket = remote.endpoint->socket_name();
  }

  // ShmListener: this node's side.
  Result<PeerIndex> on_peer_up(uint64_t cookie_id, const Hello& hello, const ShmPeerMapping&) override {
    PeerInfo info;
    info.node = hello.node;
    info.incarnation = hello.incarnation;
    for (const RegionDescriptor& region : hello.regions) {
      info.regions[info.region_count++] = region;
    }
    PC_TRY_ASSIGN(const PeerIndex index, peers_->add(info));
    PC_ASSERT(index.value() == cookie_id, index, cookie_id);
    for (const auto& rail : rails_) {
      PC_TRY(rail->proxy().connect_peer(index, ProbeTarget{.region = kHeadersRegion, .exists = true}));
    }
    peers_->set_state(index, PeerState::kUp);
    return index;
  }
  void on_peer_refused(uint64_t cookie_id, const Error&, const std::string&) override { PC_ASSERT(false, cookie_id); }
  void on_peer_down(PeerIndex peer) override {
    peers_->set_state(peer, PeerState::kGone);
    for (const auto& rail : rails_) {
      rail->proxy().disconnect_peer(peer).value();
    }
  }

  const PagePattern pattern_{};
  const testing::TempDir directory_;
  std::vector<std::unique_ptr<Remote>> remotes_;
  std::unique_ptr<PeerDirectory> peers_ = std::make_unique<PeerDirectory>();
  std::unique_ptr<ShmNodeMemory> own_memory_;
  std::unique_ptr<ShmEndpoint> own_;
  std::vector<std::unique_ptr<Rail<ShmTransport>>> rails_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace peercache::test
