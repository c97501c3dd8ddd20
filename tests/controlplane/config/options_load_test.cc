#include "controlplane/config/options_load.h"

#include <string>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

std::string faults(const std::string& json) {
  const Result<NodeOptions, std::string> options = load_options(json);
  return options ? "" : options.error();
}

TEST_CASE("options: an empty object gives the defaults", "[unit]") {
  const Result<NodeOptions, std::string> options = load_options("{}");
  REQUIRE(options.has_value());
  REQUIRE(options->pool_bytes == 4ULL << 30);
  REQUIRE(options->member_ttl_ms == 6000);
}

TEST_CASE("options: every key reaches its field", "[unit]") {
  const Result<NodeOptions, std::string> options = load_options(R"({
    "node_id": "a", "cluster_name": "c", "host_id": "h", "members": ["x:1", "[::1]:2"],
    "control_bind_host": "::1", "control_port": 7001, "insecure": true, "runtime_dir": "/r",
    "pool_bytes": 1048576, "granule_bytes": 8192, "directory_objects_max": 5,
    "huge_pages": "required",
    "memory_headroom_bytes": "1mb", "directory_replicas": 3, "vnodes": 64, "verify": "sampled",
    "verify_sample_reads": 7, "shm": "off", "copier_threads": 2, "client_count": 3,
    "exists_timeout_ms": 11, "transfer_timeout_ms": 12, "transfer_timeout_ms_per_MiB": 13,
    "operation_timeout_ms": 14, "connect_timeout_ms": 15, "start_timeout_ms": 16,
    "heartbeat_interval_ms": 17, "member_ttl_ms": 180})");
  REQUIRE(options.has_value());
  REQUIRE(options->node_id == "a");
  REQUIRE(options->cluster_name == "c");
  REQUIRE(options->host_id == "h");
  REQUIRE(options->members == std::vector<std::string>{"x:1", "[::1]:2"});
  REQUIRE(options->control_bind_host == "::1");
  REQUIRE(options->control_port == 7001);
  REQUIRE(options->insecure);
  REQUIRE(options->runtime_dir == "/r");
  REQUIRE(options->pool_bytes == 1048576);
  REQUIRE(options->granule_bytes == 8192);
  REQUIRE(options->directory_objects_max == 5);
  REQUIRE(options->huge_pages == HugePages::kRequired);
  REQUIRE(options->memory_headroom_bytes == 1048576);
  REQUIRE(options->directory_replicas == 3);
  REQUIRE(options->vnodes == 64);
  REQUIRE(options->verify == VerifyMode::kSampled);
  REQUIRE(options->verify_sample_reads == 7);
  REQUIRE(options->shm == ShmMode::kOff);
  REQUIRE(options->copier_threads == 2);
  REQUIRE(options->client_count == 3);
  REQUIRE(options->exists_timeout_ms == 11);
  REQUIRE(options->transfer_timeout_ms == 12);
  REQUIRE(options->transfer_timeout_ms_per_MiB == 13);
  REQUIRE(options->operation_timeout_ms == 14);
  REQUIRE(options->connect_timeout_ms == 15);
  REQUIRE(options->start_timeout_ms == 16);
  REQUIRE(options->heartbeat_interval_ms == 17);
  REQUIRE(options->member_ttl_ms == 180);
}

TEST_CASE("options: an unknown key is an error that names the nearest one", "[unit]") {
  REQUIRE(faults(R"({"pool_byte": 1})") ==
          "unknown option \"pool_byte\"; the nearest is \"pool_bytes\"");
  REQUIRE(faults(R"({"vnode": 1})") == "unknown option \"vnode\"; the nearest is \"vnodes\"");
  REQUIRE(faults(R"({"member_ttl": 1})") ==
          "unknown option \"member_ttl\"; the nearest is \"member_ttl_ms\"");
}

TEST_CASE("options: what is not built yet says what to write instead", "[unit]") {
  REQUIRE(faults(R"({"discovery_addr": "a:1"})") == "discovery_addr: not built yet: use members");
}

TEST_CASE("options: all faults are told at once", "[unit]") {
  const std::string text = faults(
      R"({"vnodes": "many", "shm": "on", "nodeid": 1, "control_port": 70000,
          "directory_replicas": 9})");
  REQUIRE(text.find("vnodes: \"many\" given, wanted a whole number from 0 to 4294967295") !=
          std::string::npos);
  REQUIRE(text.find("shm: \"on\" given, wanted one of \"auto\", \"off\"") != std::string::npos);
  REQUIRE(text.find("unknown option \"nodeid\"; the nearest is \"node_id\"") != std::string::npos);
  REQUIRE(text.find("control_port: 70000 given, wanted a whole number from 0 to 65535") !=
          std::string::npos);
  REQUIRE(text.find("directory_replicas: 9 given, wanted 1 to 4") != std::string::npos);
}

TEST_CASE("options: wrong types are errors", "[unit]") {
  for (const char* json :
       {R"({"node_id": 1})", R"({"members": "a:1"})", R"({"members": [1]})", R"({"insecure": 1})",
        R"({"vnodes": -1})", R"({"vnodes": 1.5})", R"({"vnodes": true})", R"({"vnodes": null})",
        R"({"verify": 1})", R"({"pool_bytes": -1})", R"({"pool_bytes": "4 parsecs"})",
        R"({"pool_bytes": ["4gb"]})"}) {
    INFO(json);
    REQUIRE(faults(json).find("given, wanted") != std::string::npos);
  }
}

TEST_CASE("options: text that is no object of single keys is refused", "[unit]") {
  REQUIRE(faults("") == "options: not valid JSON");
  REQUIRE(faults("{") == "options: not valid JSON");
  REQUIRE(faults(R"({"vnodes": 1} x)") == "options: not valid JSON");
  REQUIRE(faults("[]") == "options: not a JSON object");
  REQUIRE(faults(R"({"vnodes": 1, "vnodes": 2})") == "option \"vnodes\" is given twice");
  REQUIRE(faults(R"({"pool_bytes": 1048576, "global_segment_size": "1mb"})") ==
          "pool_bytes and global_segment_size are the same option; give one");
}

TEST_CASE("options: sizes are powers of 1024", "[unit]") {
  REQUIRE(load_options(R"({"global_segment_size": "4gb"})")->pool_bytes == 4ULL << 30);
  REQUIRE(load_options(R"({"global_segment_size": 4096})")->pool_bytes == 4096);
  REQUIRE(*parse_size_bytes("512 MB") == 512ULL << 20);
  REQUIRE(*parse_size_bytes("1tb") == 1ULL << 40);
  REQUIRE(*parse_size_bytes("3KB") == 3072);
  REQUIRE(*parse_size_bytes("17") == 17);
  REQUIRE(*parse_size_bytes("17b") == 17);
  for (const char* text : {"", "gb", "-1gb", "1.5gb", "1 g b x", "99999999999tb", "4gib"}) {
    INFO(text);
    REQUIRE_FALSE(parse_size_bytes(text).has_value());
  }
}

}  // namespace
}  // namespace peercache
