#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/pool/published_pool.h"
#include "tests/support/page_pattern.h"

namespace peercache::test {

/// The owner in a storm: puts one object after the other into a pool that is always full, in small steps between which
/// readers may look: a slot taken, its life begun, the bytes written piece by piece, published, the agent's turn.
///
/// THREAD:     one.
/// OWNS:       the pool. BORROWS: its memory, the pattern.
class StormWriter : public PoolListener {
 public:
  static constexpr size_t kClasses = 3;
  /// Most objects are of the smallest class, so that runs are cheap; the others make extents change hands.
  static constexpr std::array<uint32_t, kClasses> kLengths{4096, 8192, 12288};

  StormWriter(const PoolMemory& memory, const PagePattern& pattern, uint64_t seed, NodeId node);

  /// One step of the present put, or the agent's turn.
  void step();

  /// Draws a location that a reader may hold, with a bias for those that will be overwritten soon: present ones, and
  /// some that were retired lately, as in a directory that lags.
  [[nodiscard]] const Location& pick(TestRandom& random);

  [[nodiscard]] uint64_t puts() const { return puts_; }
  [[nodiscard]] PublishedPool& pool() { return *pool_; }

  void on_published(const Location& location) override;
  void on_retired(const Location& location) override;

 private:
  enum class Stage : uint8_t { kTake, kBegin, kFill, kPublish };
  static constexpr uint32_t kFillSteps = 3;
  static constexpr uint64_t kRetiredKept = 24;

  void choose_next();

  const PagePattern& pattern_;
  TestRandom random_;
  std::unique_ptr<PublishedPool> pool_;
  PoolClient* client_ = nullptr;
  std::array<SizeClassIndex, kClasses> classes_{};

  Stage stage_ = Stage::kTake;
  uint32_t fill_step_ = 0;
  size_t class_ = 0;
  Key128 key_{};
  SlotGrant grant_{};
  Generation generation_{};
  uint64_t next_number_ = 0;
  uint64_t sequence_ = 0;
  uint64_t puts_ = 0;
  uint64_t steps_ = 0;
  int64_t now_ns_ = 0;

  /// One location, and when its slot was retired, counted in retirements.
  struct Known {
    Location location;
    uint64_t retired_at;
  };
  static constexpr uint64_t kNotRetired = UINT64_MAX;

  /// The latest publications of one size class, oldest first.
  struct History {
    std::vector<Known> ring;  // of a power of two, by number of publication
    uint64_t oldest = 0;      // none before it is remembered
    uint64_t published = 0;
  };
  [[nodiscard]] bool forgotten(const Known& known) const {
    return known.retired_at != kNotRetired && retired_ - known.retired_at > kRetiredKept;
  }
  static size_t class_of(const Location& location) {
    return location.length_bytes / kLengths[0] - 1;
  }

  std::array<History, kClasses> histories_{};
  std::vector<uint64_t> latest_;  // by slot: number of its latest publication, in its class
  uint64_t retired_ = 0;
};

}  // namespace peercache::test
