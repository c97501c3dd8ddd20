#include "bindings/bind_keys.h"

#include <algorithm>
#include <chrono>

#include "bindings/bind_errors.h"
#include "bindings/buffer_view.h"

namespace py = pybind11;

namespace peercache {

std::string_view key_text(py::handle key) {
  if (PyUnicode_Check(key.ptr())) {
    Py_ssize_t bytes = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(key.ptr(), &bytes);
    if (text == nullptr) {
      throw py::error_already_set();
    }
    return {text, static_cast<size_t>(bytes)};
  }
  if (PyBytes_Check(key.ptr())) {
    return {PyBytes_AS_STRING(key.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(key.ptr()))};
  }
  raise_error(Errc::kInvalidArgument, "a key is str or bytes, not " + type_name(key.ptr()));
}

void read_keys(py::handle keys, CallScratch& scratch) {
  PyObject* const sequence = keys.ptr();
  if (!PyList_Check(sequence) && !PyTuple_Check(sequence)) {
    raise_error(Errc::kInvalidArgument, "keys are a list or tuple, not " + type_name(sequence));
  }
  // The list may be shared with a thread that changes it, but not while this one holds the
  // interpreter's lock.
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
  for (Py_ssize_t i = 0; i < count; ++i) {
    scratch.add_key(key_text(PySequence_Fast_GET_ITEM(sequence, i)));
  }
  scratch.seal_keys();
}

Nanos read_timeout(py::handle seconds) {
  if (seconds.is_none()) {
    return Nanos{0};
  }
  const double value = PyFloat_AsDouble(seconds.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    throw py::error_already_set();
  }
  constexpr double kLongest = 1e6;  // 11 days; far below what 64 bits of nanoseconds hold
  if (!(value > 0) || value > kLongest) {
    raise_error(Errc::kInvalidArgument, "a time-out is a positive number of seconds below 1000000");
  }
  return std::max(Nanos{1},
                  std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(value)));
}

py::object to_bool_list(std::span<const KeyStatus> statuses) {
  PyObject* const list = PyList_New(static_cast<Py_ssize_t>(statuses.size()));
  if (list == nullptr) {
    throw py::error_already_set();
  }
  for (size_t i = 0; i < statuses.size(); ++i) {
    PyObject* const value = is_success(statuses[i]) ? Py_True : Py_False;
    Py_INCREF(value);
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), value);
  }
  return py::reinterpret_steal<py::object>(list);
}

}  // namespace peercache
