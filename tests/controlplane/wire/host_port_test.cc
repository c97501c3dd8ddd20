#include "controlplane/wire/host_port.h"

#include <catch2/catch.hpp>

namespace peercache {
namespace {

TEST_CASE("host_port: names, IPv4 and bracketed IPv6 are taken apart", "[unit]") {
  REQUIRE(*parse_host_port("node-1.svc:7000") == HostPort{"node-1.svc", 7000});
  REQUIRE(*parse_host_port("10.0.0.1:1") == HostPort{"10.0.0.1", 1});
  REQUIRE(*parse_host_port("[::1]:65535") == HostPort{"::1", 65535});
  REQUIRE(to_string(HostPort{"::1", 7000}) == "[::1]:7000");
  REQUIRE(to_string(HostPort{"host", 7000}) == "host:7000");
}

TEST_CASE("host_port: everything else is an error", "[unit]") {
  for (const char* text :
       {"", ":", "host", "host:", ":7000", "host:0", "host:65536", "host:-1", "host:7000x",
        "::1:7000", "[]:7000", "a b:7000", "a\n:7000", "host: 7000", "host:+7000"}) {
    INFO(text);
    REQUIRE_FALSE(parse_host_port(text).has_value());
  }
  REQUIRE_FALSE(parse_host_port(std::string(254, 'a') + ":1").has_value());
}

TEST_CASE("host_port: loopback is recognised in all its forms", "[unit]") {
  REQUIRE(is_loopback("127.0.0.1"));
  REQUIRE(is_loopback("127.8.9.10"));
  REQUIRE(is_loopback("::1"));
  REQUIRE(is_loopback("localhost"));
  REQUIRE_FALSE(is_loopback("0.0.0.0"));
  REQUIRE_FALSE(is_loopback("::"));
  REQUIRE_FALSE(is_loopback("10.0.0.1"));
  REQUIRE_FALSE(is_loopback("example.org"));
}

}  // namespace
}  // namespace peercache
