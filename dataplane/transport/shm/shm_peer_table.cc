#include "dataplane/transport/shm/shm_peer_table.h"

#include <algorithm>
#include <cstdint>
#include <sys/mman.h>
#include <utility>

#include "dataplane/base/assert.h"

namespace peercache {

namespace {

// A multiple of all pages but the gigantic ones, which go at once.
constexpr Bytes kUnmapUnit = 2_MiB;

// Takes up to about `step` bytes off the end of a mapping; the kernel holds the lock that page
// faults of other threads need for as long as one call takes.
uint64_t unmap_some(UniqueMapping& mapping, uint64_t step) {
  const MappedRange range = mapping.get();
  const uint64_t part = std::max(step, kUnmapUnit.value());
  const uint64_t keep =
      range.bytes <= part ? 0 : round_up(Bytes(range.bytes - part), kUnmapUnit).value();
  const bool cut =
      keep != 0 && keep < range.bytes && ::munmap(range.data + keep, range.bytes - keep) == 0;
  if (!cut) {
    mapping.reset();
    return range.bytes;
  }
  static_cast<void>(mapping.release());
  mapping.reset(MappedRange{range.data, keep});
  return range.bytes - keep;
}

}  // namespace

ShmPeerTable::~ShmPeerTable() { PC_ASSERT(nobody_before(UINT64_MAX)); }

void ShmPeerTable::publish(PeerIndex peer, std::unique_ptr<ShmPeerMapping> mapping) {
  PC_ASSERT(peer.value() < entries_.size(), peer);
  std::unique_ptr<ShmPeerMapping>& owned = owned_[peer.value()];
  PC_ASSERT(owned == nullptr, peer);
  owned = std::move(mapping);
  mapped_bytes_ += owned->mapped_bytes;
  // P8 release: meets P7 in ShmPin::find(); the mapping is complete (I2).
  entries_[peer.value()].store(owned.get(), std::memory_order_release);
}

void ShmPeerTable::retire(PeerIndex peer) {
  if (peer.value() >= entries_.size() || owned_[peer.value()] == nullptr) {
    return;
  }
  // P4 seq_cst RMW: meets P3 in ShmPin and P7 in find().
  static_cast<void>(entries_[peer.value()].exchange(nullptr, std::memory_order_seq_cst));
  // P2 seq_cst RMW: meets P1 in ShmPin; users that see the new epoch see the cleared entry.
  const uint64_t epoch = epoch_.value.fetch_add(1, std::memory_order_seq_cst) + 1;
  const uint64_t bytes = owned_[peer.value()]->mapped_bytes;
  retired_.push_back({epoch, std::move(owned_[peer.value()])});
  mapped_bytes_ -= bytes;
  pending_bytes_ += bytes;
}

bool ShmPeerTable::nobody_before(uint64_t epoch) const noexcept {
  for (size_t i = 0; i < user_count_; ++i) {
    // P5 seq_cst load: meets P3 and P6 in ShmPin.
    const uint64_t entered = users_[i]->value.load(std::memory_order_seq_cst);
    if (entered != 0 && entered < epoch) {
      return false;
    }
  }
  return true;
}

uint64_t ShmPeerTable::reclaim(Bytes step) {
  uint64_t done = 0;
  while (!retired_.empty() && done < step.value() && nobody_before(retired_.front().epoch)) {
    ShmPeerMapping& mapping = *retired_.front().mapping;
    while (!mapping.mappings.empty() && done < step.value()) {
      const uint64_t freed = unmap_some(mapping.mappings.back(), step.value() - done);
      done += freed;
      mapping.mapped_bytes -= freed;
      pending_bytes_ -= freed;
      if (!mapping.mappings.back()) {
        mapping.mappings.pop_back();
      }
    }
    if (!mapping.mappings.empty()) {
      break;
    }
    retired_.erase(retired_.begin());
  }
  return done;
}

void ShmPeerTable::add_user(ShmEpochWord& word) noexcept {
  PC_ASSERT(user_count_ < users_.size(), user_count_);
  users_[user_count_++] = &word;
}

void ShmPeerTable::check_invariants() const {
  uint64_t mapped = 0;
  for (size_t i = 0; i < owned_.size(); ++i) {
    // Relaxed: the conductor is the only writer.
    PC_ASSERT(entries_[i].load(std::memory_order_relaxed) == owned_[i].get(), i);
    mapped += owned_[i] == nullptr ? 0 : owned_[i]->mapped_bytes;
  }
  PC_ASSERT(mapped == mapped_bytes_, mapped, mapped_bytes_);
  uint64_t pending = 0;
  for (const Retired& retired : retired_) {
    pending += retired.mapping->mapped_bytes;
  }
  PC_ASSERT(pending == pending_bytes_, pending, pending_bytes_);
}

}  // namespace peercache
