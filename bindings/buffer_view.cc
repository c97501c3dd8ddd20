#include "bindings/buffer_view.h"

#include <cstring>
#include <limits>
#include <utility>

namespace peercache {

namespace {

/// The pending Python error as text; clears it.
std::string take_python_error() {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  std::string text = "unknown error";
  if (value != nullptr) {
    if (PyObject* shown = PyObject_Str(value); shown != nullptr) {
      if (const char* utf8 = PyUnicode_AsUTF8(shown); utf8 != nullptr) {
        text = utf8;
      }
      Py_DECREF(shown);
    }
  }
  PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return text;
}

/// An unsigned integer from a Python int; false (error cleared) if it is none or does not fit.
bool to_unsigned(PyObject* object, uint64_t& out) {
  if (!PyLong_Check(object)) {
    return false;
  }
  out = PyLong_AsUnsignedLongLong(object);
  if (out == std::numeric_limits<uint64_t>::max() && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  return true;
}

/// object.name() as an unsigned integer; a bool counts as 0 or 1.
bool call_unsigned(PyObject* object, const char* name, uint64_t& out) {
  PyObject* const result = PyObject_CallMethod(object, name, nullptr);
  if (result == nullptr) {
    return false;
  }
  const bool fits = to_unsigned(result, out);
  Py_DECREF(result);
  return fits;
}

bool is_tensor(PyObject* object) { return PyObject_HasAttrString(object, "data_ptr") == 1; }

/// Whether a tensor says that it lies in the host's memory. Objects without the attribute do.
bool is_on_cpu(PyObject* tensor) {
  PyObject* const device = PyObject_GetAttrString(tensor, "device");
  if (device == nullptr) {
    PyErr_Clear();
    return true;
  }
  PyObject* const shown = PyObject_Str(device);
  Py_DECREF(device);
  if (shown == nullptr) {
    PyErr_Clear();
    return false;
  }
  const char* const text = PyUnicode_AsUTF8(shown);
  const bool on_cpu = text != nullptr && std::strncmp(text, "cpu", 3) == 0;
  PyErr_Clear();
  Py_DECREF(shown);
  return on_cpu;
}

}  // namespace

std::string type_name(PyObject* object) { return Py_TYPE(object)->tp_name; }

BufferHold::~BufferHold() {
  for (Py_buffer& buffer : buffers_) {
    PyBuffer_Release(&buffer);
  }
  for (PyObject* const reference : references_) {
    Py_DECREF(reference);
  }
}

bool BufferHold::fail(std::string reason) {
  PyErr_Clear();
  reason_ = std::move(reason);
  return false;
}

bool BufferHold::append(uint64_t address, uint64_t bytes, std::vector<LocalPiece>& pieces) {
  if (bytes == 0) {
    return true;
  }
  if (address == 0) {
    return fail("a buffer of " + std::to_string(bytes) + " bytes at address 0");
  }
  if (bytes > std::numeric_limits<uint32_t>::max()) {
    return fail("a buffer of " + std::to_string(bytes) + " bytes; one piece holds less than 4 GiB");
  }
  pieces.push_back(LocalPiece{
      .address = reinterpret_cast<std::byte*>(
          static_cast<uintptr_t>(address)),  // NOLINT(performance-no-int-to-ptr)
      .length_bytes = static_cast<uint32_t>(bytes),
      .local_key = LocalKey{0},
  });
  return true;
}

bool BufferHold::add_pair(PyObject* pair, std::vector<LocalPiece>& pieces) {
  uint64_t address = 0;
  uint64_t bytes = 0;
  if (!to_unsigned(PyTuple_GET_ITEM(pair, 0), address) ||
      !to_unsigned(PyTuple_GET_ITEM(pair, 1), bytes)) {
    return fail("a pair (address, bytes) needs two integers that are not negative");
  }
  return append(address, bytes, pieces);
}

bool BufferHold::tensor_memory(PyObject* tensor,
                               uint64_t& address,
                               uint64_t& bytes,
                               uint64_t& element_bytes) {
  uint64_t elements = 0;
  if (!call_unsigned(tensor, "data_ptr", address) || !call_unsigned(tensor, "numel", elements) ||
      !call_unsigned(tensor, "element_size", element_bytes)) {
    return fail(type_name(tensor) + " has data_ptr but does not tell its size");
  }
  uint64_t contiguous = 1;
  if (!call_unsigned(tensor, "is_contiguous", contiguous)) {
    PyErr_Clear();  // not told: as for any address, the caller answers for it
    contiguous = 1;
  }
  if (contiguous == 0) {
    return fail(type_name(tensor) + " is not contiguous");
  }
  if (!is_on_cpu(tensor)) {
    return fail(type_name(tensor) + " is not in the host's memory");
  }
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) {
    return fail(type_name(tensor) + " of " + std::to_string(elements) + " elements is too large");
  }
  Py_INCREF(tensor);
  references_.push_back(tensor);
  return true;
}

bool BufferHold::add_buffer(PyObject* object, std::vector<LocalPiece>& pieces) {
  if (PyObject_CheckBuffer(object) == 1) {
    Py_buffer buffer;
    const int flags = use_ == BufferUse::kWrite ? PyBUF_WRITABLE : PyBUF_SIMPLE;
    if (PyObject_GetBuffer(object, &buffer, flags) != 0) {
      return fail(type_name(object) + ": " + take_python_error());
    }
    buffers_.push_back(buffer);
    return append(reinterpret_cast<uintptr_t>(buffer.buf), static_cast<uint64_t>(buffer.len),
                  pieces);
  }
  if (is_tensor(object)) {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t element_bytes = 0;
    return tensor_memory(object, address, bytes, element_bytes) && append(address, bytes, pieces);
  }
  return fail(type_name(object) +
              " is no buffer: give an object with the buffer protocol, a CPU tensor, or a "
              "pair (address, bytes)");
}

bool BufferHold::add_object(PyObject* object, std::vector<LocalPiece>& pieces) {
  const bool is_tuple = PyTuple_Check(object) == 1;
  if (is_tuple && PyTuple_GET_SIZE(object) == 2 && PyLong_Check(PyTuple_GET_ITEM(object, 0))) {
    return add_pair(object, pieces);
  }
  if (!is_tuple && !PyList_Check(object)) {
    return add_buffer(object, pieces);
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(object, i);
    const bool is_pair = PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 2;
    if (!(is_pair ? add_pair(item, pieces) : add_buffer(item, pieces))) {
      return false;
    }
  }
  return true;
}

bool BufferHold::indices(PyObject* object, std::span<const int64_t>& out) {
  uint64_t address = 0;
  uint64_t bytes = 0;
  if (PyObject_CheckBuffer(object) == 1) {
    Py_buffer buffer;
    if (PyObject_GetBuffer(object, &buffer, PyBUF_ND | PyBUF_FORMAT) != 0) {
      return fail("host indices: " + type_name(object) + ": " + take_python_error());
    }
    buffers_.push_back(buffer);
    const char* format = buffer.format == nullptr ? "B" : buffer.format;
    format += *format == '@' || *format == '=' || *format == '<' ? 1 : 0;
    const bool is_int64 = buffer.itemsize == sizeof(int64_t) && (*format == 'l' || *format == 'q');
    if (buffer.ndim != 1 || !is_int64) {
      return fail("host indices must be one-dimensional int64, not " + std::to_string(buffer.ndim) +
                  " dimensions of format " + format);
    }
    address = reinterpret_cast<uintptr_t>(buffer.buf);
    bytes = static_cast<uint64_t>(buffer.len);
  } else if (is_tensor(object)) {
    uint64_t element_bytes = 0;
    if (!tensor_memory(object, address, bytes, element_bytes)) {
      return false;
    }
    if (element_bytes != sizeof(int64_t)) {
      return fail("host indices must be int64, not " + std::to_string(element_bytes) +
                  " bytes per element");
    }
  } else {
    return fail("host indices: " + type_name(object) +
                " is neither an int64 array nor a CPU tensor");
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  out = {reinterpret_cast<const int64_t*>(static_cast<uintptr_t>(address)),
         bytes / sizeof(int64_t)};
  return true;
}

}  // namespace peercache
