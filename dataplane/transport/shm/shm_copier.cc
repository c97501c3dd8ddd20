#include "dataplane/transport/shm/shm_copier.h"

#include <algorithm>
#include <string>
#include <utility>

namespace peercache {

namespace {

// Taken from one client before the next one is looked at.
constexpr uint64_t kBytesPerClient = 4 * uint64_t{ShmCopyBoard::kChunkBytes};

}  // namespace

int ShmCopier::poll_once(Nanos /*now*/) noexcept {
  uint32_t taken = 0;
  for (ShmPort& port : ports_) {
    if (port.board.has_chunks()) {
      taken += port.board.copy_some(table_, word_, kBytesPerClient);
    }
  }
  chunks_.add(taken);
  return static_cast<int>(taken);
}

Result<std::unique_ptr<ShmCopiers>> ShmCopiers::open(uint32_t count,
                                                     const ShmPeerTable& table,
                                                     std::span<ShmEpochWord> words,
                                                     std::span<ShmPort> ports) {
  if (count > words.size()) {
    return make_error(Errc::kOutOfRange, "{} copier threads, at most {}", count, words.size());
  }
  std::unique_ptr<ShmCopiers> copiers(new ShmCopiers());
  for (uint32_t i = 0; i < count; ++i) {
    copiers->copiers_.push_back(std::make_unique<ShmCopier>(table, words[i], ports));
    AgentOptions options;
    options.name = "pc-copy-" + std::to_string(i);
    PC_TRY_ASSIGN(auto thread, AgentThread::start(*copiers->copiers_.back(), std::move(options)));
    copiers->threads_.push_back(std::move(thread));
  }
  return copiers;
}

ShmCopiers::~ShmCopiers() {
  for (const auto& thread : threads_) {
    thread->stop();
  }
}

void ShmCopiers::wake(uint32_t chunks) noexcept {
  const size_t count = std::min<size_t>(chunks, threads_.size());
  for (size_t i = 0; i < count; ++i) {
    threads_[i]->wake_if_sleeping();
  }
}

uint64_t ShmCopiers::chunks() const noexcept {
  uint64_t sum = 0;
  for (const auto& copier : copiers_) {
    sum += copier->chunks();
  }
  return sum;
}

}  // namespace peercache
