#include "bindings/page_address.h"

#include <array>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

constexpr uint64_t kBase = 0x10000000;
constexpr uint32_t kPageSlots = 4;
constexpr uint32_t kPages = 5;
constexpr uint64_t kSlots = kPageSlots * kPages;
constexpr uint32_t kLayers = 3;
constexpr uint64_t kRow = 32;  // heads x dim x element of one token of one layer

/// K and V as two halves of one tensor, or one tensor only.
HostPoolShape shape_of(PageLayout layout, bool has_v) {
  HostPoolShape shape{.layout = layout,
                      .k_base_address = kBase,
                      .slot_count = kSlots,
                      .page_slot_count = kPageSlots,
                      .layer_count = kLayers,
                      .k_row_bytes = kRow};
  if (has_v) {
    shape.v_base_address = kBase + kSlots * kLayers * kRow;
    shape.v_row_bytes = kRow;
  }
  return shape;
}

using Piece = std::pair<uint64_t, uint32_t>;

std::vector<Piece> to_pairs(const std::vector<LocalPiece>& pieces) {
  std::vector<Piece> out;
  out.reserve(pieces.size());
  for (const LocalPiece& piece : pieces) {
    out.emplace_back(reinterpret_cast<uintptr_t>(piece.address), piece.length_bytes);
  }
  return out;
}

std::vector<Piece> pieces_of(const PageGeometry& geometry, int64_t first_slot) {
  std::vector<LocalPiece> pieces(geometry.pieces_per_page());
  geometry.page_pieces(first_slot, pieces.data());
  return to_pairs(pieces);
}

TEST_CASE("page_address: layers that lie apart alternate K and V, layer by layer", "[unit]") {
  const PageGeometry geometry = *PageGeometry::make(shape_of(PageLayout::kLayerFirst, true));
  const uint64_t v = kBase + kSlots * kLayers * kRow;
  const uint64_t layer = kSlots * kRow;
  const uint64_t page = 8 * kRow;
  const uint32_t bytes = kPageSlots * kRow;
  CHECK(pieces_of(geometry, 8) == std::vector<Piece>{{kBase + page, bytes},
                                                     {v + page, bytes},
                                                     {kBase + page + layer, bytes},
                                                     {v + page + layer, bytes},
                                                     {kBase + page + 2 * layer, bytes},
                                                     {v + page + 2 * layer, bytes}});
  CHECK(geometry.page_bytes() == 2 * kLayers * bytes);
}

TEST_CASE("page_address: page-major layouts have one K and one V piece", "[unit]") {
  const auto layout =
      GENERATE(PageLayout::kPageFirst, PageLayout::kPageFirstDirect, PageLayout::kPageHead);
  const PageGeometry geometry = *PageGeometry::make(shape_of(layout, true));
  const uint64_t v = kBase + kSlots * kLayers * kRow;
  const uint32_t bytes = kPageSlots * kLayers * kRow;
  CHECK(pieces_of(geometry, 0) == std::vector<Piece>{{kBase, bytes}, {v, bytes}});
  CHECK(pieces_of(geometry, 12) ==
        std::vector<Piece>{{kBase + 3 * bytes, bytes}, {v + 3 * bytes, bytes}});
}

TEST_CASE("page_address: a pool with one tensor per page has one piece, or one per layer",
          "[unit]") {
  const PageGeometry page_major = *PageGeometry::make(shape_of(PageLayout::kPageFirst, false));
  const uint32_t bytes = kPageSlots * kLayers * kRow;
  CHECK(pieces_of(page_major, 4) == std::vector<Piece>{{kBase + bytes, bytes}});
  const PageGeometry apart = *PageGeometry::make(shape_of(PageLayout::kLayerFirst, false));
  CHECK(pieces_of(apart, 4).size() == kLayers);
  CHECK(apart.page_bytes() == bytes);
}

TEST_CASE("page_address: the pages of a pool cover its memory exactly once", "[unit]") {
  const auto layout = GENERATE(PageLayout::kLayerFirst, PageLayout::kPageFirst,
                               PageLayout::kPageFirstDirect, PageLayout::kPageHead);
  const auto has_v = GENERATE(true, false);
  const PageGeometry geometry = *PageGeometry::make(shape_of(layout, has_v));
  const uint64_t pool_bytes = kSlots * kLayers * kRow * (has_v ? 2 : 1);
  std::vector<int> touched(pool_bytes, 0);
  for (int64_t slot = 0; slot < int64_t{kSlots}; slot += kPageSlots) {
    uint64_t sum = 0;
    for (const Piece& piece : pieces_of(geometry, slot)) {
      sum += piece.second;
      REQUIRE(piece.first >= kBase);
      REQUIRE(piece.first + piece.second <= kBase + pool_bytes);
      for (uint32_t i = 0; i < piece.second; ++i) {
        ++touched[piece.first - kBase + i];
      }
    }
    CHECK(sum == geometry.page_bytes());
  }
  CHECK(std::accumulate(touched.begin(), touched.end(), 0) == static_cast<int>(pool_bytes));
  CHECK(std::find(touched.begin(), touched.end(), 0) == touched.end());
}

