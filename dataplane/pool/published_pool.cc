#include "dataplane/pool/published_pool.h"

#include <algorithm>

#include "dataplane/base/assert.h"
#include "dataplane/pool/published_pool_state.h"

namespace peercache {

namespace {

constexpr uint32_t kGranuleBytesMin = 64;
constexpr uint32_t kGranuleBytesMax = 1U << 20U;

// Extents of a pool when nobody says otherwise: few enough that a search over them costs nothing,
// many enough that classes divide a region well.
constexpr uint64_t kExtentsWanted = 64;

// Records per bucket of the index at which an overflow of both buckets is rare even if every
// granule is an object.
constexpr double kIndexLoad = 0.6;

uint64_t granule_count_of(const PoolOptions& options, const PoolMemory& memory) {
  return memory.length.value() / options.granule_bytes;
}

Result<void> check(const PoolOptions& options, const PoolMemory& memory) {
  if (!limits::is_power_of_two(options.granule_bytes) || options.granule_bytes < kGranuleBytesMin ||
      options.granule_bytes > kGranuleBytesMax) {
    return make_error(Errc::kInvalidArgument,
                      "granule_bytes is {}; a power of two from {} to {} is wanted",
                      options.granule_bytes, kGranuleBytesMin, kGranuleBytesMax);
  }
  if (options.client_count == 0 || options.client_count > limits::kClientsMax) {
    return make_error(Errc::kInvalidArgument, "client_count is {}; 1 to {} is wanted",
                      options.client_count, limits::kClientsMax);
  }
  if (options.refill_max_count == 0 || options.refill_max_count > limits::kOpsPerClient / 2) {
    return make_error(Errc::kInvalidArgument, "refill_max_count is {}; 1 to {} is wanted",
                      options.refill_max_count, limits::kOpsPerClient / 2);
  }
  if (memory.bytes == nullptr || memory.headers == nullptr) {
    return make_error(Errc::kInvalidArgument, "pool without memory: bytes at {}, headers at {}",
                      memory.bytes, memory.headers);
  }
  const uint64_t granule_count = granule_count_of(options, memory);
  if (granule_count == 0) {
    return make_error(Errc::kPoolTooSmall,
                      "pool of {} bytes is smaller than one granule of {} bytes", memory.length,
                      options.granule_bytes);
  }
  if (granule_count >= UINT32_MAX / 4) {
    return make_error(Errc::kInvalidArgument,
                      "pool of {} bytes has {} granules of {} bytes; below {} are wanted",
                      memory.length, granule_count, options.granule_bytes, UINT32_MAX / 4);
  }
  if (memory.header_count < granule_count) {
    return make_error(Errc::kInvalidArgument,
                      "pool of {} bytes needs {} slot headers, {} were given", memory.length,
                      granule_count, memory.header_count);
  }
  return {};
}

}  // namespace

PublishedPool::State::State(const PoolOptions& pool_options,
                            const PoolMemory& pool_memory,
                            PoolListener* pool_listener)
    : options(pool_options),
      memory(pool_memory),
      listener(pool_listener),
      classes(options.granule_bytes, granule_count_of(options, memory) * options.granule_bytes),
      space(classes,
            memory.headers,
            granule_count_of(options, memory),
            options.extent_bytes != 0 ? options.extent_bytes
                                      : memory.length.value() / kExtentsWanted) {}

Result<void> PublishedPool::State::open() {
  const RoleScope role(agent);
  const uint64_t granule_count = space.granule_count();
  PC_TRY(space.open());
  PC_TRY(policy.open(granule_count));
  const auto bucket_count =
      static_cast<uint64_t>(static_cast<double>(granule_count) / kIndexLoad / 4) + 1;
  PC_TRY(index_memory.open(bucket_count));
  PC_TRY_ASSIGN(BucketTable table,
                BucketTable::open(reinterpret_cast<std::byte*>(index_memory.data()),
                                  Bytes(bucket_count * sizeof(Bucket))));
  index.emplace(table);
  return {};
}

Result<SizeClassIndex> PublishedPool::State::ensure_class(uint32_t length_bytes) {
  const MutexLock lock(setup);
  PC_TRY_ASSIGN(const SizeClassIndex size_class, classes.ensure(length_bytes));
  for (const std::unique_ptr<Shared>& shared : client_owners) {
    if (shared != nullptr) {
      add_ring(*shared, size_class.value());
    }
  }
  return size_class;
}

Result<PoolClient*> PublishedPool::State::attach_client(ClientIndex client) {
  const MutexLock lock(setup);
  const size_t i = client.value();
  if (i >= options.client_count) {
    return make_error(Errc::kOutOfRange, "client {} of a pool with client_count {}", client,
                      options.client_count);
  }
  if (handles[i] == nullptr) {
    PC_TRY_ASSIGN(std::unique_ptr<WakeEvent> event, WakeEvent::open());
    client_owners[i] = std::make_unique<Shared>(memory, options, agent_event, std::move(event));
    handles[i] = std::unique_ptr<PoolClient>(new PoolClient(client_owners[i].get()));
    for (uint32_t class_value = 0; class_value < classes.count(); ++class_value) {
      add_ring(*client_owners[i], class_value);
    }
    // P6 release: meets P5 in for_each_client(); the client is complete.
    clients[i].store(client_owners[i].get(), std::memory_order_release);
  }
  return handles[i].get();
}

void PublishedPool::State::add_ring(Shared& shared, uint32_t class_value) {
  ClassSupply& supply = shared.supplies[class_value];
  if (supply.ring_owner == nullptr) {
    supply.ring_owner = std::make_unique<GrantRing>(options.refill_max_count);
    // P4 release: meets P3 in Shared::ring(); the ring is complete.
    supply.ring.store(supply.ring_owner.get(), std::memory_order_release);
  }
}

PublishedPool::PublishedPool(std::unique_ptr<State> state) : state_(std::move(state)) {}
PublishedPool::~PublishedPool() = default;

Result<std::unique_ptr<PublishedPool>> PublishedPool::open(const PoolOptions& options,
                                                           const PoolMemory& memory,
                                                           PoolListener* listener,
                                                           const Clock& /*clock*/) {
  PC_ASSERT(listener != nullptr);
  PC_TRY(check(options, memory));
  auto state = std::make_unique<State>(options, memory, listener);
  PC_TRY(state->open());
  return std::unique_ptr<PublishedPool>(new PublishedPool(std::move(state)));
}

int PublishedPool::poll_once(Nanos now) {
  State& state = *state_;
  const RoleScope role(state.agent);
  ++state.turn_count;
  int work = 0;
  state.for_each_client([&](State::Shared& shared) PC_NO_THREAD_ANALYSIS {
    if (const int drained_count = state.drain(shared); drained_count > 0) {
      work += drained_count;
      shared.event
          ->wake_if_sleeping();  // it may wait for room in its ring, or for its messages' effect
    }
  });
  return work + state.refill(now);
}

Result<SizeClassIndex> PublishedPool::ensure_class(uint32_t length_bytes) {
  return state_->ensure_class(length_bytes);
}

Result<PoolClient*> PublishedPool::attach_client(ClientIndex client) {
  return state_->attach_client(client);
}

const BucketTable& PublishedPool::index() const { return *state_->index; }

uint32_t PublishedPool::find_pending(const Key128* keys,
                                     LookupResult* results,
                                     uint32_t key_count) const noexcept {
  return state_->find_pending(keys, results, key_count);
}

void PublishedPool::set_agent_event(WakeEvent* event) {
  // P2 release: meets P1 in PoolClient::Shared::wake_agent(); the event is complete.
  state_->agent_event.store(event, std::memory_order_release);
}

PoolStats PublishedPool::stats() const {
  const State::Counters& counters = state_->counters;
  PoolStats stats;
  stats.objects_count = counters.objects_count.value();
  stats.bytes_used = counters.bytes_used.value();
  stats.bytes_capacity = state_->classes.region_bytes();
  stats.published_count = counters.published_count.value();
  stats.duplicates_count = counters.duplicates_count.value();
  stats.evicted_count = counters.evicted_count.value();
  stats.removed_count = counters.removed_count.value();
  stats.index_dropped_count = counters.index_dropped_count.value();
  stats.refills_count = counters.refills_count.value();
  state_->for_each_client(
      [&](const State::Shared& shared) { stats.starved_count += shared.starved_count.value(); });
  return stats;
}

void PublishedPool::check_invariants() const { state_->check_invariants(); }

void PublishedPool::State::check_invariants() const {
  const RoleScope role(agent);
  space.check_invariants();
  policy.check_invariants();
  index->check_invariants();
  uint64_t bytes_used = 0;
  uint64_t object_count = 0;
  index->for_each([&](const Location& location) PC_NO_THREAD_ANALYSIS {
    const SlotHeader& header = memory.headers[location.slot.value()];
    PC_ASSERT(header.state == SlotState::kPublished && header_proves(header, location),
              location.slot);                                                         // (P1)
    PC_ASSERT(space.holder(location.slot) == SlotHolder::kPublished, location.slot);  // (P2)
    PC_ASSERT(location.length_bytes <= classes.slot_bytes(space.class_of(location.slot)),
              location.slot);
    PC_ASSERT(policy.group_of(location.slot) != kNoGroup, location.slot);
    bytes_used += location.length_bytes;
    ++object_count;
  });
  PC_ASSERT(object_count == counters.objects_count.value(), object_count,
            counters.objects_count.value());
  PC_ASSERT(bytes_used == counters.bytes_used.value(), bytes_used, counters.bytes_used.value());
  uint64_t published_count = 0;
  uint64_t granted_count = 0;
  for (const ExtentIndex extent : space.by_address()) {
    published_count += space.extent(extent).published_count;
    granted_count += space.extent(extent).granted_count;
  }
  PC_ASSERT(published_count == object_count, published_count, object_count);  // (P2)
  uint64_t waiting_count = 0;
  for_each_client([&](const Shared& shared) PC_NO_THREAD_ANALYSIS {
    for (uint8_t i = 0; i < narrow<uint8_t>(classes.count()); ++i) {
      const GrantRing* ring = shared.ring(SizeClassIndex(i));
      if (ring == nullptr) {
        continue;
      }
      ring->test_for_each([&](SlotIndex slot) PC_NO_THREAD_ANALYSIS {
        ++waiting_count;
        PC_ASSERT(space.holder(slot) == SlotHolder::kGranted, slot);  // (P2)
        PC_ASSERT(space.class_of(slot).value() == i, slot, i);        // (P3)
        const SlotState state = memory.headers[slot.value()].state;
        PC_ASSERT(state == SlotState::kFree || state == SlotState::kRetired, slot, state);
      });
    }
  });
  PC_ASSERT(waiting_count <= granted_count, waiting_count, granted_count);
}

}  // namespace peercache
