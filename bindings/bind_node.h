#pragma once

#include <memory>
#include <string>

#include <pybind11/pybind11.h>

#include "bindings/page_namespace.h"
#include "bindings/store_core.h"
#include "controlplane/node/node.h"

namespace peercache {

/// What `peercache._native.Node` holds.
///
/// THREAD:     any with the interpreter's lock.
/// OWNS:       a share of the node; page stores hold others, and keep it until they go.
struct PythonNode {
  std::shared_ptr<Node> node;
  std::unique_ptr<PageStore> objects;  ///< keys under the option `namespace`, without geometry
};

/// Adds Node, Statuses and KeyStatus.
void bind_node(pybind11::module_& module);
/// Adds PagePool.
void bind_store(pybind11::module_& module);

/// All counters of a node by name, peers as a list of dicts.
[[nodiscard]] pybind11::dict stats_dict(const Node& node);

}  // namespace peercache
