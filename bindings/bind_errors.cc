#include "bindings/bind_errors.h"

#include <array>

#include "bindings/call_gate.h"

namespace py = pybind11;

namespace peercache {

namespace {

/// One exception class of the module.
struct ErrorClass {
  uint16_t range;
  const char* name;
  PyObject** second_base;  ///< a builtin class that callers may catch as well, or null
  const char* doc;
};

constexpr uint16_t kRangeSize = 1000;

std::array<ErrorClass, 10> error_classes() {
  return {{
      {0, "CallError", nullptr,
       "A call could not be done: bad argument, closed, busy, timed out, out of memory."},
      {1000, "WireError", nullptr, "Bytes from a peer or a file make no sense."},
      {2000, "TransportError", nullptr, "A peer or its memory cannot be reached or refuses."},
      {3000, "EngineError", nullptr, "A batch of operations cannot be run as it was given."},
      {4000, "PoolError", nullptr, "The pool cannot hold what it was asked to."},
      {5000, "HardwareError", nullptr,
       "Topology, huge pages, thread pinning or a GPU path is not as demanded."},
      {6000, "DirectoryError", nullptr, "Discovery, membership or directory refuse."},
      {7000, "TierError", nullptr, "The disk tier cannot do it."},
      {8000, "ConfigError", &PyExc_ValueError,
       "A configuration key is unknown, missing, or has a bad value."},
      {9000, "ArgumentError", &PyExc_ValueError,
       "A buffer, index or host pool given by Python cannot be used."},
  }};
}

// Strong references for the life of the process: an exception may be raised until the interpreter
// ends.
PyObject* base_class = nullptr;
std::array<PyObject*, 10> range_classes{};

PyObject* class_of(Errc code) {
  const size_t range = static_cast<uint16_t>(code) / kRangeSize;
  return range < range_classes.size() ? range_classes[range] : base_class;
}

void set_attribute(PyObject* exception, const char* name, PyObject* value) {
  if (value == nullptr || PyObject_SetAttrString(exception, name, value) != 0) {
    PyErr_Clear();
  }
  Py_XDECREF(value);
}

[[noreturn]] void raise_with(Errc code, const std::string& message, int os_errno, uint32_t vendor) {
  PyObject* const text =
      PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace");
  PyObject* const exception = PyObject_CallFunction(class_of(code), "N", text);
  if (exception != nullptr) {
    set_attribute(exception, "code", PyLong_FromLong(static_cast<uint16_t>(code)));
    set_attribute(exception, "reason", PyUnicode_FromString(to_string(code)));
    set_attribute(exception, "errno", PyLong_FromLong(os_errno));
    set_attribute(exception, "vendor", PyLong_FromUnsignedLong(vendor));
    PyErr_SetObject(class_of(code), exception);
    Py_DECREF(exception);
  }
  throw py::error_already_set();
}

}  // namespace

void raise_error(const Error& error) {
  raise_with(error.code, to_string(error), error.os_errno, error.vendor);
}

void raise_error(Errc code, const std::string& message) { raise_with(code, message, 0, 0); }

void check_gate() {
  if (CallGate::of_process().is_shut()) {
    raise_error(Errc::kClosed, "the interpreter is ending");
  }
}

void bind_errors(py::module_& module) {
  // Qualified with the package's name, where they are imported to.
  base_class = PyErr_NewExceptionWithDoc(
      "peercache.PeerCacheError",
      "Base of all errors of this package.\n\n"
      "Attributes: code (number, see docs), reason (the code in words), errno, "
      "vendor (number given by a device, or 0).",
      PyExc_Exception, nullptr);
  if (base_class == nullptr) {
    throw py::error_already_set();
  }
  // What an error raised by Python code of the package has.
  set_attribute(base_class, "code", PyLong_FromLong(0));
  set_attribute(base_class, "reason", PyUnicode_FromString(""));
  set_attribute(base_class, "errno", PyLong_FromLong(0));
  set_attribute(base_class, "vendor", PyLong_FromLong(0));
  module.add_object("PeerCacheError", py::reinterpret_borrow<py::object>(base_class));
  for (const ErrorClass& known : error_classes()) {
    const std::string name = std::string("peercache.") + known.name;
    const py::tuple bases =
        known.second_base == nullptr
            ? py::make_tuple(py::handle(base_class))
            : py::make_tuple(py::handle(base_class), py::handle(*known.second_base));
    PyObject* const made = PyErr_NewExceptionWithDoc(name.c_str(), known.doc, bases.ptr(), nullptr);
    if (made == nullptr) {
      throw py::error_already_set();
    }
    range_classes[known.range / kRangeSize] = made;
    module.add_object(known.name, py::reinterpret_borrow<py::object>(made));
  }
}

}  // namespace peercache
