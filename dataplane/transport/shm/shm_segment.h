#pragma once

#include <cstddef>
#include <memory>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_handle.h"
#include "dataplane/base/units.h"
#include "dataplane/transport/shm/shm_options.h"

namespace peercache {

/// Own memory that peers on this host may map for reading: an anonymous memory file, populated and
/// sealed.
///
/// THREAD:     immutable after create; the bytes belong to whoever the caller says.
/// OWNS:       the file and its only writable mapping (not inherited by fork). The memory lives
/// until the last process
///             has unmapped it.
/// INVARIANTS: (I1) the file can neither shrink, grow nor be mapped writable again (sealed), so
/// nobody can make a
///             reader's access fault, nor write into it.
///             (I2) every page exists from the start: using the memory never fails.
/// COST:       create touches every page: about 0.3 s per GiB.
class ShmSegment {
 public:
  /// Takes `length` bytes, rounded up to whole pages. Checks first that they can be taken with
  /// `headroom` left. Errors: kInvalidArgument (length 0), kMemoryBudget (values: wanted, headroom,
  /// available), kNoHugePages (HugePageMode::kRequired only), kNoMemory, kSystem.
  static Result<std::unique_ptr<ShmSegment>> create(Bytes length,
                                                    HugePageMode mode,
                                                    Bytes headroom);

  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return mapping_.get().data; }
  /// A multiple of page_bytes().
  [[nodiscard]] Bytes length() const noexcept { return Bytes(mapping_.get().bytes); }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// What the memory consists of: 4 KiB, or the host's huge page.
  [[nodiscard]] Bytes page_bytes() const noexcept { return page_bytes_; }
  /// True if HugePageMode::kAuto had to do with ordinary pages.
  [[nodiscard]] bool fell_back() const noexcept { return fell_back_; }

  /// Maps a peer's file for reading. `expected` is the length that its region table claims.
  /// Errors: kPermission (a seal is missing, values: present, needed), kBadLength (the file has
  /// another length, or is not populated), kSystem.
  static Result<UniqueMapping> map_remote(int fd, Bytes expected);

 private:
  ShmSegment(UniqueFd fd, UniqueMapping mapping, Bytes page_bytes, bool fell_back) noexcept;

  UniqueFd fd_;
  UniqueMapping mapping_;
  Bytes page_bytes_;
  bool fell_back_;
};

/// The host's default huge page, or 0 where it has none; and how many are free.
struct HugePageSupply {
  Bytes page_bytes{};
  uint64_t free_count = 0;
};
[[nodiscard]] HugePageSupply huge_page_supply();

}  // namespace peercache
