#pragma once

#include <arpa/inet.h>
#include <cstdint>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

namespace peercache::testing {

/// A loopback port that nobody listens on now, and that this process was not given before.
inline uint16_t free_port() {
  static std::set<uint16_t> given;
  for (;;) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    close(fd);
    const uint16_t port = ntohs(address.sin_port);
    if (bound && given.insert(port).second) return port;
  }
}

}  // namespace peercache::testing
