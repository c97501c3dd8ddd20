#include <pybind11/pybind11.h>

#include "bindings/bind_errors.h"
#include "bindings/bind_node.h"
#include "bindings/bind_process.h"

PYBIND11_MODULE(_native, module) {
  module.doc() = "The C++ core of peercache; use the package peercache instead.";
  peercache::bind_errors(module);
  peercache::bind_process(module);
  peercache::bind_node(module);
  peercache::bind_store(module);
  module.attr("__version__") = PC_VERSION;
}
