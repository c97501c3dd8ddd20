// A node in a process of its own: serves its regions until its standard input ends.
// Arguments: runtime directory, node id, MiB of the published region. Commands, one a line: "sum"
// prints a hash of the writable region.

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <unistd.h>

#include "dataplane/base/key.h"
#include "tests/dataplane/transport/shm_test_node.h"

int main(int argc, char** argv) {
  using namespace peercache;
  if (argc != 4) {
    return 2;
  }
  testing::TestNodeOptions options;
  options.shm.runtime_dir = argv[1];
  options.id = std::strtoull(argv[2], nullptr, 10);
  options.published = std::strtoull(argv[3], nullptr, 10) * 1_MiB;
  options.writable = 8_MiB;
  testing::TestNode node(options);
  if (node.endpoint == nullptr) {
    std::fprintf(stderr, "%s\n", to_string(node.open_error).c_str());
    return 1;
  }
  std::printf("ready %s\n", node.endpoint->socket_name().c_str());
  std::fflush(stdout);
  for (;;) {
    pollfd ready[2] = {{STDIN_FILENO, POLLIN, 0}, {node.endpoint->epoll_fd(), POLLIN, 0}};
    ::poll(ready, 2, 5);
    node.endpoint->poll_once(monotonic_now());
    if (ready[0].revents == 0) {
      continue;
    }
    char line[64];
    const ssize_t got = ::read(STDIN_FILENO, line, sizeof line);
    if (got <= 0) {
      return 0;
    }
    const auto sum = hash_bytes64(node.writable->data(), node.writable->length().value());
    std::printf("sum %llu\n", static_cast<unsigned long long>(sum));
    std::fflush(stdout);
  }
}
