#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace peercache {

class RpcPostGate;

/// Numeric addresses of a host name, in the order of the system's preference; empty if there are
/// none. Blocks.
std::vector<std::string> resolve_host_blocking(const std::string& host);

/// The same on a detached thread of its own, answered on the loop's thread: getaddrinfo cannot be
/// interrupted and may take 30 s, and one slow name must delay neither another nor the end of the
/// process. After the loop's end nothing is called.
void resolve_host(const std::shared_ptr<RpcPostGate>& gate,
                  const std::string& host,
                  std::function<void(std::vector<std::string>)> done);

}  // namespace peercache
