#include "bindings/bind_node.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/bind_errors.h"
#include "bindings/bind_keys.h"
#include "bindings/buffer_view.h"
#include "bindings/call_gate.h"
#include "bindings/node_docs.h"
#include "controlplane/config/options_load.h"

namespace py = pybind11;

namespace peercache {

namespace {

/// What became of each key of a call, as an array.
///
/// THREAD:     immutable after construction.
struct Statuses {
  std::vector<KeyStatus> values;

  [[nodiscard]] size_t leading() const {
    return static_cast<size_t>(std::find_if_not(values.begin(), values.end(), is_success) -
                               values.begin());
  }
  [[nodiscard]] bool all() const { return leading() == values.size(); }
};

Statuses statuses_of(const CallScratch& scratch) { return Statuses{.values = scratch.statuses}; }

/// Asked by a node that waits for its cluster, without the interpreter's lock: has a signal handler
/// raised?
bool signal_pending() {
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0;  // leaves the exception, which open_node raises
  PyGILState_Release(state);
  return raised;
}

/// Ends a node without the interpreter's lock: that takes until its threads have gone.
void end_node(Node* node) {
  const std::unique_ptr<Node> owned(node);
  if (PyGILState_Check() == 1 && !CallGate::of_process().is_shut()) {
    without_lock([node] { node->close(); });
  }
}

PythonNode open_node(const std::string& options_json, const std::string& name_space) {
  check_gate();
  const Result<NodeOptions, std::string> loaded = load_options(options_json);
  if (!loaded.has_value()) {
    raise_error(Errc::kBadValue, loaded.error());
  }
  const NodeOptions options = *loaded;
  auto opened = without_lock([&options] { return Node::open(options, &signal_pending); });
  if (PyErr_Occurred() != nullptr) {
    throw py::error_already_set();
  }
  const std::shared_ptr<Node> node(value_or_raise(std::move(opened)).release(), &end_node);
  CallGate::of_process().add_node(node);
  return PythonNode{.node = node,
                    .objects = std::make_unique<PageStore>(node, name_space, std::nullopt)};
}

/// Appends one object per key to `scratch`: from a sequence with one entry per key, or from one
/// buffer cut evenly.
void read_objects(py::handle buffers, BufferHold& hold, CallScratch& scratch) {
  const size_t keys = scratch.key_count();
  scratch.piece_offsets.push_back(0);
  if (PyList_Check(buffers.ptr()) || PyTuple_Check(buffers.ptr())) {
    const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(buffers.ptr()));
    if (count != keys) {
      raise_error(Errc::kBadBuffer,
                  std::to_string(count) + " buffers for " + std::to_string(keys) + " keys");
    }
    for (size_t i = 0; i < keys; ++i) {
      if (!hold.add_object(PySequence_Fast_GET_ITEM(buffers.ptr(), static_cast<Py_ssize_t>(i)),
                           scratch.pieces)) {
        raise_error(Errc::kBadBuffer, "buffer " + std::to_string(i) + ": " + hold.reason());
      }
      scratch.end_object();
    }
    return;
  }
  if (!hold.add_object(buffers.ptr(), scratch.pieces)) {
    raise_error(Errc::kBadBuffer, hold.reason());
  }
  if (scratch.pieces.empty() || scratch.pieces[0].length_bytes % keys != 0) {
    const size_t bytes = scratch.pieces.empty() ? 0 : scratch.pieces[0].length_bytes;
    raise_error(Errc::kBadBuffer, "a buffer of " + std::to_string(bytes) +
                                      " bytes cannot be cut evenly for " + std::to_string(keys) +
                                      " keys");
  }
  const LocalPiece whole = scratch.pieces[0];
  const auto bytes = static_cast<uint32_t>(whole.length_bytes / keys);
  scratch.pieces.clear();
  for (size_t i = 0; i < keys; ++i) {
    scratch.pieces.push_back(LocalPiece{
        .address = whole.address + i * bytes, .length_bytes = bytes, .local_key = LocalKey{0}});
    scratch.end_object();
  }
}

/// One key stands for a list of it, and its buffers for a list of them.
struct KeysAndBuffers {
  py::object keys;
  py::object buffers;
};
KeysAndBuffers as_lists(const py::object& keys, const py::object& buffers) {
  if (PyUnicode_Check(keys.ptr()) || PyBytes_Check(keys.ptr())) {
    return {py::make_tuple(keys), py::make_tuple(buffers)};
  }
  return {keys, buffers};
}

Statuses get(PythonNode& self,
             const py::object& keys,
             const py::object& buffers,
             const py::object& seconds) {
  check_gate();
  HeldTime held;
  const Nanos timeout = read_timeout(seconds);
  const auto scratch = self.objects->shelf().lease();
  const KeysAndBuffers lists = as_lists(keys, buffers);
  read_keys(lists.keys, *scratch);
  held.set_keys(scratch->key_count());
  if (scratch->key_count() == 0) {
    return Statuses{};
  }
  BufferHold hold(BufferUse::kWrite);
  read_objects(lists.buffers, hold, *scratch);
  value_or_raise(held.pause([&] { return self.objects->get_pieces(*scratch, timeout); }));
  return statuses_of(*scratch);
}

Statuses put(PythonNode& self,
             const py::object& keys,
             const py::object& buffers,
             const py::object& parent,
             uint32_t first_position,
             bool chained,
             const py::object& seconds) {
  check_gate();
  HeldTime held;
  const Nanos timeout = read_timeout(seconds);
  const auto scratch = self.objects->shelf().lease();
  const KeysAndBuffers lists = as_lists(keys, buffers);
  read_keys(lists.keys, *scratch);
  held.set_keys(scratch->key_count());
  if (scratch->key_count() == 0) {
    return Statuses{};
  }
  PrefixPlace place{.chained = chained, .parent = {}, .first_position_index = first_position};
  if (!parent.is_none()) {
    place.parent = self.objects->hasher().hash(key_text(parent));
  }
  BufferHold hold(BufferUse::kRead);
  read_objects(lists.buffers, hold, *scratch);
  value_or_raise(held.pause([&] { return self.objects->put_pieces(*scratch, place, timeout); }));
  return statuses_of(*scratch);
}

Statuses exists(PythonNode& self, const py::object& keys, const py::object& seconds) {
  check_gate();
  HeldTime held;
  const Nanos timeout = read_timeout(seconds);
  const auto scratch = self.objects->shelf().lease();
  read_keys(as_lists(keys, py::none()).keys, *scratch);
  held.set_keys(scratch->key_count());
  if (scratch->key_count() > 0) {
    value_or_raise(held.pause([&] { return self.objects->exists(*scratch, timeout); }));
  }
  return statuses_of(*scratch);
}

void remove(PythonNode& self, const py::object& keys, const py::object& seconds) {
  check_gate();
  const Nanos timeout = read_timeout(seconds);
  const auto scratch = self.objects->shelf().lease();
  read_keys(as_lists(keys, py::none()).keys, *scratch);
  scratch->names.resize(scratch->key_count());
  self.objects->hasher().hash(scratch->keys, scratch->names);
  value_or_raise(without_lock([&] { return self.node->remove(scratch->names, timeout); }));
}

void clear(PythonNode& self, const py::object& seconds) {
  check_gate();
  const Nanos timeout = read_timeout(seconds);
  value_or_raise(without_lock([&] { return self.node->clear(timeout); }));
}

void flush(PythonNode& self, const py::object& seconds) {
  check_gate();
  const Nanos timeout = read_timeout(seconds);
  value_or_raise(without_lock([&] { return self.node->flush(timeout); }));
}

void prepare_length(PythonNode& self, uint32_t length_bytes) {
  check_gate();
  value_or_raise(without_lock([&] { return self.node->prepare_length(length_bytes); }));
}

void close(PythonNode& self) {
  if (CallGate::of_process().is_shut()) {
    return;  // closed with all others already
  }
  without_lock([&] { self.node->close(); });
}

void bind_statuses(py::module_& module) {
  py::enum_<KeyStatus>(module, "KeyStatus", "What became of one key of a call.")
      .value("PENDING", KeyStatus::kPending, "not decided (never returned)")
      .value("HIT_OWN", KeyStatus::kHitOwn, "get, exists: held by this node")
      .value("HIT_PEER", KeyStatus::kHitPeer, "get, exists: held by another node")
      .value("MISS", KeyStatus::kMiss, "get, exists: nowhere, or lost between lookup and read")
      .value("STORED", KeyStatus::kStored, "put: copied and published here")
      .value("HELD", KeyStatus::kHeld, "put: a live node holds it already; nothing was copied")
      .value("NO_SPACE", KeyStatus::kNoSpace, "put: no free slot within the deadline")
      .value("DEADLINE", KeyStatus::kDeadline, "the call's deadline passed first")
      .value("FAILED", KeyStatus::kFailed, "see stats(); for instance no size class fits")
      .value("CANCELLED", KeyStatus::kCancelled, "the call was cancelled");
  py::class_<Statuses>(
      module, "Statuses", py::buffer_protocol(),
      "One KeyStatus per key of a call, in the order of its keys; true when all succeeded.\n\n"
      "Its buffer is one unsigned byte per key.\n\n"
      "Source: bindings/bind_node.cc.")
      .def_buffer([](Statuses& self) {
        return py::buffer_info(reinterpret_cast<uint8_t*>(self.values.data()), 1,
                               py::format_descriptor<uint8_t>::format(), 1, {self.values.size()},
                               {1}, true);
      })
      .def("__len__", [](const Statuses& self) { return self.values.size(); })
      .def("__bool__", &Statuses::all)
      .def("__getitem__",
           [](const Statuses& self, py::ssize_t index) {
             const auto count = static_cast<py::ssize_t>(self.values.size());
             const py::ssize_t at = index < 0 ? index + count : index;
             if (at < 0 || at >= count) {
               throw py::index_error("no such key");
             }
             return self.values[static_cast<size_t>(at)];
           })
      .def(
          "ok", [](const Statuses& self) { return to_bool_list(self.values); },
          "Returns one bool per key: a hit, or stored, or held already.")
      .def_property_readonly("leading", &Statuses::leading,
                             "How many keys from the first on succeeded without a gap.")
      .def("__repr__", [](const Statuses& self) {
        return "<Statuses of " + std::to_string(self.values.size()) + " keys, leading " +
               std::to_string(self.leading()) + ">";
      });
}

}  // namespace

