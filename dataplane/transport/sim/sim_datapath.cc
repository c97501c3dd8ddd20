#include <algorithm>
#include <cstring>

#include "dataplane/transport/access_check.h"
#include "dataplane/transport/sim/sim_transport.h"

namespace peercache {

namespace {

constexpr uint64_t kNanosPerSecond = 1'000'000'000;

uint64_t scaled(uint64_t time_ns, uint32_t slow_percent) noexcept {
  return time_ns * slow_percent / 100;
}

/// Copies [begin, end) of an object between its contiguous remote bytes and its local pieces.
void copy_range(const WorkRequest& request,
                std::byte* remote,
                uint64_t begin,
                uint64_t end,
                bool to_local) noexcept {
  uint64_t piece_begin = 0;
  for (uint16_t i = 0; i < request.piece_count && piece_begin < end; ++i) {
    const LocalPiece& piece = request.pieces[i];
    const uint64_t piece_end = piece_begin + piece.length_bytes;
    const uint64_t from = std::max(begin, piece_begin);
    const uint64_t to = std::min(end, piece_end);
    if (from < to) {
      std::byte* local = piece.address + (from - piece_begin);
      if (to_local) {
        std::memcpy(local, remote + from, to - from);
      } else {
        std::memcpy(remote + from, local, to - from);
      }
    }
    piece_begin = piece_end;
  }
}

/// Where chunk `index` of `count` begins. Memory is read by words at least, by cache lines where
/// chunks are larger.
uint64_t chunk_begin(uint64_t total, uint32_t index, uint32_t count) noexcept {
  if (index == count) {
    return total;
  }
  const uint64_t unit = total >= 64 * uint64_t{count} ? 64 : 8;
  return total * index / count / unit * unit;
}

}  // namespace

uint32_t SimTransport::post(std::span<const WorkRequest> requests) noexcept {
  uint32_t accepted_count = 0;
  while (accepted_count < requests.size() &&
         in_flight_count_ + completed_count_ < options_.depth_count) {
    start(requests[accepted_count++]);
  }
  return accepted_count;
}

OpStatus SimTransport::judge(const WorkRequest& request) const noexcept {
  const uint16_t node = node_of_[request.peer.value()];
  if (node == kNoNode || !fabric_.nodes_[node]->alive) {
    return OpStatus::kPeerLost;
  }
  if (request.region.value() >= limits::kRegionsPerNodeMax) {
    return OpStatus::kOutOfBounds;
  }
  return check_access(fabric_.nodes_[node]->regions[request.region.value()].descriptor, request);
}

void SimTransport::start(const WorkRequest& request) noexcept {
  PC_ASSERT(request.peer.value() < limits::kPeersMax, request.peer);
  const uint16_t slot = free_.back();
  free_.pop_back();
  ++in_flight_count_;
  Operation& operation = operations_[slot];
  operation = Operation{};
  operation.request = request;
  operation.posting = next_posting_++;
  operation.in_flight = true;
  operation.outcome = judge(request);
  const uint16_t node = node_of_[request.peer.value()];
  if (node == kNoNode) {
    operation.complete_ns = fabric_.now().count();
  } else {
    const SimFaults& faults = fabric_.link(index_, SimNode(node));
    plan_times(operation, faults);
    if (operation.outcome == OpStatus::kOk) {
      plan_chunks(operation, faults);
    }
  }
  schedule_next(slot);
}

void SimTransport::plan_times(Operation& operation, const SimFaults& faults) noexcept {
  SimRandom& random = fabric_.random_;
  const int64_t now_ns = fabric_.now().count();
  const uint64_t latency_ns =
      scaled(faults.latency_ns + random.below(faults.jitter_ns + 1), faults.slow_percent);
  uint64_t transfer_ns = 0;
  if (faults.bandwidth_bytes_per_s != 0) {
    transfer_ns =
        scaled(operation.request.length_bytes * kNanosPerSecond / faults.bandwidth_bytes_per_s,
               faults.slow_percent);
  }
  const int64_t wire_ns = std::max(now_ns, wire_busy_until_ns_);
  wire_busy_until_ns_ = wire_ns + static_cast<int64_t>(transfer_ns);
  operation.late = random.chance(faults.reorder_ppm);
  const uint64_t late_ns = operation.late ? random.below(faults.reorder_ns) + 1 : 0;
  operation.started_ns = wire_ns + static_cast<int64_t>(latency_ns / 2 + late_ns);
  operation.complete_ns = wire_ns + static_cast<int64_t>(latency_ns + transfer_ns + late_ns);
}

void SimTransport::plan_chunks(Operation& operation, const SimFaults& faults) noexcept {
  SimRandom& random = fabric_.random_;
  const bool torn = random.chance(faults.torn_ppm);
  const uint32_t count_max = std::clamp(faults.torn_chunks_max_count, 2U, kSimChunksMax);
  const uint64_t count = torn ? 2 + random.below(count_max - 1) : 1;
  const int64_t half_way_ns = (operation.complete_ns - operation.started_ns) / 2;
  uint64_t within_ns = static_cast<uint64_t>(std::max<int64_t>(half_way_ns, 0));
  if (torn) {
    within_ns += faults.torn_spread_ns;
    ++torn_count_;
  }
  operation.lost = faults.lost;
  if (faults.lost) {
    within_ns = faults.lost_write_ns;
  }
  operation.parts_count = static_cast<uint8_t>(count);
  operation.chunk_count = operation.parts_count;
  for (uint8_t i = 0; i < operation.chunk_count; ++i) {
    operation.chunk_after_ns[i] = static_cast<uint32_t>(random.below(within_ns + 1));
    const auto at = static_cast<uint8_t>(random.below(uint64_t{i} + 1));  // grows a permutation
    operation.chunk_order[i] = operation.chunk_order[at];
    operation.chunk_order[at] = i;
  }
  std::sort(operation.chunk_after_ns.begin(),
            operation.chunk_after_ns.begin() + operation.chunk_count);
  if (faults.lost && faults.lost_write_ns == 0) {
    operation.chunk_count = 0;
    return;
  }
  operation.complete_ns =
      std::max(operation.complete_ns, operation.started_ns + operation.chunk_after_ns[count - 1]);
  if (random.chance(faults.error_ppm)) {
    operation.outcome = OpStatus::kTransportError;
    operation.chunk_count = static_cast<uint8_t>(random.below(count + 1));
  }
  int64_t& last_ns = last_complete_ns_[operation.request.peer.value()];
  if (!operation.late && !operation.lost) {
    operation.complete_ns = std::max(operation.complete_ns, last_ns + 1);
    last_ns = operation.complete_ns;
  }
}

void SimTransport::schedule_next(uint16_t slot) noexcept {
  const Operation& operation = operations_[slot];
  int64_t at_ns = operation.complete_ns;
  if (operation.chunks_done < operation.chunk_count) {
    at_ns = operation.started_ns + operation.chunk_after_ns[operation.chunks_done];
  } else if (operation.lost) {
    return;  // only a fence ends it
  }
  fabric_.schedule(at_ns, SimFabric::EventKind::kOperation, index_, slot, operation.posting);
}

void SimTransport::on_operation(uint16_t slot, uint64_t posting) noexcept {
  PC_ASSERT(is_in_flight(slot, posting), slot, posting);  // (S2)
  Operation& operation = operations_[slot];
  const uint16_t node = node_of_[operation.request.peer.value()];
  if (node == kNoNode || !fabric_.nodes_[node]->alive) {
    finish(slot, OpStatus::kPeerLost);
    return;
  }
  const SimFaults& faults = fabric_.link(index_, SimNode(node));
  if (operation.outcome == OpStatus::kOk &&
      faults.link_down_at(static_cast<uint64_t>(fabric_.now().count()))) {
    break_link(slot, faults);
    return;
  }
  if (faults.lost && !operation.lost) {  // lost while under way
    operation.lost = true;
    if (faults.lost_write_ns == 0) {
      operation.chunk_count = operation.chunks_done;
      return;
    }
  }
  if (operation.chunks_done < operation.chunk_count) {
    execute_chunk(operation);
    ++operation.chunks_done;
    schedule_next(slot);
  } else if (!operation.lost) {
    finish(slot, operation.outcome);
  }
}

void SimTransport::break_link(uint16_t slot, const SimFaults& faults) noexcept {
  Operation& operation = operations_[slot];
  operation.outcome = OpStatus::kTransportError;
  operation.lost = false;
  operation.chunk_count = operation.chunks_done;
  operation.complete_ns = fabric_.now().count() + static_cast<int64_t>(faults.error_after_ns);
  schedule_next(slot);
}

void SimTransport::execute_chunk(const Operation& operation) const noexcept {
  const WorkRequest& request = operation.request;
  const SimRegion& region =
      fabric_.nodes_[node_of_[request.peer.value()]]->regions[request.region.value()];
  const uint32_t count = operation.parts_count;
  const uint32_t index = operation.chunk_order[operation.chunks_done];
  if (request.kind == OpKind::kLookup) {
    const LookupBatch& batch = *request.lookup;
    const uint64_t begin = uint64_t{batch.key_count} * index / count;
    const uint64_t end = uint64_t{batch.key_count} * (index + 1) / count;
    lookup_buckets(reinterpret_cast<const Bucket*>(region.memory),
                   region.descriptor.length_bytes / sizeof(Bucket), batch.keys + begin,
                   batch.results + begin, static_cast<uint32_t>(end - begin));
    return;
  }
  copy_range(request, region.memory + request.remote_offset_bytes,
             chunk_begin(request.length_bytes, index, count),
             chunk_begin(request.length_bytes, index + 1, count), request.kind == OpKind::kRead);
}

void SimTransport::finish(uint16_t slot, OpStatus status) noexcept {
  Operation& operation = operations_[slot];
  PC_ASSERT(operation.in_flight, slot);  // (T2)
  operation.in_flight = false;
  --in_flight_count_;
  free_.push_back(slot);
  completed_[(completed_head_ + completed_count_) % completed_.size()] =
      Completion{operation.request.cookie_id, status};
  ++completed_count_;
}

void SimTransport::fence(PeerIndex peer) noexcept {
  ++fences_count_;
  const uint16_t node = node_of_[peer.value()];
  uint64_t fence_ns = 0;
  if (node != kNoNode) {
    const SimFaults& faults = fabric_.link(index_, SimNode(node));
    fence_ns = scaled(faults.fence_ns, faults.slow_percent);
  }
  fabric_.schedule(fabric_.now().count() + static_cast<int64_t>(fence_ns),
                   SimFabric::EventKind::kFence, index_, peer.value(), next_posting_);
}

void SimTransport::on_fence(PeerIndex peer, uint64_t posted_before) noexcept {
  for (uint32_t slot = 0; slot < operations_.size(); ++slot) {
    const Operation& operation = operations_[slot];
    if (operation.in_flight && operation.request.peer == peer &&
        operation.posting < posted_before) {
      finish(static_cast<uint16_t>(slot), OpStatus::kFlushed);
    }
  }
  fabric_.drop_dead_events(index_);
}

uint32_t SimTransport::poll(std::span<Completion> completions) noexcept {
  if (fabric_.options_.drive_on_poll) {
    uint32_t left = fabric_.options_.drive_events_max_count;
    while (completed_count_ == 0 && left != 0 && fabric_.drive()) {
      --left;
    }
  }
  const size_t count = std::min(completions.size(), completed_count_);
  for (size_t i = 0; i < count; ++i) {
    completions[i] = completed_[completed_head_];
    completed_head_ = completed_head_ + 1 == completed_.size() ? 0 : completed_head_ + 1;
  }
  completed_count_ -= count;
  return static_cast<uint32_t>(count);
}

}  // namespace peercache
