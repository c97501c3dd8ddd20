#pragma once

#include <string>
#include <utility>

#include <pybind11/pybind11.h>

#include "dataplane/base/error.h"
#include "dataplane/base/result.h"

namespace peercache {

/// Adds the exception classes: PeerCacheError and one subclass per range of error codes
/// (base/errc.h).
void bind_errors(pybind11::module_& module);

/// Raises the class of the error's range. Its attributes: code, reason (the code in words), errno,
/// vendor.
[[noreturn]] void raise_error(const Error& error);
/// The same for what the bindings themselves find, with values that are texts.
[[noreturn]] void raise_error(Errc code, const std::string& message);

/// Raises when the interpreter is ending (CallGate is shut).
void check_gate();

/// The value, or raises.
template <class T>
T value_or_raise(Result<T> result) {
  if (!result.has_value()) {
    raise_error(result.error());
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(result).value();
  }
}

}  // namespace peercache
