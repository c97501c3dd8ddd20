#include "perf/harness/shm_setup.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "dataplane/rail/make_rail.h"
#include "dataplane/transport/shm/shm_transport.h"

namespace peercache::perf {
namespace {

constexpr uint32_t kGranuleBytes = 4096;
constexpr Bytes kHeadroom{256ULL << 20};

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "benchmark: %s\n", to_string(result.error()).c_str());
    std::exit(1);
  }
  return std::move(*result);
}

Hello hello_of(uint64_t node) {
  Hello hello;
  hello.directory_replicas_count = 1;
  hello.vnodes_count = 1;
  hello.member_ttl_ms = 6000;
  hello.node = NodeId(node);
  hello.incarnation = Incarnation(1);
  hello.inflight_max_count = limits::kInflightPerRail;
  hello.node_name = "perf-" + std::to_string(node);
  hello.cluster_name = "perf";
  hello.host_id = "perf";
  return hello;
}

}  // namespace

Key128 shm_key(uint64_t i) { return hash_key("perf", std::to_string(i), ""); }

class ShmSetup::Owner final : public ShmListener {
  Result<PeerIndex> on_peer_up(uint64_t, const Hello&, const ShmPeerMapping&) override {
    return make_error(Errc::kUnsupported, "the owner connects to nobody");
  }
  void on_peer_refused(uint64_t, const Error&, const std::string&) override {}
  void on_peer_down(PeerIndex) override {}
};

class ShmSetup::Reader final : public ShmListener {
 public:
  explicit Reader(ShmSetup& setup) : setup_(setup) {}
  bool up = false;

 private:
  Result<PeerIndex> on_peer_up(uint64_t, const Hello& hello, const ShmPeerMapping&) override {
    PeerInfo info;
    info.node = hello.node;
    info.incarnation = hello.incarnation;
    for (const RegionDescriptor& region : hello.regions) info.regions[info.region_count++] = region;
    setup_.peer_ = must(setup_.peers_.add(info));
    setup_.peers_.set_state(setup_.peer_, PeerState::kUp);
    up = true;
    return setup_.peer_;
  }
  void on_peer_refused(uint64_t, const Error& error, const std::string& reason) override {
    std::fprintf(stderr, "benchmark: %s %s\n", to_string(error).c_str(), reason.c_str());
    std::exit(1);
  }
  void on_peer_down(PeerIndex) override {}

  ShmSetup& setup_;
};

ShmSetup::ShmSetup(const Shape& shape)
    : object_bytes_(shape.object_bytes),
      objects_count_(narrow<uint32_t>(shape.region_bytes / shape.object_bytes)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "pc-perf-XXXXXX").string();
  directory_ = mkdtemp(pattern.data());
  objects_ = must(ShmSegment::create(Bytes(shape.region_bytes), HugePageMode::kAuto, kHeadroom));
  std::memset(objects_->data(), 0x5a, objects_->length().value());
  const uint64_t header_count = objects_->length().value() / kGranuleBytes;
  headers_ = must(
      ShmSegment::create(Bytes(header_count * sizeof(SlotHeader)), HugePageMode::kOff, kHeadroom));
  auto* headers = reinterpret_cast<SlotHeader*>(headers_->data());
  for (uint32_t i = 0; i < objects_count_; ++i) {
    const Location at = location(i);
    SlotHeader& header = headers[at.slot.value()];
    header.key = at.key;
    header.generation = at.generation;
    header.state = SlotState::kPublished;
    header.length_bytes = at.length_bytes;
    header.offset_bytes = at.offset_bytes;
  }
  std::vector<MemorySpec> regions;
  regions.push_back({.base = objects_->data(), .length = objects_->length(),
                     .kind = RegionKind::kPublished, .region = kShmObjects,
                     .headers_region = kShmHeaders, .granule_bytes = kGranuleBytes,
                     .fd = objects_->fd()});
  regions.push_back({.base = headers_->data(), .length = headers_->length(),
                     .kind = RegionKind::kHeaders, .region = kShmHeaders, .headers_region = {},
                     .granule_bytes = 0, .fd = headers_->fd()});
  if (shape.records_count > 0) {
    const uint64_t buckets = shape.records_count * 10 / 6 / 4 + 1;  // load 0.6
    table_ = must(ShmSegment::create(Bytes(buckets * sizeof(Bucket)), HugePageMode::kOff, kHeadroom));
    BucketTable table = must(BucketTable::open(table_->data(), table_->length()));
    for (uint64_t i = 0; i < shape.records_count; ++i) {
      Location record = location(static_cast<uint32_t>(i % objects_count_));
      record.key = shm_key(i);
      record.sequence = Sequence(i + 1);
      seal(record);
      table.insert(record);
    }
    regions.push_back({.base = table_->data(), .length = table_->length(),
                       .kind = RegionKind::kDirectory, .region = kShmTable, .headers_region = {},
                       .granule_bytes = 0, .fd = table_->fd()});
  }
  ShmOptions options;
  options.runtime_dir = directory_;
  owner_listener_ = std::make_unique<Owner>();
  reader_listener_ = std::make_unique<Reader>(*this);
  owner_ = must(ShmEndpoint::open(options, hello_of(1), regions, *owner_listener_));
  reader_ = must(ShmEndpoint::open(options, hello_of(2), {}, *reader_listener_));
  must(Result<bool>(reader_->connect(owner_->socket_name(), 1, clock_.now()).has_value()));
  while (!reader_listener_->up || reader_->next_due(clock_.now()) <= clock_.now()) {
    owner_->poll_once(clock_.now());
    reader_->poll_once(clock_.now());
  }
  EngineRails rails;
  rails.of_client.resize(1);
  rails.of_client[0].push_back(
      must(make_rail(RailOptions{}, must(ShmTransport::open(*reader_, nullptr)))));
  EngineOptions engine_options;
  engine_options.client_count = 1;
  engine_ = must(Engine::open(engine_options, std::move(rails), peers_, clock_));
  client_ = must(engine_->lease(clock_.now()));
}

ShmSetup::~ShmSetup() {
  engine_->give_back(*client_);
  engine_.reset();
  reader_.reset();
  owner_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

const std::byte* ShmSetup::object(uint32_t i) const {
  return objects_->data() + uint64_t{i} * object_bytes_;
}

Location ShmSetup::location(uint32_t i) const {
  Location location{};
  location.key = shm_key(i);
  location.node = NodeId(1);
  location.offset_bytes = uint64_t{i} * object_bytes_;
  location.sequence = Sequence(uint64_t{i} + 1);
  location.slot = SlotIndex(narrow<uint32_t>(location.offset_bytes / kGranuleBytes));
  location.generation = Generation(1);
  location.length_bytes = object_bytes_;
  location.incarnation = Incarnation(1);
  location.region = kShmObjects;
  seal(location);
  return location;
}

void ShmSetup::run(std::span<const Op> ops) {
  const Ticket ticket = must(client_->submit(ops, clock_.now() + std::chrono::seconds(30)));
  const BatchResult result = must(client_->wait(ticket, clock_.now() + std::chrono::seconds(30)));
  if (result.ok_count != ops.size()) {
    std::fprintf(stderr, "benchmark: %u of %zu operations ended well\n", result.ok_count, ops.size());
    std::exit(1);
  }
  client_->release(ticket);
}

}  // namespace peercache::perf
