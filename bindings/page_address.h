#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dataplane/base/result.h"
#include "dataplane/transport/work_request.h"

namespace peercache {

/// How a host pool orders the elements of its pages (docs/architecture.md, "host pools").
enum class PageLayout : uint8_t { kLayerFirst, kPageFirst, kPageFirstDirect, kPageHead };

/// The layout of this name ("layer_first", ...). Errors: kUnknownLayout.
[[nodiscard]] Result<PageLayout> parse_page_layout(std::string_view name) noexcept;
[[nodiscard]] const char* to_string(PageLayout layout) noexcept;

/// What a host pool says about itself. A pool with one tensor per page (MLA) has no V: its V fields
/// are zero.
struct HostPoolShape {
  PageLayout layout = PageLayout::kPageFirst;
  uint64_t k_base_address = 0;   ///< first byte of K, or of the only tensor
  uint64_t v_base_address = 0;   ///< first byte of V, or 0
  uint64_t slot_count = 0;       ///< tokens the pool holds
  uint32_t page_slot_count = 0;  ///< tokens per page
  uint32_t layer_count = 0;
  uint64_t k_row_bytes = 0;  ///< one token of one layer
  uint64_t v_row_bytes = 0;
};

/// Whether `host_indices` name `page_count` whole pages of a pool: for each page its consecutive
/// slots, the first a multiple of the page's slot count. Errors: kBadIndices with the offending
/// position and value.
[[nodiscard]] Result<void> check_host_indices(std::span<const int64_t> host_indices,
                                              size_t page_count,
                                              uint32_t page_slot_count,
                                              uint64_t slot_count) noexcept;

/// Where the pieces of a host pool's pages lie: computes what the pool's own accessor would say,
/// without Python. The pieces of a page are K then V; where layers lie apart, K0, V0, K1, V1, ...
///
/// THREAD:     immutable after make.
/// BORROWS:    the pool's memory: addresses are valid as long as the pool is.
/// INVARIANTS: (G1) a page's pieces add up to page_bytes() and lie inside the pool.
///             (G2) page_bytes() fits 32 bits, as an object's length must.
/// COST:       O(pieces) per page, no allocation.
class PageGeometry {
 public:
  /// Errors: kInvalidArgument (a field is zero, slots are no whole pages), kTooManyPieces,
  /// kWouldOverflow (page of 4 GiB and more).
  [[nodiscard]] static Result<PageGeometry> make(const HostPoolShape& shape) noexcept;

  [[nodiscard]] uint32_t pieces_per_page() const noexcept { return parts_ * layers_; }
  [[nodiscard]] uint32_t page_bytes() const noexcept { return page_bytes_; }
  [[nodiscard]] uint32_t page_slot_count() const noexcept { return page_slots_; }
  [[nodiscard]] uint64_t slot_count() const noexcept { return slot_count_; }

  /// check_host_indices for this pool.
  [[nodiscard]] Result<void> check_indices(std::span<const int64_t> host_indices,
                                           size_t page_count) const noexcept {
    return check_host_indices(host_indices, page_count, page_slots_, slot_count_);
  }

  /// Pieces of the page whose first slot is `first_slot`, into out[0 .. pieces_per_page()).
  /// REQUIRES: check_indices accepted it.
  void page_pieces(int64_t first_slot, LocalPiece* out) const noexcept;

  /// The same pieces, in the same order, inside a page that was flattened by its pool (the path by
  /// copied pages): an object written from there has the bytes of one written from the pool.
  void flat_page_pieces(std::byte* flat, LocalPiece* out) const noexcept;

 private:
  /// K or V.
  struct Part {
    uint64_t base = 0;
    uint64_t slot_stride = 0;   ///< bytes from one slot to the next, inside one piece
    uint64_t layer_stride = 0;  ///< bytes from one layer's piece to the next
    uint32_t piece_bytes = 0;
  };

  Part part_[2];
  uint32_t parts_ = 1;
  uint32_t layers_ = 1;  ///< pieces per part: the layer count where layers lie apart, else 1
  uint32_t page_slots_ = 0;
  uint32_t page_bytes_ = 0;
  uint64_t slot_count_ = 0;
};

}  // namespace peercache
