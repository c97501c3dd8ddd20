#include "dataplane/transport/sim/sim_fabric.h"

#include <algorithm>

#include "dataplane/transport/sim/sim_transport.h"

namespace peercache {

SimFabric::SimFabric(SimFabricOptions options)
    : options_(options),
      random_(options.seed),
      links_(size_t{options.nodes_max_count} * options.transports_max_count) {
  nodes_.reserve(options.nodes_max_count);
  transports_.reserve(options.transports_max_count);
}

SimFabric::~SimFabric() {
  for (const SimTransport* transport : transports_) {
    PC_ASSERT(transport == nullptr, transport);  // transports go before their fabric
  }
}

Result<SimNode> SimFabric::add_node(std::span<const SimRegion> regions) {
  if (nodes_.size() == options_.nodes_max_count) {
    return make_error(Errc::kTooManyPeers, "sim: more than {} nodes", options_.nodes_max_count);
  }
  if (regions.size() > limits::kRegionsPerNodeMax) {
    return make_error(Errc::kTooManyRegions, "sim: {} regions of at most {}", regions.size(),
                      limits::kRegionsPerNodeMax);
  }
  auto node = std::make_unique<Node>();
  for (const SimRegion& region : regions) {
    const uint16_t index = region.descriptor.region.value();
    if (index >= limits::kRegionsPerNodeMax) {
      return make_error(Errc::kNoSuchRegion, "sim: region {} of at most {}", index,
                        limits::kRegionsPerNodeMax);
    }
    if (node->regions[index].memory != nullptr) {
      return make_error(Errc::kAlreadyExists, "sim: region {} twice", index);
    }
    node->regions[index] = region;
  }
  nodes_.push_back(std::move(node));
  return SimNode(narrow<uint16_t>(nodes_.size() - 1));
}

void SimFabric::set_faults(const SimFaults& faults) {
  default_faults_ = faults;
  std::fill(links_.begin(), links_.end(), faults);
}

void SimFabric::set_rail_faults(const SimTransport& rail, const SimFaults& faults) {
  const auto first = links_.begin() + rail.index_ * static_cast<int64_t>(options_.nodes_max_count);
  std::fill(first, first + options_.nodes_max_count, faults);
}

void SimFabric::set_node_faults(SimNode node, const SimFaults& faults) {
  PC_ASSERT(node.value() < nodes_.size(), node);
  for (size_t i = 0; i < options_.transports_max_count; ++i) {
    links_[i * options_.nodes_max_count + node.value()] = faults;
  }
}

SimFaults& SimFabric::link(const SimTransport& rail, SimNode node) {
  PC_ASSERT(node.value() < nodes_.size(), node);
  return links_[size_t{rail.index_} * options_.nodes_max_count + node.value()];
}

const SimFaults& SimFabric::link(uint16_t transport, SimNode node) const noexcept {
  return links_[size_t{transport} * options_.nodes_max_count + node.value()];
}

void SimFabric::kill(SimNode node) {
  PC_ASSERT(node.value() < nodes_.size(), node);
  nodes_[node.value()]->alive = false;
}

void SimFabric::revive(SimNode node) {
  PC_ASSERT(node.value() < nodes_.size(), node);
  nodes_[node.value()]->alive = true;
}

uint16_t SimFabric::attach(SimTransport& transport, uint32_t events_max_count) {
  transports_.push_back(&transport);
  events_max_count_ += events_max_count;
  heap_.reserve(events_max_count_);
  return narrow<uint16_t>(transports_.size() - 1);
}

void SimFabric::detach(uint16_t transport) noexcept {
  transports_[transport] = nullptr;
  std::erase_if(heap_, [&](const Event& event) { return event.transport == transport; });
  std::make_heap(heap_.begin(), heap_.end(), later);
}

void SimFabric::drop_dead_events(uint16_t transport) noexcept {
  const auto dead = [&](const Event& event) {
    return event.transport == transport && event.kind == EventKind::kOperation &&
           !transports_[transport]->is_in_flight(event.subject, event.posted_before);
  };
  std::erase_if(heap_, dead);
  std::make_heap(heap_.begin(), heap_.end(), later);
}

bool SimFabric::later(const Event& a, const Event& b) noexcept {
  return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.order > b.order;
}

void SimFabric::schedule(int64_t at_ns,
                         EventKind kind,
                         uint16_t transport,
                         uint16_t subject,
                         uint64_t posted_before) noexcept {
  PC_ASSERT(heap_.size() < heap_.capacity(), heap_.size());  // sized in attach, see (S2)
  const int64_t not_before_ns = now().count();               // (S1)
  heap_.push_back(Event{std::max(at_ns, not_before_ns), next_order_++, posted_before, transport,
                        subject, kind});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

std::optional<Nanos> SimFabric::next_event_at() const noexcept {
  return heap_.empty() ? std::nullopt : std::optional(Nanos(heap_.front().at_ns));
}

bool SimFabric::step() noexcept {
  if (heap_.empty()) {
    return false;
  }
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  clock_.set(Nanos(event.at_ns));  // (S1)
  ++events_count_;
  if (hook_ != nullptr) {
    hook_(hook_context_, now());
  }
  SimTransport& transport = *transports_[event.transport];
  if (event.kind == EventKind::kOperation) {
    transport.on_operation(event.subject, event.posted_before);
  } else {
    transport.on_fence(PeerIndex(event.subject), event.posted_before);
  }
  return true;
}

void SimFabric::run_until(Nanos until) noexcept {
  while (!heap_.empty() && heap_.front().at_ns <= until.count()) {
    step();
  }
  clock_.set(std::max(until, now()));
}

bool SimFabric::drive() noexcept {
  const bool stepped = step();
  if (!stepped) {
    run_until(now() + Nanos(static_cast<int64_t>(options_.idle_tick_ns)));
    if (hook_ != nullptr) {
      hook_(hook_context_, now());
    }
  }
  return stepped;
}

void SimFabric::set_hook(Hook hook, void* context) noexcept {
  hook_ = hook;
  hook_context_ = context;
}

void SimFabric::check_invariants() const {
  PC_ASSERT(std::is_heap(heap_.begin(), heap_.end(), later));
  for (const Event& event : heap_) {
    PC_ASSERT(event.at_ns >= now().count(), event.at_ns, now());  // (S1)
  }
  for (const SimTransport* transport : transports_) {
    if (transport != nullptr) {
      transport->check_invariants();
    }
  }
}

}  // namespace peercache
