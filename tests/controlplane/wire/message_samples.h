#pragma once

#include <string>
#include <vector>

#include "controlplane/wire/messages.h"

namespace peercache::test {

inline Location message_location(uint64_t i) {
  Location location{};
  location.key = Key128{.low = 0x1000 + i, .high = 0x2000 + i};
  location.node = NodeId(77);
  location.offset_bytes = i * 8192;
  location.sequence = Sequence(1'700'000'000'000'000 + i);
  location.slot = SlotIndex(static_cast<uint32_t>(2 * i));
  location.generation = Generation(9);
  location.length_bytes = 8000;
  location.incarnation = Incarnation(0xabcd);
  location.region = RegionIndex(3);
  seal(location);
  return location;
}

inline std::vector<Location> message_locations(size_t count) {
  std::vector<Location> locations;
  for (size_t i = 0; i < count; ++i) locations.push_back(message_location(i));
  return locations;
}

inline ClusterTerms sample_terms() { return {"cluster-a", 1, 1, 160, 2, 6000}; }

inline NodeIdentity sample_identity() {
  return {"node-1", NodeId(77),      Incarnation(0xabcd),
          "host-9", "10.0.0.7:7100", "/run/peercache/node-1.sock"};
}

/// One of each type, in the order of MessageType; the golden files hold these.
inline std::vector<Message> sample_messages() {
  return {
      HelloMessage{sample_terms(), sample_identity()},
      HelloReplyMessage{sample_terms(), sample_identity(), "vnodes differs: 160 here, 32 there"},
      HeartbeatMessage{NodeId(77), Incarnation(0xabcd)},
      HeartbeatReplyMessage{NodeId(78), Incarnation(0xef01), true, 3},
      LeaveMessage{NodeId(77), Incarnation(0xabcd)},
      DirectoryUpdateMessage{NodeId(77), Incarnation(0xabcd), Epoch(5), 42, message_locations(2),
                             message_locations(3)},
      DirectoryUpdateReplyMessage{
          42,
          {UpdateOutcome::kApplied, UpdateOutcome::kNotFound, UpdateOutcome::kApplied,
           UpdateOutcome::kStaleSequence, UpdateOutcome::kAppliedDropped},
          1000,
          7},
      DirectoryLookupMessage{{Key128{1, 2}, Key128{3, 4}, Key128{5, 6}}},
      DirectoryLookupReplyMessage{{1, 0, 2}, message_locations(3)},
      ReportMissingMessage{message_locations(2)},
      TouchMessage{{Key128{1, 2}, Key128{3, 4}}},
      ReportBadPayloadMessage{message_locations(1)},
      AckMessage{},
      ErrorReplyMessage{Errc::kNotOwner},
  };
}

/// "hello_reply" and so on: names of golden files.
inline std::string golden_name(const Message& message) {
  std::string name = std::string("message_") + to_string(type_of(message));
  for (char& c : name) {
    if (c == ' ') c = '_';
  }
  return name;
}

}  // namespace peercache::test
