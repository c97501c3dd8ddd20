#include "dataplane/transport/null/null_transport.h"

#include <algorithm>
#include <array>
#include <vector>

#include <catch2/catch.hpp>

using namespace peercache;

namespace {

struct Device {
  std::vector<std::byte> published = std::vector<std::byte>(8192, std::byte{7});
  std::vector<std::byte> writable = std::vector<std::byte>(8192);
  std::vector<Bucket> directory = std::vector<Bucket>(16);
  std::unique_ptr<NullTransport> transport;
  std::array<std::byte, 4096> buffer{};
  LocalPiece piece{};

  explicit Device(NullOptions options = {}) : transport(NullTransport::open(options).value()) {
    std::array<NullRegion, 3> regions{};
    const auto set = [](NullRegion& out, uint16_t index, RegionKind kind, void* memory,
                        uint64_t bytes) {
      out.descriptor.region = RegionIndex(index);
      out.descriptor.kind = kind;
      out.descriptor.length_bytes = bytes;
      out.memory = static_cast<std::byte*>(memory);
    };
    set(regions[0], 0, RegionKind::kPublished, published.data(), published.size());
    set(regions[1], 3, RegionKind::kWritable, writable.data(), writable.size());
    set(regions[2], 2, RegionKind::kDirectory, directory.data(), directory.size() * sizeof(Bucket));
    transport->add_peer(PeerIndex(1), regions).value();
  }

  WorkRequest request(OpKind kind, uint16_t region, uint64_t offset, uint32_t bytes) {
    piece = LocalPiece{buffer.data(), bytes, LocalKey(0)};
    WorkRequest out{};
    out.cookie_id = ++cookie;
    out.remote_offset_bytes = offset;
    out.pieces = &piece;
    out.length_bytes = bytes;
    out.peer = PeerIndex(1);
    out.region = RegionIndex(region);
    out.piece_count = 1;
    out.kind = kind;
    return out;
  }
  OpStatus run(const WorkRequest& wanted) {
    REQUIRE(transport->post({&wanted, 1}) == 1);
    transport->flush();
    std::array<Completion, 4> done{};
    REQUIRE(transport->poll(done) == 1);
    REQUIRE(done[0].cookie_id == wanted.cookie_id);
    return done[0].status;
  }
  uint64_t cookie = 0;
};

}  // namespace

TEST_CASE("null: small reads are copied, large ones only complete", "[unit]") {
  Device device;
  CHECK(device.run(device.request(OpKind::kRead, 0, 100, 64)) == OpStatus::kOk);
  CHECK(std::count(device.buffer.begin(), device.buffer.end(), std::byte{7}) == 64);
  device.buffer.fill(std::byte{});
  CHECK(device.run(device.request(OpKind::kRead, 0, 0, 4096)) == OpStatus::kOk);
  CHECK(std::count(device.buffer.begin(), device.buffer.end(), std::byte{7}) == 0);
}

TEST_CASE("null: writes copy only if asked to", "[unit]") {
  const bool copies = GENERATE(false, true);
  Device device(NullOptions{.copy_writes = copies});
  device.buffer.fill(std::byte{9});
  CHECK(device.run(device.request(OpKind::kWrite, 3, 50, 1000)) == OpStatus::kOk);
  CHECK(std::count(device.writable.begin(), device.writable.end(), std::byte{9}) ==
        (copies ? 1000 : 0));
}

TEST_CASE("null: lookups really search", "[unit]") {
  Device device;
  Location location{};
  location.key = Key128{.low = 3, .high = 4};
  seal(location);
  device.directory[candidate_buckets(location.key, 16).first_index].records[1] = location;
  const std::array<Key128, 2> keys{Key128{.low = 1, .high = 1}, location.key};
  std::array<LookupResult, 2> results;
  const LookupBatch batch{keys.data(), results.data(), 2};
  WorkRequest request = device.request(OpKind::kLookup, 2, 0, 0);
  request.lookup = &batch;
  CHECK(device.run(request) == OpStatus::kOk);
  CHECK(results[0].count == 0);
  CHECK(results[1].count == 1);
}

TEST_CASE("null: requests outside a region or against its kind are refused", "[unit]") {
  Device device;
  CHECK(device.run(device.request(OpKind::kRead, 0, 8192 - 64, 64)) == OpStatus::kOk);
  CHECK(device.run(device.request(OpKind::kRead, 0, 8192 - 63, 64)) == OpStatus::kOutOfBounds);
  CHECK(device.run(device.request(OpKind::kRead, 0, UINT64_MAX - 10, 64)) ==
        OpStatus::kOutOfBounds);
  CHECK(device.run(device.request(OpKind::kRead, 0, 0, 0)) == OpStatus::kOutOfBounds);
  CHECK(device.run(device.request(OpKind::kRead, 1, 0, 64)) == OpStatus::kOutOfBounds);
  CHECK(device.run(device.request(OpKind::kRead, 64, 0, 64)) == OpStatus::kOutOfBounds);
  CHECK(device.run(device.request(OpKind::kWrite, 0, 0, 64)) == OpStatus::kOutOfBounds);
  CHECK(device.run(device.request(OpKind::kWrite, 2, 0, 64)) == OpStatus::kOutOfBounds);
  CHECK(device.run(device.request(OpKind::kLookup, 0, 0, 0)) == OpStatus::kOutOfBounds);
  WorkRequest unknown = device.request(OpKind::kRead, 0, 0, 64);
  unknown.peer = PeerIndex(5);
  CHECK(device.run(unknown) == OpStatus::kPeerLost);
}

TEST_CASE("null: peers come and go", "[unit]") {
  Device device;
  CHECK(device.transport->add_peer(PeerIndex(1), {}).error().code == Errc::kAlreadyExists);
  CHECK(device.transport->add_peer(PeerIndex(limits::kPeersMax), {}).error().code ==
        Errc::kTooManyPeers);
  device.transport->disconnect(PeerIndex(1));
  CHECK(device.run(device.request(OpKind::kRead, 0, 0, 64)) == OpStatus::kPeerLost);
  CHECK(device.transport->add_peer(PeerIndex(1), {}).has_value());
}

TEST_CASE("null: accepts no more than it can complete", "[unit]") {
  Device device;
  std::vector<WorkRequest> requests(32, device.request(OpKind::kRead, 0, 0, 64));
  uint32_t accepted = 0;
  while (const uint32_t count = device.transport->post(requests)) {
    accepted += count;
  }
  CHECK(accepted == limits::kInflightPerRail);
  std::array<Completion, NullTransport::kPollBatchMax> done;
  uint32_t polled = 0;
  while (const uint32_t count = device.transport->poll(done)) {
    polled += count;
  }
  CHECK(polled == accepted);
}
