// How a node is put together: names, memory, regions, pool, rails, clients, conductor.

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sys/random.h>
#include <unistd.h>

#include "controlplane/node/node_state.h"
#include "dataplane/base/log.h"
#include "dataplane/rail/make_rail.h"
#include "dataplane/transport/shm/shm_transport.h"

namespace peercache {
namespace {

// A page of a serving engine is 0.6 to 16 MiB; hybrid models have smaller ones beside. A shard sized for objects of this
// size overflows (visibly) only when a pool holds mostly smaller ones.
constexpr uint64_t kObjectBytesAssumed = 64 << 10;

constexpr uint32_t kConductorClients = 1;

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string host_name() {
  std::array<char, 256> name{};
  static_cast<void>(gethostname(name.data(), name.size() - 1));
  return name.data();
}

HugePageMode huge_page_mode(HugePages wanted) {
  switch (wanted) {
    case HugePages::kAuto:
      return HugePageMode::kAuto;
    case HugePages::kOff:
      return HugePageMode::kOff;
    case HugePages::kRequired:
      return HugePageMode::kRequired;
  }
  PC_UNREACHABLE();
}

VerifyReads verify_reads(VerifyMode mode) {
  switch (mode) {
    case VerifyMode::kOff:
      return VerifyReads::kOff;
    case VerifyMode::kSampled:
      return VerifyReads::kSampled;
    case VerifyMode::kFull:
      return VerifyReads::kFull;
  }
  PC_UNREACHABLE();
}

}  // namespace

Result<std::unique_ptr<Node>> Node::open(const NodeOptions& options, bool (*interrupted)()) {
  if (options.shm == ShmMode::kOff && options.members.size() > 1) {
    return make_error(
        Errc::kNotBuiltYet,
        "shm is off and no other transport is built yet: {} members cannot be reached",
        options.members.size() - 1);
  }
  auto state = std::make_unique<State>(options);
  PC_TRY(state->name());
  PC_TRY_ASSIGN(state->conductor,
                Conductor::open(state->options, state->identity, *state->peers, state->routes));
  PC_TRY(state->take_memory());
  PC_TRY(state->connect_parts());
  PC_TRY(state->open_engine());
  PC_TRY(state->open_runners());
  PC_TRY(state->wait_for_members(interrupted));
  return std::unique_ptr<Node>(new Node(std::move(state)));
}

Result<void> Node::State::name() {
  uint32_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    return make_system_error(Errc::kSystem, errno, "no random number for the incarnation");
  }
  identity.incarnation = Incarnation(random);
  identity.node_name = options.node_id;
  if (identity.node_name.empty()) {
    identity.node_name =
        host_name() + "-" + std::to_string(getpid()) + "-" + std::to_string(random % 100000);
  }
  identity.node = NodeId(hash_bytes64(identity.node_name.data(), identity.node_name.size()) | 1);
  identity.host_id = options.host_id.empty() ? boot_id() : options.host_id;
  identity.cluster_name = options.cluster_name;
  return {};
}

Result<void> Node::State::take_memory() {
  const HugePageMode mode = huge_page_mode(options.huge_pages);
  const Bytes headroom(options.memory_headroom_bytes);
  const Bytes wanted = round_up(Bytes(options.pool_bytes), Bytes(options.granule_bytes));
  PC_TRY_ASSIGN(pool_segment, ShmSegment::create(wanted, mode, headroom));
  const uint64_t header_count = pool_segment->length().value() / options.granule_bytes;
  PC_TRY_ASSIGN(headers_segment, ShmSegment::create(Bytes(header_count * sizeof(SlotHeader)),
                                                    HugePageMode::kOff, headroom));
  if (conductor->holds_shard()) {
    const uint64_t members_count = std::max<uint64_t>(options.members.size(), 1);
    uint64_t objects_count = options.directory_objects_max;
    if (objects_count == 0) {
      const uint64_t object_bytes = std::max<uint64_t>(kObjectBytesAssumed, options.granule_bytes);
      objects_count =
          options.pool_bytes / object_bytes * members_count / conductor->holder_count() + 1;
    }
    PC_TRY_ASSIGN(
        directory_segment,
        ShmSegment::create(DirectoryShard::bytes_for(objects_count, options.directory_replicas),
                           HugePageMode::kOff, headroom));
  }
  return {};
}

