#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/page_address.h"
#include "bindings/page_namespace.h"
#include "controlplane/node/node.h"
#include "dataplane/base/result.h"

namespace peercache {

/// Working memory of one call: what crossed from the caller, and what goes back. Reused, so that a
/// steady load allocates nothing.
///
/// THREAD:     owned by the call that leased it.
/// INVARIANTS: (S1) views into `text` are made by seal_keys, after the last key was added.
class CallScratch {
 public:
  void clear() noexcept;
  /// Copies a key's text: the caller's object may go while the call runs without the interpreter's
  /// lock.
  void add_key(std::string_view key);
  void seal_keys();
  [[nodiscard]] size_t key_count() const noexcept { return key_ends.size(); }

  /// Closes the object whose pieces were appended to `pieces` since the last call.
  void end_object() { piece_offsets.push_back(static_cast<uint32_t>(pieces.size())); }

  std::vector<char> text;
  std::vector<size_t> key_ends;
  std::vector<std::string_view> keys;
  std::vector<Key128> names;
  std::vector<LocalPiece> pieces;
  std::vector<uint32_t> piece_offsets;  ///< starts with 0
  std::vector<KeyStatus> statuses;
};

/// Lends CallScratch objects.
///
/// THREAD:     any. A mutex and not a ring: held for a push or pop of a pointer, a few times per
/// call of a batch.
class ScratchShelf {
 public:
  struct GiveBack {
    ScratchShelf* shelf;
    void operator()(CallScratch* scratch) const noexcept;
  };
  using Lease = std::unique_ptr<CallScratch, GiveBack>;

  [[nodiscard]] Lease lease();

 private:
  static constexpr size_t kKeptMax =
      16;  // twice the clients of a node: more calls than that wait there anyway

  std::mutex mutex_;
  std::vector<std::unique_ptr<CallScratch>> free_;
};

/// The pages of one host pool as objects of a node: names, addresses and calls, with nothing of
/// Python in it.
///
/// THREAD:     any; immutable but for the shelf.
/// OWNS:       a share of the node. BORROWS: the host pool's memory.
/// INVARIANTS: (P1) when a call returns, nobody touches the host pool any more (N2 of Node).
/// COST:       no allocation once the scratch has grown to the batch.
class PageStore {
 public:
  /// Without geometry only the calls that bring their pieces work.
  PageStore(std::shared_ptr<Node> node,
            std::string namespace_text,
            std::optional<PageGeometry> geometry);

  [[nodiscard]] const std::string& namespace_text() const noexcept { return namespace_text_; }
  [[nodiscard]] const std::optional<PageGeometry>& geometry() const noexcept { return geometry_; }
  [[nodiscard]] ScratchShelf& shelf() noexcept { return shelf_; }
  [[nodiscard]] Node& node() noexcept { return *node_; }
  [[nodiscard]] const KeyHasher& hasher() const noexcept { return hasher_; }

  /// All take sealed keys in `scratch` and leave one status per key in scratch.statuses.
  /// The leading run of keys that are held somewhere.
  [[nodiscard]] Result<uint32_t> exists(CallScratch& scratch, Nanos timeout);
  /// Pages of the pool, named by their slots. Errors: kBadIndices, those of Node.
  [[nodiscard]] Result<void> get(CallScratch& scratch,
                                 std::span<const int64_t> host_indices,
                                 Nanos timeout);
  [[nodiscard]] Result<void> put(CallScratch& scratch,
                                 std::span<const int64_t> host_indices,
                                 const PrefixPlace& place,
                                 Nanos timeout);
  /// The caller has filled scratch.pieces and scratch.piece_offsets.
  [[nodiscard]] Result<void> get_pieces(CallScratch& scratch, Nanos timeout);
  [[nodiscard]] Result<void> put_pieces(CallScratch& scratch,
                                        const PrefixPlace& place,
                                        Nanos timeout);

  /// Replaces each object's single piece, a page flattened by its pool, by its pieces in the order
  /// of an object. Without geometry nothing is done. Errors: kPieceSumMismatch when a piece is no
  /// page.
  [[nodiscard]] Result<void> split_flat_pages(CallScratch& scratch) const;

 private:
  [[nodiscard]] Result<void> locate(CallScratch& scratch,
                                    std::span<const int64_t> host_indices) const;
  void name(CallScratch& scratch) const;
  [[nodiscard]] static ObjectBatch batch_of(const CallScratch& scratch) noexcept;

  std::shared_ptr<Node> node_;
  std::string namespace_text_;
  KeyHasher hasher_;
  std::optional<PageGeometry> geometry_;
  ScratchShelf shelf_;
};

}  // namespace peercache
