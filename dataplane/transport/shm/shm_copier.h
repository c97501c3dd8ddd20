#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/agent.h"
#include "dataplane/base/counters.h"
#include "dataplane/base/result.h"
#include "dataplane/transport/shm/shm_peer_table.h"
#include "dataplane/transport/shm/shm_port.h"

namespace peercache {

/// A thread's worth of copying for whichever client has large READs under way.
///
/// THREAD:     the thread that polls it.
/// BORROWS:    table, epoch word and ports; they outlive it.
class ShmCopier final : public Agent {
 public:
  ShmCopier(const ShmPeerTable& table, ShmEpochWord& word, std::span<ShmPort> ports) noexcept
      : table_(table), word_(word), ports_(ports) {}

  /// One turn: a few chunks of each client. Returns the chunks taken.
  int poll_once(Nanos now) noexcept override;

  [[nodiscard]] uint64_t chunks() const noexcept { return chunks_.value(); }

 private:
  const ShmPeerTable& table_;
  ShmEpochWord& word_;
  std::span<ShmPort> ports_;
  Counter chunks_;
};

/// The copier threads of an endpoint.
///
/// THREAD:     open, destructor: the endpoint's owner; wake, chunks: any.
/// OWNS:       the threads.
class ShmCopiers {
 public:
  /// Errors: kOutOfRange (more than ShmPeerTable::kCopiersMax), and those of AgentThread::start.
  static Result<std::unique_ptr<ShmCopiers>> open(uint32_t count,
                                                  const ShmPeerTable& table,
                                                  std::span<ShmEpochWord> words,
                                                  std::span<ShmPort> ports);
  ~ShmCopiers();
  ShmCopiers(const ShmCopiers&) = delete;
  ShmCopiers& operator=(const ShmCopiers&) = delete;

  /// After an offer of `chunks` chunks beyond the caller's own share. COST: a locked instruction
  /// per copier woken, and a system call for each that sleeps.
  void wake(uint32_t chunks) noexcept;

  [[nodiscard]] uint64_t chunks() const noexcept;

 private:
  ShmCopiers() = default;

  std::vector<std::unique_ptr<ShmCopier>> copiers_;
  std::vector<std::unique_ptr<AgentThread>> threads_;  // after what they poll
};

}  // namespace peercache
