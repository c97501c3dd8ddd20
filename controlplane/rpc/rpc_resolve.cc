#include "controlplane/rpc/rpc_resolve.h"

#include <algorithm>
#include <array>
#include <netdb.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <utility>

#include "controlplane/rpc/rpc_post_gate.h"

namespace peercache {

std::vector<std::string> resolve_host_blocking(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  std::vector<std::string> addresses;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0) {
      continue;
    }
    std::string address(text.data());
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(std::move(address));
    }
  }
  ::freeaddrinfo(list);
  return addresses;
}

void resolve_host(const std::shared_ptr<RpcPostGate>& gate,
                  const std::string& host,
                  std::function<void(std::vector<std::string>)> done) {
  // Shared, so that a thread that could not be started leaves `done` with us.
  auto answer = std::make_shared<std::function<void(std::vector<std::string>)>>(std::move(done));
  try {
    std::thread([gate, host, answer] {
      std::vector<std::string> addresses = resolve_host_blocking(host);
      gate->post([answer, found = std::move(addresses)] { (*answer)(found); });
    }).detach();
  } catch (const std::system_error&) {  // no thread left: as if the name were unknown
    gate->post([answer] { (*answer)({}); });
  }
}

}  // namespace peercache