Result<void> Node::State::connect_parts() {
  ShmOptions shm;
  shm.runtime_dir = options.runtime_dir;
  shm.connect_timeout_ms = options.connect_timeout_ms;
  Hello hello;
  hello.directory_replicas_count = narrow<uint16_t>(options.directory_replicas);
  hello.vnodes_count = options.vnodes;
  hello.member_ttl_ms = options.member_ttl_ms;
  hello.node = identity.node;
  hello.incarnation = identity.incarnation;
  hello.node_name = identity.node_name;
  hello.cluster_name = identity.cluster_name;
  hello.host_id = identity.host_id;
  hello.inflight_max_count = limits::kInflightPerRail;
  std::vector<MemorySpec> regions;
  regions.push_back({.base = pool_segment->data(),
                     .length = pool_segment->length(),
                     .kind = RegionKind::kPublished,
                     .region = kPoolRegion,
                     .headers_region = kHeadersRegion,
                     .granule_bytes = options.granule_bytes,
                     .fd = pool_segment->fd()});
  regions.push_back({.base = headers_segment->data(),
                     .length = headers_segment->length(),
                     .kind = RegionKind::kHeaders,
                     .region = kHeadersRegion,
                     .fd = headers_segment->fd()});
  if (directory_segment != nullptr) {
    regions.push_back({.base = directory_segment->data(),
                       .length = directory_segment->length(),
                       .kind = RegionKind::kDirectory,
                       .region = kDirectoryRegion,
                       .fd = directory_segment->fd()});
  }
  PC_TRY_ASSIGN(endpoint, ShmEndpoint::open(shm, hello, regions, *conductor));
  PeerInfo info;
  info.node = identity.node;
  info.incarnation = identity.incarnation;
  for (const RegionDescriptor& region : endpoint->hello().regions) {
    info.regions[info.region_count++] = region;
  }
  PC_TRY_ASSIGN(self, peers->add(info));
  peers->set_state(self, PeerState::kUp);
  endpoint->map_self(self);

  PoolOptions pool_options;
  pool_options.granule_bytes = options.granule_bytes;
  pool_options.client_count = options.client_count + kConductorClients;
  pool_options.node = identity.node;
  pool_options.incarnation = identity.incarnation;
  PoolMemory memory;
  memory.bytes = pool_segment->data();
  memory.length = pool_segment->length();
  memory.headers = reinterpret_cast<SlotHeader*>(headers_segment->data());
  memory.header_count = memory.length.value() / options.granule_bytes;
  memory.region = kPoolRegion;
  PC_TRY_ASSIGN(pool, PublishedPool::open(pool_options, memory, conductor->pool_listener(), clock));
  return {};
}

Result<void> Node::State::open_engine() {
  EngineOptions engine_options;
  engine_options.client_count = options.client_count;
  engine_options.verify = verify_reads(options.verify);
  engine_options.verify_sample_reads_count = options.verify_sample_reads;
  EngineRails rails;
  RailOptions rail_options;
  rail_options.operation_timeout_ms = options.operation_timeout_ms;
  for (uint32_t i = 0; i < options.client_count; ++i) {
    // No event: WRITEs, whose completions would need one, are not part of a call.
    PC_TRY_ASSIGN(auto transport, ShmTransport::open(*endpoint, nullptr));
    PC_TRY_ASSIGN(auto rail, make_rail(rail_options, std::move(transport)));
    rails.of_client.emplace_back();
    rails.of_client.back().push_back(std::move(rail));
  }
  PC_TRY_ASSIGN(engine, Engine::open(engine_options, std::move(rails), *peers, clock));
  return {};
}

Result<void> Node::State::open_runners() {
  PC_TRY_ASSIGN(conductor_client,
                pool->attach_client(ClientIndex(narrow<uint16_t>(options.client_count))));
  Conductor::Attachments parts;
  parts.endpoint = endpoint.get();
  parts.pool = pool.get();
  parts.pool_client = conductor_client;
  parts.self = self;
  parts.directory_region = kDirectoryRegion;
  if (directory_segment != nullptr) {
    parts.directory_memory = directory_segment->data();
    parts.directory_length = directory_segment->length();
  }
  shared = std::make_unique<CallShared>(CallShared{.options = options,
                                                   .clock = clock,
                                                   .pool = *pool,
                                                   .peers = *peers,
                                                   .routes = routes,
                                                   .primed = primed,
                                                   .sequences = sequences,
                                                   .conductor = *conductor,
                                                   .self = self,
                                                   .node = identity.node,
                                                   .incarnation = identity.incarnation});
  runners.resize(options.client_count);
  for (uint32_t i = 0; i < options.client_count; ++i) {
    // All clients are free now, and each is leased once.
    PC_TRY_ASSIGN(Client * client, engine->lease(clock.now()));
    const ClientIndex index = client->index();
    PC_TRY_ASSIGN(PoolClient * pool_client, pool->attach_client(index));
    PC_TRY_ASSIGN(runners[index.value()], CallRunner::open(*shared, *client, *pool_client));
  }
  for (const auto& runner : runners) {
    parts.notices.push_back(&runner->notices());
    engine->give_back(runner->client());
  }
  PC_TRY(conductor->attach(parts));
  return conductor->start();
}

Result<void> Node::State::wait_for_members(bool (*interrupted)()) {
  const Nanos until = clock.now() + std::chrono::milliseconds(options.start_timeout_ms);
  while (!conductor->ready() && clock.now() < until) {
    if (interrupted != nullptr && interrupted()) {
      return make_error(Errc::kClosed, "start was interrupted while waiting for {} members",
                        options.members.size());
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(5));  // start-up: nothing signals readiness but time
  }
  if (!conductor->ready()) {
    const ConductorStats stats = conductor->stats();
    PC_LOG_WARN(
        "{} of {} members up after {} ms: going on without the others, and looking for them",
        stats.members_up_count, stats.members_count, options.start_timeout_ms);
  }
  return {};
}

}  // namespace peercache
