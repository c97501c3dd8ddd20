#pragma once

#include <cstdint>
#include <memory>
#include <poll.h>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/clock.h"
#include "dataplane/transport/shm/shm_endpoint.h"
#include "dataplane/transport/shm/shm_segment.h"
#include "dataplane/transport/shm/shm_transport.h"
#include "dataplane/wire/slot_header.h"
#include "tests/support/pattern.h"

namespace peercache::testing {

/// Region indices of every test node.
inline constexpr RegionIndex kPublishedRegion{0};
inline constexpr RegionIndex kHeadersRegion{1};
inline constexpr RegionIndex kDirectoryRegion{2};
inline constexpr RegionIndex kWritableRegion{5};

inline constexpr uint64_t kGranuleBytes = 4096;
inline constexpr uint64_t kBucketCount = 512;

/// The pattern that fills the published region of node `id`.
inline Key128 region_key(uint64_t id) { return Key128{id, 0x7e57}; }

/// What a listener was told.
class RecordingListener final : public ShmListener {
 public:
  Result<PeerIndex> on_peer_up(uint64_t cookie_id,
                               const Hello& hello,
                               const ShmPeerMapping& mapping) override {
    up_cookies.push_back(cookie_id);
    last_hello = hello;
    last_mapped_bytes = mapping.mapped_bytes;
    if (refuse_next) {
      return make_error(Errc::kUnknownMember, "not on the list");
    }
    up.push_back(next_peer);
    next_peer = PeerIndex(static_cast<uint16_t>(next_peer.value() + 1));
    return up.back();
  }
  void on_peer_refused(uint64_t cookie_id, const Error& error, const std::string& reason) override {
    refused_cookies.push_back(cookie_id);
    errors.push_back(error);
    reasons.push_back(reason);
  }
  void on_peer_down(PeerIndex peer) override { down.push_back(peer); }

  PeerIndex next_peer{3};
  bool refuse_next = false;
  std::vector<uint64_t> up_cookies, refused_cookies;
  std::vector<PeerIndex> up, down;
  std::vector<Error> errors;
  std::vector<std::string> reasons;
  Hello last_hello;
  uint64_t last_mapped_bytes = 0;
};

struct TestNodeOptions {
  uint64_t id = 1;
  Bytes published = 4_MiB;
  Bytes writable = 1_MiB;
  ShmOptions shm{};
  std::string cluster_name = "test";
};

/// A node with one region of each kind, an endpoint and a listener that writes everything down.
struct TestNode {
  explicit TestNode(TestNodeOptions options) : id(options.id) {
    const uint64_t headers_bytes = options.published.value() / kGranuleBytes * sizeof(SlotHeader);
    published = make(options.published);
    headers = make(Bytes(headers_bytes));
    directory = make(Bytes(kBucketCount * sizeof(Bucket)));
    writable = make(options.writable);
    fill_pattern(region_key(id), published->data(), published->length().value());
    Hello hello;
    hello.node = NodeId(id);
    hello.incarnation = Incarnation(static_cast<uint32_t>(id + 100));
    hello.node_name = "node-" + std::to_string(id);
    hello.cluster_name = options.cluster_name;
    hello.inflight_max_count = 64;
    const std::vector<MemorySpec> regions = {
        spec(*published, options.published, RegionKind::kPublished, kPublishedRegion),
        spec(*headers, Bytes(headers_bytes), RegionKind::kHeaders, kHeadersRegion),
        spec(*directory, Bytes(kBucketCount * sizeof(Bucket)), RegionKind::kDirectory,
             kDirectoryRegion),
        spec(*writable, options.writable, RegionKind::kWritable, kWritableRegion),
    };
    auto opened = ShmEndpoint::open(options.shm, hello, regions, listener);
    if (opened) {
      endpoint = std::move(*opened);
    } else {
      open_error = opened.error();
    }
  }

