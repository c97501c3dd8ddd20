#include "controlplane/config/options_validate.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

TEST_CASE("options: the defaults are valid", "[unit]") {
  REQUIRE(validate_options(NodeOptions{}).empty());
}

TEST_CASE("options: each rule has its own fault, with the values in it", "[unit]") {
  using Change = std::function<void(NodeOptions&)>;
  const std::vector<std::pair<Change, std::string>> cases = {
      {[](NodeOptions& o) { o.node_id.assign(256, 'x'); },
       "node_id: 256 characters given, wanted at most 255"},
      {[](NodeOptions& o) { o.node_id = "a\nb"; }, "node_id: has control characters"},
      {[](NodeOptions& o) { o.cluster_name.clear(); }, "cluster_name: empty"},
      {[](NodeOptions& o) { o.control_bind_host = "0.0.0.0"; },
       "control_bind_host: \"0.0.0.0\" is not a loopback address; peers are not authenticated yet, "
       "so that needs insecure: true"},
      {[](NodeOptions& o) { o.control_bind_host.clear(); },
       "control_bind_host: empty, wanted a host"},
      {[](NodeOptions& o) {
         o.control_port = 1;
         o.members = {"a"};
       },
       "members[0]: \"a\" given, wanted \"host:port\" (\"[::1]:7000\" for IPv6)"},
      {[](NodeOptions& o) {
         o.control_port = 1;
         o.members = {"a:1", "a:1"};
       },
       "members[1]: \"a:1\" stands in the list twice"},
      {[](NodeOptions& o) { o.members = {"a:1"}; },
       "control_port: 0 given with members, wanted the port that the list says"},
      {[](NodeOptions& o) { o.granule_bytes = 5000; },
       "granule_bytes: 5000 given, wanted a power of two"},
      {[](NodeOptions& o) { o.granule_bytes = 32; },
       "granule_bytes: 32 given, wanted 64 to 1048576"},
      {[](NodeOptions& o) { o.pool_bytes = 4095; },
       "pool_bytes: 4095 given, wanted 4096 to 1125899906842624"},
      {[](NodeOptions& o) { o.directory_replicas = 0; },
       "directory_replicas: 0 given, wanted 1 to 4"},
      {[](NodeOptions& o) { o.vnodes = 0; }, "vnodes: 0 given, wanted 1 to 1024"},
      {[](NodeOptions& o) { o.client_count = 17; }, "client_count: 17 given, wanted 1 to 16"},
      {[](NodeOptions& o) { o.copier_threads = 65; }, "copier_threads: 65 given, wanted 0 to 64"},
      {[](NodeOptions& o) { o.exists_timeout_ms = 0; },
       "exists_timeout_ms: 0 given, wanted 1 to 3600000"},
      {[](NodeOptions& o) { o.member_ttl_ms = 3999; },
       "member_ttl_ms: 3999 given, wanted at least twice heartbeat_interval_ms, 2000"},
  };
  for (const auto& [change, fault] : cases) {
    NodeOptions options;
    change(options);
    INFO(fault);
    REQUIRE(validate_options(options) == std::vector<std::string>{fault});
  }
}

TEST_CASE("options: an open address is allowed when asked for", "[unit]") {
  NodeOptions options;
  options.control_bind_host = "0.0.0.0";
  options.insecure = true;
  REQUIRE(validate_options(options).empty());
  options.insecure = false;
  for (const char* host : {"127.0.0.1", "::1", "localhost", "127.1.2.3"}) {
    options.control_bind_host = host;
    REQUIRE(validate_options(options).empty());
  }
}

}  // namespace
}  // namespace peercache
