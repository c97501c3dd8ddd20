#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controlplane/membership/view.h"
#include "dataplane/base/units.h"
#include "dataplane/pool/bucket_table.h"
#include "dataplane/wire/location.h"

namespace peercache::test {

inline Key128 key_of(uint64_t number) {
  return Key128{.low = (number + 1) * 0x9e3779b97f4a7c15ULL,
                .high = (number + 7) * 0xd6e8feb86659fd93ULL};
}

/// Life `sequence` of key `key` at `node`.
inline Location record(uint64_t key, uint64_t node, uint32_t incarnation, uint64_t sequence) {
  Location location{};
  location.key = key_of(key);
  location.node = NodeId(node);
  location.incarnation = Incarnation(incarnation);
  location.sequence = Sequence(sequence);
  location.slot = SlotIndex(static_cast<uint32_t>(key));
  location.generation = Generation(static_cast<uint32_t>(sequence));
  location.offset_bytes = key * 4096;
  location.length_bytes = 4096;
  location.region = RegionIndex(1);
  seal(location);
  return location;
}

inline Member member(uint64_t node, uint32_t incarnation, MemberState state = MemberState::kUp) {
  Member member;
  member.control_address = "n" + std::to_string(node) + ":1";
  member.node = NodeId(node);
  member.incarnation = Incarnation(incarnation);
  member.state = state;
  return member;
}

inline View view_of(std::vector<Member> members) { return {Epoch(1), std::move(members)}; }

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

/// Zeroed memory for a table.
class TableMemory {
 public:
  explicit TableMemory(Bytes length) : length_(length) {
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(alignof(Bucket), length.value())));
    std::memset(bytes_.get(), 0, length.value());
  }
  std::byte* data() { return bytes_.get(); }
  Bytes length() const { return length_; }

 private:
  Bytes length_;
  std::unique_ptr<std::byte, FreeMemory> bytes_;
};

}  // namespace peercache::test
