#include "bindings/store_core.h"

#include <utility>

namespace peercache {

void CallScratch::clear() noexcept {
  text.clear();
  key_ends.clear();
  keys.clear();
  names.clear();
  pieces.clear();
  piece_offsets.clear();
  statuses.clear();
}

void CallScratch::add_key(std::string_view key) {
  text.insert(text.end(), key.begin(), key.end());
  key_ends.push_back(text.size());
}

void CallScratch::seal_keys() {
  keys.resize(key_ends.size());
  size_t start = 0;
  for (size_t i = 0; i < key_ends.size(); ++i) {
    keys[i] = std::string_view(text.data() + start, key_ends[i] - start);
    start = key_ends[i];
  }
}

void ScratchShelf::GiveBack::operator()(CallScratch* scratch) const noexcept {
  std::unique_ptr<CallScratch> owned(scratch);
  const std::lock_guard lock(shelf->mutex_);
  if (shelf->free_.size() < kKeptMax) {
    shelf->free_.push_back(std::move(owned));  // within the capacity that lease() reserved
  }
}

ScratchShelf::Lease ScratchShelf::lease() {
  std::unique_ptr<CallScratch> scratch;
  {
    const std::lock_guard lock(mutex_);
    free_.reserve(kKeptMax);
    if (!free_.empty()) {
      scratch = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!scratch) {
    scratch = std::make_unique<CallScratch>();
  }
  scratch->clear();
  return Lease(scratch.release(), GiveBack{this});
}

PageStore::PageStore(std::shared_ptr<Node> node,
                     std::string namespace_text,
                     std::optional<PageGeometry> geometry)
    : node_(std::move(node)),
      namespace_text_(std::move(namespace_text)),
      hasher_(namespace_text_),
      geometry_(geometry) {}

void PageStore::name(CallScratch& scratch) const {
  scratch.names.resize(scratch.keys.size());
  hasher_.hash(scratch.keys, scratch.names);
  scratch.statuses.assign(scratch.keys.size(), KeyStatus::kPending);
}

ObjectBatch PageStore::batch_of(const CallScratch& scratch) noexcept {
  return ObjectBatch{
      .keys = scratch.names, .pieces = scratch.pieces, .piece_offsets = scratch.piece_offsets};
}

Result<void> PageStore::locate(CallScratch& scratch, std::span<const int64_t> host_indices) const {
  if (!geometry_.has_value()) {
    return make_error(Errc::kUnsupported,
                      "the layout of this host pool is not known, its pieces must be given");
  }
  const size_t pages = scratch.keys.size();
  PC_TRY(geometry_->check_indices(host_indices, pages));
  const uint32_t per_page = geometry_->pieces_per_page();
  scratch.pieces.resize(pages * per_page);
  scratch.piece_offsets.resize(pages + 1);
  for (size_t page = 0; page < pages; ++page) {
    scratch.piece_offsets[page] = narrow<uint32_t>(page * per_page);
    geometry_->page_pieces(host_indices[page * geometry_->page_slot_count()],
                           &scratch.pieces[page * per_page]);
  }
  scratch.piece_offsets[pages] = narrow<uint32_t>(pages * per_page);
  return {};
}

Result<uint32_t> PageStore::exists(CallScratch& scratch, Nanos timeout) {
  name(scratch);
  return node_->exists(scratch.names, scratch.statuses, timeout);
}

Result<void> PageStore::get(CallScratch& scratch,
                            std::span<const int64_t> host_indices,
                            Nanos timeout) {
  PC_TRY(locate(scratch, host_indices));
  return get_pieces(scratch, timeout);
}

Result<void> PageStore::put(CallScratch& scratch,
                            std::span<const int64_t> host_indices,
                            const PrefixPlace& place,
                            Nanos timeout) {
  PC_TRY(locate(scratch, host_indices));
  return put_pieces(scratch, place, timeout);
}

Result<void> PageStore::get_pieces(CallScratch& scratch, Nanos timeout) {
  name(scratch);
  return node_->get(batch_of(scratch), scratch.statuses, timeout);
}

Result<void> PageStore::put_pieces(CallScratch& scratch, const PrefixPlace& place, Nanos timeout) {
  name(scratch);
  return node_->put(batch_of(scratch), place, scratch.statuses, timeout);
}

Result<void> PageStore::split_flat_pages(CallScratch& scratch) const {
  if (!geometry_.has_value()) {
    return {};
  }
  const uint32_t per_page = geometry_->pieces_per_page();
  const size_t pages = scratch.pieces.size();
  if (scratch.piece_offsets.size() != pages + 1) {
    return make_error(Errc::kPieceSumMismatch,
                      "{} pieces in {} objects, a flattened page is one piece", pages,
                      scratch.piece_offsets.size() - 1);
  }
  std::vector<LocalPiece> split(pages * per_page);
  for (size_t page = 0; page < pages; ++page) {
    const LocalPiece& flat = scratch.pieces[page];
    if (flat.length_bytes != geometry_->page_bytes()) {
      return make_error(Errc::kPieceSumMismatch,
                        "page {} of the call has {} bytes, pages of this pool have {}", page,
                        flat.length_bytes, geometry_->page_bytes());
    }
    geometry_->flat_page_pieces(flat.address, &split[page * per_page]);
    scratch.piece_offsets[page] = narrow<uint32_t>(page * per_page);
  }
  scratch.piece_offsets[pages] = narrow<uint32_t>(pages * per_page);
  scratch.pieces.swap(split);
  return {};
}

}  // namespace peercache
