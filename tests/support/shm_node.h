#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/clock.h"
#include "dataplane/transport/shm/shm_endpoint.h"
#include "dataplane/transport/shm/shm_segment.h"

namespace peercache::test {

/// The memory of a node on shared memory, region by region as its table names them.
///
/// THREAD:     any, after construction.
/// OWNS:       one segment per region.
class ShmNodeMemory {
 public:
  explicit ShmNodeMemory(const std::vector<RegionDescriptor>& regions) {
    for (const RegionDescriptor& region : regions) {
      segments_.push_back(
          ShmSegment::create(Bytes(region.length_bytes), HugePageMode::kOff, 64_MiB).value());
      MemorySpec spec;
      spec.base = segments_.back()->data();
      spec.length = Bytes(region.length_bytes);
      spec.kind = region.kind;
      spec.region = region.region;
      spec.headers_region = region.headers_region;
      spec.granule_bytes = region.granule_bytes;
      spec.fd = segments_.back()->fd();
      specs_.push_back(spec);
    }
  }

  [[nodiscard]] std::byte* data(size_t region) const { return segments_[region]->data(); }
  [[nodiscard]] const std::vector<MemorySpec>& specs() const { return specs_; }

 private:
  std::vector<std::unique_ptr<ShmSegment>> segments_;
  std::vector<MemorySpec> specs_;
};

/// A listener that only counts: for nodes that serve and never connect.
///
/// THREAD:     the endpoint's.
class ServingListener final : public ShmListener {
 public:
  Result<PeerIndex> on_peer_up(uint64_t, const Hello&, const ShmPeerMapping&) override {
    return make_error(Errc::kUnsupported, "this node only serves");
  }
  void on_peer_refused(uint64_t, const Error&, const std::string&) override {}
  void on_peer_down(PeerIndex) override {}
};

[[nodiscard]] inline Hello shm_hello(NodeId node) {
  Hello hello;
  hello.node = node;
  hello.incarnation = Incarnation(1);
  hello.node_name = "node-" + std::to_string(node.value());
  hello.cluster_name = "test";
  hello.inflight_max_count = 1024;
  return hello;
}

/// A forked process that ends with this object at the latest. The parent must have no threads.
///
/// THREAD:     the test's.
class ForkedProcess {
 public:
  /// Runs `body(write_fd)` in the child, which never returns from it. What the child writes can be read here.
  template <class Body>
  explicit ForkedProcess(Body&& body) {
    int ends[2];
    PC_ASSERT(::pipe(ends) == 0);
    pid_ = ::fork();
    PC_ASSERT(pid_ >= 0);
    if (pid_ == 0) {
      ::close(ends[0]);
      body(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    read_fd_ = ends[0];
  }
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;
  ~ForkedProcess() {
    kill();
    ::close(read_fd_);
  }

  /// Up to the next newline or the end.
  std::string read_line() {
    std::string line;
    char byte = 0;
    while (::read(read_fd_, &byte, 1) == 1 && byte != '\n') {
      line.push_back(byte);
    }
    return line;
  }
  void signal(int number) const { ::kill(pid_, number); }
  /// Ends it at once and waits until it is gone.
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  /// Exit status, or -1 if a signal ended it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  int read_fd_ = -1;
};

}  // namespace peercache::test
