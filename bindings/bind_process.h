#pragma once

#include <pybind11/pybind11.h>

namespace peercache {

/// Adds `_set_log_handler(callable or None)`, `_set_log_level(name)`, `_shutdown(seconds)` and
/// `_call_totals()`.
void bind_process(pybind11::module_& module);

}  // namespace peercache
