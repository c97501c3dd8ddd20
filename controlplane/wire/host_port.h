#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/base/result.h"

namespace peercache {

/// "host:port" taken apart. The host is a DNS name, an IPv4 address or an IPv6 address without its
/// brackets.
///
/// THREAD:     any; a value.
struct HostPort {
  std::string host;
  uint16_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

/// Takes "name:1", "10.0.0.1:1" or "[::1]:1" apart. Errors: kBadValue.
Result<HostPort> parse_host_port(std::string_view text);

/// "host:port", with brackets where the host has colons.
std::string to_string(const HostPort& address);

/// True for the address forms 127.0.0.0/8, ::1 and the name "localhost".
bool is_loopback(std::string_view host) noexcept;

}  // namespace peercache
