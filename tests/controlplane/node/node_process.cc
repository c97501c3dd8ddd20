// A node in a process of its own, for tests that kill or freeze it. Commands on standard input, one answer line each:
//   put PREFIX COUNT BYTES | get PREFIX COUNT BYTES | exists PREFIX COUNT | flush | members
// Ends at the end of its input.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/support/node_cluster.h"

namespace {

using namespace peercache;           // NOLINT: a program, not a header
using namespace peercache::testing;  // NOLINT

std::string run_command(Node& node, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  std::string prefix;
  size_t count = 0;
  size_t bytes = 0;
  words >> verb >> prefix >> count >> bytes;
  std::ostringstream answer;
  if (verb == "put") {
    Objects objects = make_objects(prefix, count, bytes);
    objects.fill();
    const Result<void> done =
        node.put(objects.batch(), {}, objects.statuses, std::chrono::seconds(5));
    answer << "stored " << objects.count(KeyStatus::kStored) << " held "
           << objects.count(KeyStatus::kHeld) << " ok " << done.has_value();
  } else if (verb == "get") {
    Objects objects = make_objects(prefix, count, bytes);
    const Result<void> done = node.get(objects.batch(), objects.statuses, std::chrono::seconds(5));
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) {
      const bool hit =
          objects.statuses[i] == KeyStatus::kHitPeer || objects.statuses[i] == KeyStatus::kHitOwn;
      if (hit) wrong += objects.wrong_bytes(i);
    }
    answer << "own " << objects.count(KeyStatus::kHitOwn) << " peer "
           << objects.count(KeyStatus::kHitPeer) << " wrong " << wrong << " ok "
           << done.has_value();
  } else if (verb == "exists") {
    Objects objects = make_objects(prefix, count, 8);
    const Result<uint32_t> leading = node.exists(objects.keys, objects.statuses, Nanos(0));
    answer << "leading " << (leading ? static_cast<int64_t>(*leading) : -1);
  } else if (verb == "flush") {
    answer << "flushed " << node.flush(std::chrono::seconds(5)).has_value();
  } else if (verb == "members") {
    answer << "members " << node.members_up_count();
  } else {
    answer << "unknown command " << verb;
  }
  return answer.str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: node_process RUNTIME_DIR POOL_BYTES OWN PORT...\n");
    return 2;
  }
  std::vector<uint16_t> ports;
  for (int i = 4; i < argc; ++i)
    ports.push_back(static_cast<uint16_t>(std::strtoul(argv[i], nullptr, 10)));
  NodeOptions options = small_node(ports, std::strtoul(argv[3], nullptr, 10), argv[1]);
  options.pool_bytes = std::strtoull(argv[2], nullptr, 10);
  options.start_timeout_ms = 10;  // the test asks for `members` until all are there
  Result<std::unique_ptr<Node>> node = Node::open(options);
  if (!node) {
    std::printf("failed: %s\n", to_string(node.error()).c_str());
    return 1;
  }
  std::printf("open\n");
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::printf("%s\n", run_command(**node, line).c_str());
    std::fflush(stdout);
  }
  return 0;
}
