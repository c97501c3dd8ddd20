#pragma once

#include <cstddef>
#include <cstdint>
#include <Python.h>
#include <span>
#include <string>
#include <vector>

#include "dataplane/transport/work_request.h"

namespace peercache {

/// What a caller wants to do with a buffer.
enum class BufferUse : uint8_t { kRead, kWrite };

/// Finds the memory behind Python objects and keeps it in place for the length of a call.
/// Understood are: objects with the buffer protocol (bytes, bytearray, memoryview, array, numpy) in
/// C order; CPU tensors, known by their methods data_ptr, numel, element_size, is_contiguous; and
/// pairs (address, bytes) of integers, for which the caller answers.
///
/// THREAD:     the calling one, with the interpreter's lock.
/// OWNS:       a reference or buffer lock per object, until destroyed.
/// INVARIANTS: (B1) when a function returns false, no Python error is set and reason() says why, in
/// words. COST:       about 50 ns per buffer-protocol object, 0.5 µs per tensor.
class BufferHold {
 public:
  explicit BufferHold(BufferUse use) noexcept : use_(use) {}
  ~BufferHold();
  BufferHold(const BufferHold&) = delete;
  BufferHold& operator=(const BufferHold&) = delete;

  /// Appends the memory of one object: a buffer, or a list or tuple of buffers in their order.
  /// Pieces without bytes are left out.
  [[nodiscard]] bool add_object(PyObject* object, std::vector<LocalPiece>& pieces);

  /// One-dimensional int64 indices: numpy array, array or CPU tensor.
  [[nodiscard]] bool indices(PyObject* object, std::span<const int64_t>& out);

  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

 private:
  [[nodiscard]] bool add_buffer(PyObject* object, std::vector<LocalPiece>& pieces);
  [[nodiscard]] bool add_pair(PyObject* pair, std::vector<LocalPiece>& pieces);
  [[nodiscard]] bool tensor_memory(PyObject* tensor,
                                   uint64_t& address,
                                   uint64_t& bytes,
                                   uint64_t& element_bytes);
  [[nodiscard]] bool append(uint64_t address, uint64_t bytes, std::vector<LocalPiece>& pieces);
  [[nodiscard]] bool fail(std::string reason);

  BufferUse use_;
  std::vector<Py_buffer> buffers_;
  std::vector<PyObject*> references_;
  std::string reason_;
};

/// What an object is, for messages: its type's name.
[[nodiscard]] std::string type_name(PyObject* object);

}  // namespace peercache