void bind_node(py::module_& module) {
  bind_statuses(module);
  const auto no_timeout = py::arg("timeout") = py::none();
  py::class_<PythonNode>(module, "Node", "A node; see peercache.Node, which adds the options.")
      .def(py::init(&open_node), py::arg("options_json"), py::arg("namespace"))
      .def("put", &put, docs::kPut, py::arg("keys"), py::arg("buffers"), py::kw_only(),
           py::arg("parent") = py::none(), py::arg("first_position") = 0, py::arg("chained") = true,
           no_timeout)
      .def("get", &get, docs::kGet, py::arg("keys"), py::arg("buffers"), py::kw_only(), no_timeout)
      .def("exists", &exists, docs::kExists, py::arg("keys"), py::kw_only(), no_timeout)
      .def("remove", &remove, docs::kRemove, py::arg("keys"), py::kw_only(), no_timeout)
      .def("clear", &clear, docs::kClear, py::kw_only(), no_timeout)
      .def("flush", &flush, docs::kFlush, py::kw_only(), no_timeout)
      .def("prepare_length", &prepare_length, docs::kPrepareLength, py::arg("length_bytes"))
      .def(
          "stats", [](PythonNode& self) { return stats_dict(*self.node); }, docs::kStats)
      .def("close", &close, docs::kClose)
      .def_property_readonly("node_id", [](PythonNode& self) { return self.node->node_id(); })
      .def_property_readonly("control_address",
                             [](PythonNode& self) { return self.node->control_address(); })
      .def_property_readonly("members_up",
                             [](PythonNode& self) { return self.node->members_up_count(); });
}

}  // namespace peercache
