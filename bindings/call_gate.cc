#include "bindings/call_gate.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "controlplane/node/node.h"

namespace peercache {

CallGate& CallGate::of_process() {
  // Never destroyed: calls may come until the process ends, after static destructors have begun.
  static CallGate* const gate = new CallGate;
  return *gate;
}

void CallGate::add_node(const std::shared_ptr<Node>& node) {
  std::erase_if(nodes_, [](const std::weak_ptr<Node>& known) { return known.expired(); });
  nodes_.push_back(node);
}

bool CallGate::shut(Nanos timeout) {
  shut_ = true;
  const Nanos end = monotonic_now() + timeout;
  std::vector<std::shared_ptr<Node>> open;
  for (const std::weak_ptr<Node>& known : nodes_) {
    if (std::shared_ptr<Node> node = known.lock()) {
      open.push_back(std::move(node));
    }
  }
  PyThreadState* state = PyEval_SaveThread();
  for (const std::shared_ptr<Node>& node : open) {
    node->close();
  }
  PyEval_RestoreThread(state);
  while (inside_count_ > 0 && monotonic_now() < end) {
    state = PyEval_SaveThread();
    std::this_thread::sleep_for(
        std::chrono::milliseconds(1));  // for them to take the lock and return
    PyEval_RestoreThread(state);
  }
  return inside_count_ == 0;
}

}  // namespace peercache
