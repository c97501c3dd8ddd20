#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/transport/shm/shm_frame.h"
#include "dataplane/transport/shm/shm_socket.h"
#include "tests/dataplane/transport/shm_test_node.h"
#include "tests/support/temp_dir.h"

namespace peercache::testing {

inline constexpr Nanos kNow{1'000'000'000};

inline TestNodeOptions in(const TempDir& temp, uint64_t id) {
  TestNodeOptions options;
  options.id = id;
  options.shm.runtime_dir = temp.path();
  return options;
}

inline Hello hello_of(uint64_t id, const std::vector<RegionDescriptor>& regions = {}) {
  Hello hello;
  hello.node = NodeId(id);
  hello.incarnation = Incarnation(1);
  hello.node_name = "raw";
  hello.cluster_name = "test";
  hello.inflight_max_count = 1;
  hello.regions = regions;
  return hello;
}

inline std::vector<std::byte> hello_frame(const Hello& hello) {
  std::vector<std::byte> bytes;
  append_shm_frame(bytes, ShmFrameKind::kHello, 0, encode_hello(hello));
  return bytes;
}

// The other end of a connection, driven by hand.
struct Raw {
  explicit Raw(UniqueFd socket) : fd(std::move(socket)) {}

  void send(std::span<const std::byte> bytes, std::span<const int> with = {}) {
    REQUIRE(send_some(fd.get(), bytes, with).bytes == bytes.size());
  }
  // What has arrived; `ended` when the endpoint has closed.
  void receive() {
    std::vector<std::byte> room(1 << 16);
    bool lost = false;
    for (;;) {
      const IoResult result = receive_some(fd.get(), room, fds, lost);
      if (result.outcome == IoOutcome::kBlocked) {
        return;
      }
      if (result.outcome == IoOutcome::kEnded) {
        ended = true;
        return;
      }
      in.insert(in.end(), room.begin(), room.begin() + static_cast<long>(result.bytes));
    }
  }
  // The reason, if the last frame is a refusal.
  std::string refusal() {
    std::span<const std::byte> rest(in);
    std::string reason;
    size_t need = 0;
    while (!rest.empty()) {
      const auto frame = std::move(parse_shm_frame(rest, need)).value();
      if (!frame) {
        break;
      }
      reason = frame->header.kind == ShmFrameKind::kRefused ? parse_refusal(*frame) : "";
      rest = rest.subspan(frame->frame_bytes);
    }
    return reason;
  }

  UniqueFd fd;
  std::vector<std::byte> in;
  std::deque<UniqueFd> fds;
  bool ended = false;
};

inline Raw connect_raw(const TestNode& node) {
  return Raw(std::move(connect_unix(node.endpoint->socket_path())).value());
}

inline bool until_ended(TestNode& node, Raw& raw, Nanos now = kNow) {
  return run_until({node.endpoint.get()}, now, [&] {
    raw.receive();
    return raw.ended;
  });
}

}  // namespace peercache::testing
