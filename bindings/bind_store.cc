#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind_errors.h"
#include "bindings/bind_keys.h"
#include "bindings/bind_node.h"
#include "bindings/buffer_view.h"
#include "bindings/call_gate.h"

namespace py = pybind11;

namespace peercache {

namespace {

template <class T>
T field(const py::dict& fields, const char* name) {
  if (!fields.contains(name)) {
    raise_error(Errc::kMissingKey, std::string("missing field ") + name);
  }
  return fields[name].cast<T>();
}

PageNamespace read_namespace(const py::dict& fields) {
  PageNamespace out;
  out.prefix = field<std::string>(fields, "prefix");
  out.model = field<std::string>(fields, "model");
  out.tag = field<std::string>(fields, "tag");
  out.dtype = field<std::string>(fields, "dtype");
  out.layout = field<std::string>(fields, "layout");
  out.pool = field<std::string>(fields, "pool");
  out.component = field<std::string>(fields, "component");
  out.page_slot_count = field<uint64_t>(fields, "page_size");
  out.object_bytes = field<uint64_t>(fields, "object_bytes");
  out.tp_rank = field<uint64_t>(fields, "tp_rank");
  out.tp_size = field<uint64_t>(fields, "tp_size");
  out.pp_rank = field<uint64_t>(fields, "pp_rank");
  out.pp_size = field<uint64_t>(fields, "pp_size");
  out.cp_rank = field<uint64_t>(fields, "cp_rank");
  out.cp_size = field<uint64_t>(fields, "cp_size");
  out.replicated = field<bool>(fields, "replicated");
  return out;
}

/// A call of a pool: its keys, and what keeps its buffers in place.
///
/// THREAD:     the calling one.
class PoolCall {
 public:
  PoolCall(PageStore& store, py::handle keys, const py::object& seconds, BufferUse use)
      : timeout_(read_timeout(seconds)), scratch_(store.shelf().lease()), hold_(use) {
    read_keys(keys, *scratch_);
    held_.set_keys(scratch_->key_count());
  }

  [[nodiscard]] bool empty() const { return scratch_->key_count() == 0; }
  [[nodiscard]] Nanos timeout() const { return timeout_; }
  [[nodiscard]] CallScratch& scratch() { return *scratch_; }

  std::span<const int64_t> indices(py::handle object) {
    std::span<const int64_t> out;
    if (!hold_.indices(object.ptr(), out)) {
      raise_error(Errc::kBadIndices, hold_.reason());
    }
    return out;
  }

  /// The answer of a pool's own accessor: the same number of pieces for every page.
  void add_pieces(const py::sequence& addresses, const py::sequence& lengths) {
    const size_t pages = scratch_->key_count();
    const size_t count = addresses.size();
    if (count == 0 || count != lengths.size() || count % pages != 0) {
      raise_error(Errc::kBadBuffer, std::to_string(count) + " addresses and " +
                                        std::to_string(lengths.size()) + " lengths for " +
                                        std::to_string(pages) + " pages");
    }
    scratch_->piece_offsets.push_back(0);
    for (size_t i = 0; i < count; ++i) {
      if (!hold_.add_object(py::make_tuple(addresses[i], lengths[i]).ptr(), scratch_->pieces)) {
        raise_error(Errc::kBadBuffer, "piece " + std::to_string(i) + ": " + hold_.reason());
      }
      if ((i + 1) % (count / pages) == 0) {
        scratch_->end_object();
      }
    }
  }

  /// One flattened page per key.
  void add_flat(const py::sequence& buffers) {
    const size_t pages = scratch_->key_count();
    if (buffers.size() != pages) {
      raise_error(Errc::kBadBuffer, std::to_string(buffers.size()) + " buffers for " +
                                        std::to_string(pages) + " keys");
    }
    scratch_->piece_offsets.push_back(0);
    for (size_t i = 0; i < pages; ++i) {
      if (!hold_.add_object(py::object(buffers[i]).ptr(), scratch_->pieces)) {
        raise_error(Errc::kBadBuffer, "buffer " + std::to_string(i) + ": " + hold_.reason());
      }
      scratch_->end_object();
    }
  }

  template <class Work>
  py::object run(Work&& work) {
    value_or_raise(held_.pause(std::forward<Work>(work)));
    return to_bool_list(scratch_->statuses);
  }

  template <class Work>
  auto run_raw(Work&& work) {
    return value_or_raise(held_.pause(std::forward<Work>(work)));
  }

