#include "bindings/page_address.h"

#include <array>
#include <limits>

#include "dataplane/base/assert.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/units.h"

namespace peercache {

namespace {

struct LayoutName {
  PageLayout layout;
  std::string_view name;
};
constexpr std::array kLayoutNames = {
    LayoutName{PageLayout::kLayerFirst, "layer_first"},
    LayoutName{PageLayout::kPageFirst, "page_first"},
    LayoutName{PageLayout::kPageFirstDirect, "page_first_direct"},
    LayoutName{PageLayout::kPageHead, "page_head"},
};

/// An address as a pointer: the pool told it as a number.
std::byte* at(uint64_t address) noexcept {
  return reinterpret_cast<std::byte*>(
      static_cast<uintptr_t>(address));  // NOLINT(performance-no-int-to-ptr)
}

/// a * b, or the largest number when that does not fit.
uint64_t saturating_product(uint64_t a, uint64_t b) noexcept {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

}  // namespace

Result<PageLayout> parse_page_layout(std::string_view name) noexcept {
  for (const LayoutName& known : kLayoutNames) {
    if (known.name == name) {
      return known.layout;
    }
  }
  return make_error(Errc::kUnknownLayout,
                    "known are layer_first, page_first, page_first_direct and page_head");
}

const char* to_string(PageLayout layout) noexcept {
  for (const LayoutName& known : kLayoutNames) {
    if (known.layout == layout) {
      return known.name.data();
    }
  }
  return "unknown";
}

Result<void> check_host_indices(std::span<const int64_t> host_indices,
                                size_t page_count,
                                uint32_t page_slots,
                                uint64_t slot_count) noexcept {
  if (host_indices.size() != page_count * page_slots) {
    return make_error(Errc::kBadIndices, "{} host indices for {} pages of {} slots",
                      host_indices.size(), page_count, page_slots);
  }
  for (size_t page = 0; page < page_count; ++page) {
    const int64_t* slots = &host_indices[page * page_slots];
    const auto first = static_cast<uint64_t>(slots[0]);  // a negative one is beyond every pool
    if (first >= slot_count || first % page_slots != 0) {
      return make_error(
          Errc::kBadIndices,
          "page {} of the call starts at slot {} of a pool of {} slots in pages of {}", page, first,
          slot_count, page_slots);
    }
    uint64_t wrong = 0;
    for (uint32_t i = 1; i < page_slots;
         ++i) {  // no branch, so that the compiler makes it a vector loop
      wrong |= static_cast<uint64_t>(slots[i]) ^ (first + i);
    }
    if (wrong != 0) {
      return make_error(Errc::kBadIndices,
                        "page {} of the call, from slot {} on, is not {} consecutive slots", page,
                        first, page_slots);
    }
  }
  return {};
}

Result<PageGeometry> PageGeometry::make(const HostPoolShape& shape) noexcept {
  if (shape.k_base_address == 0 || shape.k_row_bytes == 0) {
    return make_error(Errc::kInvalidArgument,
                      "host pool: address {} and row of {} bytes must not be zero",
                      shape.k_base_address, shape.k_row_bytes);
  }
  if ((shape.v_base_address == 0) != (shape.v_row_bytes == 0)) {
    return make_error(Errc::kInvalidArgument, "host pool: V has address {} but rows of {} bytes",
                      shape.v_base_address, shape.v_row_bytes);
  }
  if (shape.page_slot_count == 0 || shape.layer_count == 0 || shape.slot_count == 0 ||
      shape.slot_count % shape.page_slot_count != 0) {
    return make_error(Errc::kInvalidArgument, "host pool: {} slots, pages of {} slots, {} layers",
                      shape.slot_count, shape.page_slot_count, shape.layer_count);
  }
  PageGeometry geometry;
  const bool layers_apart = shape.layout == PageLayout::kLayerFirst;
  geometry.parts_ = shape.v_base_address == 0 ? 1 : 2;
  geometry.layers_ = layers_apart ? shape.layer_count : 1;
  geometry.page_slots_ = shape.page_slot_count;
  geometry.slot_count_ = shape.slot_count;

  const std::array<uint64_t, 2> bases = {shape.k_base_address, shape.v_base_address};
  const std::array<uint64_t, 2> rows = {shape.k_row_bytes, shape.v_row_bytes};
  uint64_t page_bytes = 0;
  for (uint32_t i = 0; i < geometry.parts_; ++i) {
    // Page-major layouts keep a page's part in one piece whatever the order inside it; a page then
    // starts at its first slot times the bytes of a slot over all layers.
    const uint64_t slot_bytes =
        layers_apart ? rows[i] : saturating_product(rows[i], shape.layer_count);
    const uint64_t piece_bytes = saturating_product(slot_bytes, shape.page_slot_count);
    const uint64_t part_bytes = saturating_product(piece_bytes, geometry.layers_);
    if (part_bytes > std::numeric_limits<uint32_t>::max()) {
      return make_error(Errc::kWouldOverflow,
                        "a page of {} bytes in one tensor is too large, the limit is 4 GiB",
                        part_bytes);
    }
    page_bytes += part_bytes;
    geometry.part_[i] = Part{
        .base = bases[i],
        .slot_stride = slot_bytes,
        .layer_stride = layers_apart ? saturating_product(rows[i], shape.slot_count) : 0,
        .piece_bytes = narrow<uint32_t>(piece_bytes),
    };
  }
  if (page_bytes > std::numeric_limits<uint32_t>::max()) {
    return make_error(Errc::kWouldOverflow, "a page of {} bytes is too large, the limit is 4 GiB",
                      page_bytes);
  }
  if (geometry.pieces_per_page() > limits::kPiecesPerOpMax) {
    return make_error(
        Errc::kTooManyPieces,
        "a page of {} layers that lie apart has {} pieces, at most {} are possible: use a "
        "page-major layout",
        shape.layer_count, geometry.pieces_per_page(), limits::kPiecesPerOpMax);
  }
  geometry.page_bytes_ = narrow<uint32_t>(page_bytes);
  return geometry;
}

void PageGeometry::page_pieces(int64_t first_slot, LocalPiece* out) const noexcept {
  PC_DASSERT(first_slot >= 0, first_slot);
  const auto slot = static_cast<uint64_t>(first_slot);
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    for (uint32_t i = 0; i < parts_; ++i) {
      const Part& part = part_[i];
      *out++ = LocalPiece{
          .address = at(part.base + slot * part.slot_stride + layer * part.layer_stride),
          .length_bytes = part.piece_bytes,
          .local_key = LocalKey{0},
      };
    }
  }
}

void PageGeometry::flat_page_pieces(std::byte* flat, LocalPiece* out) const noexcept {
  const uint64_t k_bytes = uint64_t{part_[0].piece_bytes} * layers_;
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    for (uint32_t i = 0; i < parts_; ++i) {
      const uint64_t piece_bytes = part_[i].piece_bytes;
      *out++ = LocalPiece{
          .address = flat + (i == 0 ? 0 : k_bytes) + layer * piece_bytes,
          .length_bytes = part_[i].piece_bytes,
          .local_key = LocalKey{0},
      };
    }
  }
}

}  // namespace peercache
