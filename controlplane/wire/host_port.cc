#include "controlplane/wire/host_port.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>

namespace peercache {

namespace {

/// Letters, digits and what names and addresses are made of; no spaces, quotes or control
/// characters.
bool is_host_char(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_' || c == ':' || c == '%';
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return make_error(Errc::kBadValue, "address without \":port\"");
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return make_error(Errc::kBadValue, "an IPv6 address needs brackets: \"[::1]:7000\"");
  }
  // 253 is the longest DNS name.
  if (host.empty() || host.size() > 253 || !std::all_of(host.begin(), host.end(), is_host_char)) {
    return make_error(Errc::kBadValue, "address with a host of {} characters that is no host",
                      host.size());
  }
  HostPort address{std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc{} || end != port.data() + port.size() || address.port == 0) {
    return make_error(Errc::kBadValue, "address whose port is not a number from 1 to 65535");
  }
  return address;
}

std::string to_string(const HostPort& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return (brackets ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

bool is_loopback(std::string_view host) noexcept {
  if (host == "localhost") return true;
  const std::string text(host);
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6{};
  return ::inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace peercache