 private:
  HeldTime held_;
  Nanos timeout_;
  ScratchShelf::Lease scratch_;
  BufferHold hold_;
};

/// `peercache._native.PagePool`.
///
/// THREAD:     any with the interpreter's lock; calls give it away while they wait.
/// OWNS:       its page store, with a share of the node.
class PagePool {
 public:
  PagePool(PythonNode& node, const py::dict& fields)
      : store_(node.node, read_namespace(fields).to_text(), read_geometry(fields)) {}

  [[nodiscard]] const std::string& namespace_text() const { return store_.namespace_text(); }

  uint32_t exists(const py::object& keys, const py::object& seconds) {
    check_gate();
    PoolCall call(store_, keys, seconds, BufferUse::kRead);
    if (call.empty()) {
      return 0;
    }
    return call.run_raw([&] { return store_.exists(call.scratch(), call.timeout()); });
  }

  py::object get(const py::object& keys,
                 const py::object& host_indices,
                 const py::object& seconds) {
    check_gate();
    PoolCall call(store_, keys, seconds, BufferUse::kWrite);
    const std::span<const int64_t> indices = call.indices(host_indices);
    if (call.empty()) {
      return py::list();
    }
    return call.run([&] { return store_.get(call.scratch(), indices, call.timeout()); });
  }

  py::object put(const py::object& keys,
                 const py::object& host_indices,
                 const py::object& parent,
                 uint32_t first_position,
                 const py::object& seconds) {
    check_gate();
    PoolCall call(store_, keys, seconds, BufferUse::kRead);
    const std::span<const int64_t> indices = call.indices(host_indices);
    const PrefixPlace place = place_of(parent, first_position);
    if (call.empty()) {
      return py::list();
    }
    return call.run([&] { return store_.put(call.scratch(), indices, place, call.timeout()); });
  }

  py::object get_pieces(const py::object& keys,
                        const py::sequence& addresses,
                        const py::sequence& lengths,
                        const py::object& seconds) {
    check_gate();
    PoolCall call(store_, keys, seconds, BufferUse::kWrite);
    if (call.empty()) {
      return py::list();
    }
    call.add_pieces(addresses, lengths);
    return call.run([&] { return store_.get_pieces(call.scratch(), call.timeout()); });
  }

  py::object put_pieces(const py::object& keys,
                        const py::sequence& addresses,
                        const py::sequence& lengths,
                        const py::object& parent,
                        uint32_t first_position,
                        const py::object& seconds) {
    check_gate();
    PoolCall call(store_, keys, seconds, BufferUse::kRead);
    const PrefixPlace place = place_of(parent, first_position);
    if (call.empty()) {
      return py::list();
    }
    call.add_pieces(addresses, lengths);
    return call.run([&] { return store_.put_pieces(call.scratch(), place, call.timeout()); });
  }

  py::object get_flat(const py::object& keys,
                      const py::sequence& buffers,
                      const py::object& seconds) {
    check_gate();
    PoolCall call(store_, keys, seconds, BufferUse::kWrite);
    if (call.empty()) {
      return py::list();
    }
    call.add_flat(buffers);
    return call.run([&]() -> Result<void> {
      PC_TRY(store_.split_flat_pages(call.scratch()));
      return store_.get_pieces(call.scratch(), call.timeout());
    });
  }

  py::object put_flat(const py::object& keys,
                      const py::sequence& buffers,
                      const py::object& parent,
                      uint32_t first_position,
                      const py::object& seconds) {
    check_gate();
    PoolCall call(store_, keys, seconds, BufferUse::kRead);
    const PrefixPlace place = place_of(parent, first_position);
    if (call.empty()) {
      return py::list();
    }
    call.add_flat(buffers);
    return call.run([&]() -> Result<void> {
      PC_TRY(store_.split_flat_pages(call.scratch()));
      return store_.put_pieces(call.scratch(), place, call.timeout());
    });
  }

 private:
  static std::optional<PageGeometry> read_geometry(const py::dict& fields) {
    if (!fields.contains("geometry") || fields["geometry"].is_none()) {
      return std::nullopt;
    }
    return geometry_from(fields["geometry"].cast<py::dict>());
  }

  [[nodiscard]] PrefixPlace place_of(const py::object& parent, uint32_t first_position) const {
    PrefixPlace place{.chained = true, .parent = {}, .first_position_index = first_position};
    if (!parent.is_none()) {
      place.parent = store_.hasher().hash(key_text(parent));
    }
    return place;
  }

