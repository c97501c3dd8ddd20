#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataplane/engine/client.h"
#include "dataplane/engine/engine.h"
#include "dataplane/pool/bucket_table.h"
#include "dataplane/transport/shm/shm_endpoint.h"
#include "dataplane/transport/shm/shm_segment.h"

namespace peercache::perf {

/// An owner with published objects and a directory table in sealed shared memory, and a reader that has connected to it
/// and mapped both: as between processes, but in one, so that a benchmark needs no second program.
///
/// THREAD:     the benchmark's main thread.
class ShmSetup {
 public:
  struct Shape {
    uint64_t region_bytes;
    uint32_t object_bytes;      ///< a multiple of 4 KiB
    uint64_t records_count = 0; ///< entries of the directory table; 0: no table
  };
  explicit ShmSetup(const Shape& shape);
  ~ShmSetup();
  ShmSetup(const ShmSetup&) = delete;
  ShmSetup& operator=(const ShmSetup&) = delete;

  uint32_t objects_count() const { return objects_count_; }
  const std::byte* object(uint32_t i) const;
  Location location(uint32_t i) const;
  PeerIndex peer() const { return peer_; }
  Client& client() { return *client_; }
  const Clock& clock() const { return clock_; }

  /// Submits and waits; aborts unless every operation ended well.
  void run(std::span<const Op> ops);

 private:
  class Owner;
  class Reader;

  uint32_t object_bytes_;
  uint32_t objects_count_;
  Clock clock_;
  std::string directory_;
  std::unique_ptr<ShmSegment> objects_;
  std::unique_ptr<ShmSegment> headers_;
  std::unique_ptr<ShmSegment> table_;
  std::unique_ptr<Owner> owner_listener_;
  std::unique_ptr<Reader> reader_listener_;
  PeerDirectory peers_;
  PeerIndex peer_{0};
  std::unique_ptr<ShmEndpoint> owner_;
  std::unique_ptr<ShmEndpoint> reader_;
  std::unique_ptr<Engine> engine_;
  Client* client_ = nullptr;
};

/// Regions of the owner.
inline constexpr RegionIndex kShmObjects{1};
inline constexpr RegionIndex kShmHeaders{2};
inline constexpr RegionIndex kShmTable{3};

/// The key that the owner's object or record `i` has.
Key128 shm_key(uint64_t i);

}  // namespace peercache::perf
