#include "controlplane/config/options_validate.h"

#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include "controlplane/wire/host_port.h"
#include "dataplane/base/limits.h"

namespace peercache {

namespace {

using Faults = std::vector<std::string>;

void check_range(Faults& faults, const char* name, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return;
  faults.push_back(std::string(name) + ": " + std::to_string(value) + " given, wanted " +
                   std::to_string(least) + " to " + std::to_string(most));
}

void check_text(Faults& faults, const char* name, const std::string& text, size_t chars_max) {
  if (text.size() > chars_max) {
    faults.push_back(std::string(name) + ": " + std::to_string(text.size()) +
                     " characters given, wanted at most " + std::to_string(chars_max));
  }
  // These texts are logged and sent to peers, who refuse control characters.
  const auto is_control = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
  };
  if (std::any_of(text.begin(), text.end(), is_control)) {
    faults.push_back(std::string(name) + ": has control characters");
  }
}

void check_members(Faults& faults, const NodeOptions& options) {
  if (options.members.size() >= limits::kPeersMax) {
    faults.push_back("members: " + std::to_string(options.members.size()) +
                     " given, wanted at most " + std::to_string(limits::kPeersMax - 1));
  }
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < options.members.size(); ++i) {
    const std::string& address = options.members[i];
    const std::string name = "members[" + std::to_string(i) + "]";
    if (!parse_host_port(address)) {
      faults.push_back(name + ": \"" + address.substr(0, 80) +
                       "\" given, wanted \"host:port\" (\"[::1]:7000\" for IPv6)");
    } else if (!seen.insert(address).second) {
      faults.push_back(name + ": \"" + address + "\" stands in the list twice");
    }
  }
  if (!options.members.empty() && options.control_port == 0) {
    faults.push_back("control_port: 0 given with members, wanted the port that the list says");
  }
}

void check_addresses(Faults& faults, const NodeOptions& options) {
  check_text(faults, "control_bind_host", options.control_bind_host, 253);
  if (options.control_bind_host.empty()) {
    faults.push_back("control_bind_host: empty, wanted a host");
  } else if (!is_loopback(options.control_bind_host) && !options.insecure) {
    faults.push_back("control_bind_host: \"" + options.control_bind_host +
                     "\" is not a loopback address; peers are not authenticated yet, so that needs "
                     "insecure: true");
  }
  check_members(faults, options);
}

}  // namespace

std::vector<std::string> validate_options(const NodeOptions& options) {
  constexpr uint64_t kHourMs = 3'600'000;
  constexpr uint64_t kPetabyte = uint64_t{1} << 50;
  Faults faults;
  check_text(faults, "node_id", options.node_id, 255);
  check_text(faults, "cluster_name", options.cluster_name, 255);
  check_text(faults, "host_id", options.host_id, 255);
  if (options.cluster_name.empty()) faults.push_back("cluster_name: empty");
  check_addresses(faults, options);

  check_range(faults, "granule_bytes", options.granule_bytes, 64, 1 << 20);
  if (!limits::is_power_of_two(options.granule_bytes)) {
    faults.push_back("granule_bytes: " + std::to_string(options.granule_bytes) +
                     " given, wanted a power of two");
  }
  check_range(faults, "pool_bytes", options.pool_bytes, options.granule_bytes, kPetabyte);
  check_range(faults, "memory_headroom_bytes", options.memory_headroom_bytes, 0, kPetabyte);
  check_range(faults, "directory_objects_max", options.directory_objects_max, 0, uint64_t{1} << 40);
  check_range(faults, "directory_replicas", options.directory_replicas, 1,
              limits::kDirectoryReplicasMax);
  check_range(faults, "vnodes", options.vnodes, 1, 1024);
  check_range(faults, "verify_sample_reads", options.verify_sample_reads, 1, UINT32_MAX);
  check_range(faults, "copier_threads", options.copier_threads, 0, 64);
  check_range(faults, "client_count", options.client_count, 1, limits::kClientsMax);

  check_range(faults, "exists_timeout_ms", options.exists_timeout_ms, 1, kHourMs);
  check_range(faults, "transfer_timeout_ms", options.transfer_timeout_ms, 1, kHourMs);
  check_range(faults, "transfer_timeout_ms_per_MiB", options.transfer_timeout_ms_per_MiB, 0,
              kHourMs);
  check_range(faults, "operation_timeout_ms", options.operation_timeout_ms, 1, kHourMs);
  check_range(faults, "connect_timeout_ms", options.connect_timeout_ms, 1, kHourMs);
  check_range(faults, "start_timeout_ms", options.start_timeout_ms, 0, kHourMs);
  check_range(faults, "heartbeat_interval_ms", options.heartbeat_interval_ms, 10, kHourMs);
  check_range(faults, "member_ttl_ms", options.member_ttl_ms, 20, kHourMs);
  // One lost heartbeat must not cost a member its life.
  if (options.member_ttl_ms < 2 * uint64_t{options.heartbeat_interval_ms}) {
    faults.push_back("member_ttl_ms: " + std::to_string(options.member_ttl_ms) +
                     " given, wanted at least twice heartbeat_interval_ms, " +
                     std::to_string(options.heartbeat_interval_ms));
  }
  return faults;
}

}  // namespace peercache