  static std::unique_ptr<ShmSegment> make(Bytes length) {
    return std::move(ShmSegment::create(length, HugePageMode::kOff, 64_MiB)).value();
  }
  static MemorySpec spec(const ShmSegment& segment,
                         Bytes length,
                         RegionKind kind,
                         RegionIndex region) {
    MemorySpec made;
    made.base = segment.data();
    made.length = length;
    made.kind = kind;
    made.region = region;
    made.headers_region = kind == RegionKind::kPublished ? kHeadersRegion : RegionIndex(0);
    made.granule_bytes = kind == RegionKind::kPublished ? kGranuleBytes : 0;
    made.fd = segment.fd();
    return made;
  }

  uint64_t id;
  std::unique_ptr<ShmSegment> published, headers, directory, writable;
  RecordingListener listener;
  std::unique_ptr<ShmEndpoint> endpoint;  // after what it borrows
  Error open_error{};
};

/// Turns of the endpoints at a time that stands still, until `done` says so; false if it never
/// does.
template <class Done>
bool run_until(std::vector<ShmEndpoint*> endpoints, Nanos now, Done done) {
  for (int turn = 0; turn < 20000; ++turn) {
    if (done()) {
      return true;
    }
    for (ShmEndpoint* endpoint : endpoints) {
      endpoint->poll_once(now);
      endpoint->check_invariants();
    }
  }
  return done();
}

/// The same with another process at the other end: real time, sleeping on the endpoint.
template <class Done>
bool wait_until(ShmEndpoint& endpoint, Done done, Nanos longest = std::chrono::seconds(10)) {
  const Nanos until = monotonic_now() + longest;
  while (!done()) {
    if (monotonic_now() > until) {
      return false;
    }
    if (endpoint.poll_once(monotonic_now()) == 0) {
      pollfd ready{endpoint.epoll_fd(), POLLIN, 0};
      ::poll(&ready, 1, 5);
    }
  }
  return true;
}

/// Connects `from` to `to`; both in this process. The index under which `from` finds it.
inline PeerIndex connect_pair(TestNode& from, TestNode& to, Nanos now = Nanos(1)) {
  const size_t before = from.listener.up.size();
  from.endpoint->connect(to.endpoint->socket_name(), to.id, now).value();
  const uint64_t open_before = to.endpoint->counters().inbound_open.value();
  run_until({from.endpoint.get(), to.endpoint.get()}, now, [&] {
    return from.listener.up.size() > before &&
           to.endpoint->counters().inbound_open.value() > open_before;
  });
  return from.listener.up.back();
}

/// One request with its pieces.
struct TestRequest {
  std::vector<LocalPiece> pieces;
  WorkRequest request{};
};

inline WorkRequest make_request(OpKind kind,
                                PeerIndex peer,
                                RegionIndex region,
                                uint64_t offset,
                                const std::vector<LocalPiece>& pieces,
                                uint64_t cookie_id = 1) {
  WorkRequest request{};
  request.cookie_id = cookie_id;
  request.remote_offset_bytes = offset;
  request.pieces = pieces.data();
  for (const LocalPiece& piece : pieces) {
    request.length_bytes += piece.length_bytes;
  }
  request.peer = peer;
  request.region = region;
  request.piece_count = static_cast<uint16_t>(pieces.size());
  request.kind = kind;
  return request;
}

/// Posts one request and polls until it has completed; kPending if it never does.
inline OpStatus run_one(ShmTransport& transport,
                        const WorkRequest& request,
                        std::vector<ShmEndpoint*> endpoints = {},
                        Nanos now = Nanos(1)) {
  if (transport.post({&request, 1}) != 1) {
    return OpStatus::kPending;
  }
  transport.flush();
  Completion completion{};
  uint32_t count = 0;
  for (int turn = 0; turn < 100000 && count == 0; ++turn) {
    count = transport.poll({&completion, 1});
    transport.check_invariants();
    for (ShmEndpoint* endpoint : endpoints) {
      endpoint->poll_once(now);
    }
  }
  return count == 1 && completion.cookie_id == request.cookie_id ? completion.status
                                                                 : OpStatus::kPending;
}

inline OpStatus read_one(ShmTransport& transport,
                         PeerIndex peer,
                         RegionIndex region,
                         uint64_t offset,
                         const std::vector<LocalPiece>& pieces) {
  return run_one(transport, make_request(OpKind::kRead, peer, region, offset, pieces));
}

}  // namespace peercache::testing
