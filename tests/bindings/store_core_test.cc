#include "bindings/store_core.h"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/node_cluster.h"

namespace peercache {
namespace {

constexpr uint32_t kPageSlots = 4;
constexpr uint32_t kPages = 6;
constexpr uint32_t kLayers = 3;
constexpr uint64_t kRow = 128;
constexpr uint64_t kPageBytes = 2 * kLayers * kPageSlots * kRow;

/// A host pool of K and V, a node alone, and the store between them.
class Bench {
 public:
  explicit Bench(PageLayout layout) : memory(kPages * kPageBytes) {
    HostPoolShape shape{
        .layout = layout,
        .k_base_address = reinterpret_cast<uintptr_t>(memory.data()),
        .v_base_address = reinterpret_cast<uintptr_t>(memory.data() + memory.size() / 2),
        .slot_count = kPages * kPageSlots,
        .page_slot_count = kPageSlots,
        .layer_count = kLayers,
        .k_row_bytes = kRow,
        .v_row_bytes = kRow};
    node = Node::open(testing::small_node({testing::free_port()}, 0, directory.path())).value();
    store.emplace(node, "test", PageGeometry::make(shape).value());
  }

  /// Host indices of these pages.
  static std::vector<int64_t> slots(const std::vector<int64_t>& pages) {
    std::vector<int64_t> out;
    for (const int64_t page : pages) {
      for (int64_t i = 0; i < kPageSlots; ++i) out.push_back(page * kPageSlots + i);
    }
    return out;
  }

  ScratchShelf::Lease call(const std::vector<std::string>& keys) {
    ScratchShelf::Lease scratch = store->shelf().lease();
    for (const std::string& key : keys) scratch->add_key(key);
    scratch->seal_keys();
    return scratch;
  }

  testing::TempDir directory;
  std::vector<std::byte> memory;
  std::shared_ptr<Node> node;
  std::optional<PageStore> store;
};

TEST_CASE("store_core: pages come back where they were sent, and are found by key", "[unit]") {
  Bench bench(GENERATE(PageLayout::kLayerFirst, PageLayout::kPageFirst, PageLayout::kPageHead));
  for (size_t i = 0; i < bench.memory.size(); ++i) {
    bench.memory[i] = static_cast<std::byte>((i * 131) >> 3);
  }
  const std::vector<std::byte> before = bench.memory;
  const std::vector<std::string> keys = {"a", "b", "c"};
  auto put = bench.call(keys);
  REQUIRE(bench.store->put(*put, Bench::slots({0, 2, 4}), {}, Nanos(0)).has_value());
  CHECK(std::count(put->statuses.begin(), put->statuses.end(), KeyStatus::kStored) == 3);

  auto exists = bench.call({"a", "b", "x", "c"});
  CHECK(bench.store->exists(*exists, Nanos(0)).value() == 2);
  CHECK(exists->statuses[3] == KeyStatus::kHitOwn);

  std::fill(bench.memory.begin(), bench.memory.end(), std::byte{0});
  auto get = bench.call(keys);
  REQUIRE(bench.store->get(*get, Bench::slots({0, 2, 4}), Nanos(0)).has_value());
  CHECK(std::count(get->statuses.begin(), get->statuses.end(), KeyStatus::kHitOwn) == 3);
  std::vector<LocalPiece> pieces(bench.store->geometry()->pieces_per_page());
  for (const int64_t page : {0, 2, 4}) {
    bench.store->geometry()->page_pieces(page * kPageSlots, pieces.data());
    for (const LocalPiece& piece : pieces) {
      const auto offset = piece.address - bench.memory.data();
      CHECK(std::equal(piece.address, piece.address + piece.length_bytes, before.begin() + offset));
    }
  }
}

TEST_CASE("store_core: a flattened page is the same object as one of the pool", "[unit]") {
  Bench bench(PageLayout::kLayerFirst);
  std::vector<std::byte> flat(kPageBytes);
  for (size_t i = 0; i < flat.size(); ++i)
    flat[i] = static_cast<std::byte>(i / (kPageSlots * kRow));
  auto put = bench.call({"a"});
  put->pieces.push_back({flat.data(), kPageBytes, LocalKey{0}});
  put->piece_offsets = {0, 1};
  REQUIRE(bench.store->split_flat_pages(*put).has_value());
  REQUIRE(bench.store->put_pieces(*put, {}, Nanos(0)).has_value());

  auto get = bench.call({"a"});
  REQUIRE(bench.store->get(*get, Bench::slots({1}), Nanos(0)).has_value());
  REQUIRE(get->statuses[0] == KeyStatus::kHitOwn);
  std::vector<LocalPiece> pieces(bench.store->geometry()->pieces_per_page());
  bench.store->geometry()->page_pieces(kPageSlots, pieces.data());
  for (size_t i = 0; i < pieces.size();
       ++i) {  // K0, V0, K1, ...; the flat page has K0, K1, K2, V0, ...
    const auto want = static_cast<std::byte>(i / 2 + (i % 2) * kLayers);
    CHECK(*pieces[i].address == want);
  }
}

TEST_CASE("store_core: what is no page is refused before anything is touched", "[unit]") {
  Bench bench(PageLayout::kPageFirst);
  auto call = bench.call({"a", "b"});
  const Result<void> wrong = bench.store->put(*call, Bench::slots({0}), {}, Nanos(0));
  REQUIRE(!wrong.has_value());
  CHECK(wrong.error().code == Errc::kBadIndices);

  std::vector<std::byte> flat(kPageBytes - 1);
  auto flat_call = bench.call({"a"});
  flat_call->pieces.push_back({flat.data(), static_cast<uint32_t>(flat.size()), LocalKey{0}});
  flat_call->piece_offsets = {0, 1};
  CHECK(bench.store->split_flat_pages(*flat_call).error().code == Errc::kPieceSumMismatch);

  PageStore unknown(bench.node, "test", std::nullopt);
  auto no_geometry = bench.call({"a"});
  CHECK(unknown.get(*no_geometry, Bench::slots({0}), Nanos(0)).error().code == Errc::kUnsupported);
}

TEST_CASE("store_core: scratch memory is lent again, empty", "[unit]") {
  ScratchShelf shelf;
  const CallScratch* first = nullptr;
  {
    ScratchShelf::Lease lease = shelf.lease();
    first = lease.get();
    lease->add_key("some key");
    lease->seal_keys();
    CHECK(lease->keys[0] == "some key");
  }
  const ScratchShelf::Lease again = shelf.lease();
  CHECK(again.get() == first);
  CHECK(again->key_count() == 0);
  CHECK(again->text.empty());
  const ScratchShelf::Lease other = shelf.lease();
  CHECK(other.get() != first);
}

TEST_CASE("store_core: views of keys hold although the text grew while they were added", "[unit]") {
  ScratchShelf shelf;
  const ScratchShelf::Lease lease = shelf.lease();
  for (int i = 0; i < 2000; ++i) lease->add_key(std::to_string(i));
  lease->seal_keys();
  for (int i = 0; i < 2000; ++i) {
    REQUIRE(lease->keys[static_cast<size_t>(i)] == std::to_string(i));
  }
}

}  // namespace
}  // namespace peercache