TEST_CASE("page_address: K and V may have rows of different length", "[unit]") {
  HostPoolShape shape = shape_of(PageLayout::kPageFirst, true);
  shape.v_row_bytes = kRow / 2;
  const PageGeometry geometry = *PageGeometry::make(shape);
  const std::vector<Piece> pieces = pieces_of(geometry, 4);
  CHECK(pieces[0].second == 2 * pieces[1].second);
  CHECK(pieces[1].first == shape.v_base_address + pieces[1].second);
}

TEST_CASE("page_address: a flattened page is cut into the pieces of an object, in order",
          "[unit]") {
  const PageGeometry geometry = *PageGeometry::make(shape_of(PageLayout::kLayerFirst, true));
  std::vector<std::byte> flat(geometry.page_bytes());
  std::vector<LocalPiece> pieces(geometry.pieces_per_page());
  geometry.flat_page_pieces(flat.data(), pieces.data());
  const uint32_t chunk = kPageSlots * kRow;
  // A pool flattens [K or V, layer, ...]: K of all layers first.
  constexpr std::array<uint32_t, 6> kOrder = {0, 3, 1, 4, 2, 5};
  for (size_t i = 0; i < kOrder.size(); ++i) {
    CHECK(pieces[i].address == flat.data() + kOrder[i] * chunk);
    CHECK(pieces[i].length_bytes == chunk);
  }
}

TEST_CASE("page_address: indices that are no whole pages are refused with their values", "[unit]") {
  const PageGeometry geometry = *PageGeometry::make(shape_of(PageLayout::kPageFirst, true));
  const std::vector<int64_t> good = {4, 5, 6, 7, 16, 17, 18, 19};
  CHECK(geometry.check_indices(good, 2).has_value());
  CHECK(geometry.check_indices(std::span(good).first(4), 1).has_value());
  const auto refused = [&geometry](std::vector<int64_t> indices, size_t pages) {
    const Result<void> result = geometry.check_indices(indices, pages);
    return !result.has_value() && result.error().code == Errc::kBadIndices;
  };
  CHECK(refused(good, 1));
  CHECK(refused(good, 3));
  CHECK(refused({1, 2, 3, 4}, 1));              // not at a page's start
  CHECK(refused({20, 21, 22, 23}, 1));          // the first slot behind the pool
  CHECK(refused({-4, -3, -2, -1}, 1));          // before it
  CHECK(refused({0, 1, 2, 4}, 1));              // a gap
  CHECK(refused({0, 1, 2, 3, 0, 0, 0, 0}, 2));  // the second page
  CHECK(refused({INT64_MAX - 3, INT64_MAX - 2, INT64_MAX - 1, INT64_MAX}, 1));
}

TEST_CASE("page_address: shapes that make no sense are refused", "[unit]") {
  const auto code_of = [](HostPoolShape shape) { return PageGeometry::make(shape).error().code; };
  HostPoolShape shape = shape_of(PageLayout::kPageFirst, true);
  shape.k_base_address = 0;
  CHECK(code_of(shape) == Errc::kInvalidArgument);
  shape = shape_of(PageLayout::kPageFirst, true);
  shape.v_row_bytes = 0;
  CHECK(code_of(shape) == Errc::kInvalidArgument);
  shape = shape_of(PageLayout::kPageFirst, true);
  shape.slot_count = kSlots + 1;
  CHECK(code_of(shape) == Errc::kInvalidArgument);
  shape = shape_of(PageLayout::kPageFirst, true);
  shape.k_row_bytes = uint64_t{1} << 40;
  CHECK(code_of(shape) == Errc::kWouldOverflow);
  shape = shape_of(PageLayout::kPageFirst, true);
  shape.k_row_bytes = shape.v_row_bytes = (uint64_t{1} << 31) / (kLayers * kPageSlots) + 1;
  CHECK(code_of(shape) == Errc::kWouldOverflow);
}

TEST_CASE("page_address: a layout is known by its name, and no other", "[unit]") {
  for (const PageLayout layout : {PageLayout::kLayerFirst, PageLayout::kPageFirst,
                                  PageLayout::kPageFirstDirect, PageLayout::kPageHead}) {
    CHECK(*parse_page_layout(to_string(layout)) == layout);
  }
  for (const char* name :
       {"", "page_unified", "page_first_kv_split", "PAGE_FIRST", "page_first "}) {
    CHECK(parse_page_layout(name).error().code == Errc::kUnknownLayout);
  }
}

}  // namespace
}  // namespace peercache