 public:
  /// Fields of HostPoolShape by name. Raises ArgumentError.
  static PageGeometry geometry_from(const py::dict& shape) {
    return value_or_raise(PageGeometry::make(HostPoolShape{
        .layout = value_or_raise(parse_page_layout(field<std::string>(shape, "layout"))),
        .k_base_address = field<uint64_t>(shape, "k_base_address"),
        .v_base_address = field<uint64_t>(shape, "v_base_address"),
        .slot_count = field<uint64_t>(shape, "slot_count"),
        .page_slot_count = field<uint32_t>(shape, "page_slot_count"),
        .layer_count = field<uint32_t>(shape, "layer_count"),
        .k_row_bytes = field<uint64_t>(shape, "k_row_bytes"),
        .v_row_bytes = field<uint64_t>(shape, "v_row_bytes"),
    }));
  }

 private:
  PageStore store_;
};

/// Addresses and lengths of all pieces of the pages that `host_indices` names, as a host pool's
/// accessor gives them.
py::tuple page_pieces(const py::dict& shape, const py::object& host_indices) {
  const PageGeometry geometry = PagePool::geometry_from(shape);
  BufferHold hold(BufferUse::kRead);
  std::span<const int64_t> indices;
  if (!hold.indices(host_indices.ptr(), indices)) {
    raise_error(Errc::kBadIndices, hold.reason());
  }
  const size_t pages = indices.size() / geometry.page_slot_count();
  value_or_raise(geometry.check_indices(indices, pages));
  std::vector<LocalPiece> pieces(geometry.pieces_per_page());
  py::list addresses;
  py::list lengths;
  for (size_t page = 0; page < pages; ++page) {
    geometry.page_pieces(indices[page * geometry.page_slot_count()], pieces.data());
    for (const LocalPiece& piece : pieces) {
      addresses.append(reinterpret_cast<uintptr_t>(piece.address));
      lengths.append(piece.length_bytes);
    }
  }
  return py::make_tuple(addresses, lengths);
}

/// Raises ArgumentError unless the indices name `pages` whole pages of a pool.
void check_indices(const py::object& host_indices,
                   size_t pages,
                   uint32_t page_size,
                   uint64_t slot_count) {
  BufferHold hold(BufferUse::kRead);
  std::span<const int64_t> indices;
  if (!hold.indices(host_indices.ptr(), indices)) {
    raise_error(Errc::kBadIndices, hold.reason());
  }
  value_or_raise(check_host_indices(indices, pages, page_size, slot_count));
}

}  // namespace

void bind_store(py::module_& module) {
  const auto no_timeout = py::arg("timeout") = py::none();
  const auto no_parent = py::arg("parent") = py::none();
  const auto at_head = py::arg("first_position") = 0;
  py::class_<PagePool>(module, "PagePool",
                       "The pages of one host pool as objects of a node; see store_core.h.")
      .def(py::init<PythonNode&, const py::dict&>(), py::arg("node"), py::arg("fields"))
      .def_property_readonly("namespace_text", &PagePool::namespace_text)
      .def("exists", &PagePool::exists, py::arg("keys"), no_timeout)
      .def("get", &PagePool::get, py::arg("keys"), py::arg("host_indices"), no_timeout)
      .def("put", &PagePool::put, py::arg("keys"), py::arg("host_indices"), no_parent, at_head,
           no_timeout)
      .def("get_pieces", &PagePool::get_pieces, py::arg("keys"), py::arg("addresses"),
           py::arg("lengths"), no_timeout)
      .def("put_pieces", &PagePool::put_pieces, py::arg("keys"), py::arg("addresses"),
           py::arg("lengths"), no_parent, at_head, no_timeout)
      .def("get_flat", &PagePool::get_flat, py::arg("keys"), py::arg("buffers"), no_timeout)
      .def("put_flat", &PagePool::put_flat, py::arg("keys"), py::arg("buffers"), no_parent, at_head,
           no_timeout);
  module.def("page_pieces", &page_pieces, py::arg("shape"), py::arg("host_indices"));
  module.def("check_indices", &check_indices, py::arg("host_indices"), py::arg("pages"),
             py::arg("page_size"), py::arg("slot_count"));
  module.def(
      "namespace_text", [](const py::dict& fields) { return read_namespace(fields).to_text(); },
      py::arg("fields"));
}

}  // namespace peercache
