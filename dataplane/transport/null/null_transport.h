#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/limits.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/transport/transport.h"
#include "dataplane/transport/work_request.h"
#include "dataplane/wire/region_descriptor.h"

namespace peercache {

/// THREAD: any; a value.
struct NullOptions {
  bool copy_writes = false;  ///< WRITE really copies its pieces; otherwise it only completes
};

/// A region of a peer of the null device, in this process. BORROWS: `memory`, which outlives the
/// transport.
struct NullRegion {
  RegionDescriptor descriptor{};
  std::byte* memory = nullptr;
};

/// The device that is infinitely fast: every request completes at once and data READs move no
/// bytes, so that what a benchmark measures is the engine. READs of at most kCopyBytesMax (slot
/// headers) and LOOKUPs are really done, so that validation and the directory work over it.
///
/// THREAD:     add_peer, disconnect: one thread, also while the rail runs; the hot half: the rail's
///             driver.
/// OWNS:       peer tables, kept until it is destroyed; a ring of completions.
/// BORROWS:    the memory of the peers' regions.
/// INVARIANTS: (N1) tail - head <= kDepth: no request is accepted that could not complete.
/// COST:       a table look-up and a store per request; 64 bytes of copy for a header.
class NullTransport {
 public:
  static constexpr TransportKind kKind = TransportKind::kNull;
  static constexpr uint32_t kPostBatchMax = 32;
  static constexpr uint32_t kPollBatchMax = 32;
  /// Headers, and nothing that would make this a copy benchmark.
  static constexpr uint32_t kCopyBytesMax = 64;

  static Result<std::unique_ptr<NullTransport>> open(NullOptions options);
  NullTransport(const NullTransport&) = delete;
  NullTransport& operator=(const NullTransport&) = delete;

  /// Makes a peer reachable. Errors: kTooManyPeers, kAlreadyExists, kTooManyRegions, kNoSuchRegion
  /// (index too large).
  Result<void> add_peer(PeerIndex peer, std::span<const NullRegion> regions);

  // Cold half of the concept.
  Result<LocalKey> register_memory(const MemorySpec& memory);
  void disconnect(PeerIndex peer);

  // Hot half of the concept, in null_datapath.cc.
  [[nodiscard]] uint32_t post(std::span<const WorkRequest> requests) noexcept;
  void flush() noexcept {}
  [[nodiscard]] uint32_t poll(std::span<Completion> completions) noexcept;
  void fence(PeerIndex /*peer*/) noexcept {}  // nothing is ever in flight beyond its completion

 private:
  static constexpr uint32_t kDepth = limits::kInflightPerRail;

  /// By region index; a region that is not there has length 0 and lets nothing pass.
  struct PeerTable {
    std::array<NullRegion, limits::kRegionsPerNodeMax> regions{};
  };

  explicit NullTransport(NullOptions options) : options_(options) {}
  OpStatus execute(const WorkRequest& request) const noexcept;

  const NullOptions options_;
  std::array<std::atomic<const PeerTable*>, limits::kPeersMax> peers_{};
  std::vector<std::unique_ptr<PeerTable>> tables_;  // set-up thread only

  uint32_t head_ = 0;  // both count up and wrap; masked on use
  uint32_t tail_ = 0;
  std::array<Completion, kDepth> ring_{};
};

static_assert(Transport<NullTransport>);

}  // namespace peercache
