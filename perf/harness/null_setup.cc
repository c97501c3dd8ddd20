#include "perf/harness/null_setup.h"

#include <cstdlib>

#include "dataplane/base/assert.h"
#include "dataplane/rail/make_rail.h"

namespace peercache::perf {
namespace {

constexpr RegionIndex kObjects{1};
constexpr RegionIndex kHeaders{2};

Key128 key_of(uint32_t slot) { return {slot + 1, 7}; }

}  // namespace

NullSetup::NullSetup(bool threaded, uint32_t clients_count, Time time)
    : threaded_(threaded),
      clock_(time == Time::kStill ? still_.clock() : Clock()),
      headers_(kSlots),
      buffer_(kObjectBytes) {
  pieces_.push_back({buffer_.data(), kObjectBytes, LocalKey(0)});
  for (uint32_t i = 0; i < kSlots; ++i) {
    headers_[i].key = key_of(i);
    headers_[i].generation = Generation(1);
    headers_[i].state = SlotState::kPublished;
    headers_[i].length_bytes = kObjectBytes;
    headers_[i].offset_bytes = uint64_t{i} * kObjectBytes;
  }
  PeerInfo info;
  info.node = NodeId(1);
  info.region_count = 2;
  info.regions[0] = {.length_bytes = uint64_t{kSlots} * kObjectBytes,
                     .remote_key_id = 0,
                     .remote_address_id = 0,
                     .region = kObjects,
                     .kind = RegionKind::kPublished,
                     .headers_region = kHeaders,
                     .padding_id = 0,
                     .granule_bytes = kObjectBytes,
                     .padding2_id = 0};
  info.regions[1] = {.length_bytes = kSlots * sizeof(SlotHeader),
                     .remote_key_id = 0,
                     .remote_address_id = 0,
                     .region = kHeaders,
                     .kind = RegionKind::kHeaders,
                     .headers_region = RegionIndex(0),
                     .padding_id = 0,
                     .granule_bytes = 0,
                     .padding2_id = 0};
  peer_ = peers_.add(info).value();
  peers_.set_state(peer_, PeerState::kUp);

  auto transport = NullTransport::open({}).value();
  const std::vector<NullRegion> regions{
      {info.regions[0], nullptr}, {info.regions[1], reinterpret_cast<std::byte*>(headers_.data())}};
  PC_ASSERT(transport->add_peer(peer_, regions).has_value());
  auto rail = make_rail(RailOptions{}, std::move(transport)).value();
  rail_ = rail.get();
  PC_ASSERT(rail_->proxy().connect_peer(peer_, {}).has_value());
  if (threaded_) {
    AgentOptions agent;
    agent.idle.policy = IdlePolicy::kSpin;
    PC_ASSERT(rail_->start(agent).has_value());
  }
  EngineRails rails;
  rails.shared.push_back(std::move(rail));
  EngineOptions options;
  options.client_count = clients_count;
  engine_ = Engine::open(options, std::move(rails), peers_, clock_).value();
  for (uint32_t i = 0; i < clients_count; ++i) {
    clients_.push_back(engine_->lease(clock_.now()).value());
  }
  // The connect command has been taken once an operation gets through.
  run_batch(*clients_[0], make_batch(0, 1, Validation::kNone));
}

NullSetup::~NullSetup() {
  for (Client* client : clients_) engine_->give_back(*client);
  if (threaded_) PC_ASSERT(rail_->stop(std::chrono::seconds(1)).has_value());
}

std::vector<Op> NullSetup::make_batch(uint32_t first, uint32_t count, Validation validation) const {
  std::vector<Op> batch(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t slot = (first + i * 7) % kSlots;
    Op& op = batch[i];
    op.validation = validation;
    op.peer = peer_;
    op.pieces = pieces_;
    op.target.key = key_of(slot);
    op.target.node = NodeId(1);
    op.target.offset_bytes = uint64_t{slot} * kObjectBytes;
    op.target.slot = SlotIndex(slot);
    op.target.generation = Generation(1);
    op.target.length_bytes = kObjectBytes;
    op.target.region = kObjects;
    seal(op.target);
  }
  return batch;
}

void NullSetup::run_batch(Client& client, const std::vector<Op>& batch) {
  Result<Ticket> ticket = client.submit(batch, clock_.now() + std::chrono::seconds(10));
  PC_ASSERT(ticket.has_value());
  for (;;) {
    if (!threaded_) static_cast<void>(rail_->poll_once(clock_.now()));
    static_cast<void>(client.poll());
    const Result<BatchResult> result = client.result(*ticket);
    if (!result->done) continue;
    PC_ASSERT(result->ok_count == batch.size(), result->ok_count, result->failed_count);
    client.release(*ticket);
    return;
  }
}

}  // namespace peercache::perf
