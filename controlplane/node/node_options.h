#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/units.h"

namespace peercache {

enum class VerifyMode : uint8_t { kOff, kSampled, kFull };
enum class ShmMode : uint8_t { kAuto, kOff };
enum class HugePages : uint8_t { kAuto, kOff, kRequired };

/// Everything a node can be told. Read from JSON by config/options_load.cc; each field's key is its name there.
struct NodeOptions {
  // Identity.
  std::string node_id;  ///< unique in the cluster; empty: host name, process id and a random number
  std::string cluster_name = "peercache";  ///< nodes of different clusters refuse each other
  std::string host_id;  ///< empty: the kernel's boot id; equal ids mean that shm is possible

  // Who else there is: "host:port" of every node's control address, this one included. Empty: alone.
  std::vector<std::string> members;
  std::string control_bind_host = "127.0.0.1";
  uint16_t control_port = 0;  ///< 0: any free port
  bool insecure = false;      ///< listen on addresses other than loopback without authentication
  std::string runtime_dir;    ///< empty: /run/peercache if writable, else /tmp/peercache-UID

  // Memory.
  uint64_t pool_bytes = 4ULL << 30;  ///< the published pool
  uint32_t granule_bytes = 4096;     ///< smallest slot
  uint64_t directory_objects_max =
      0;  ///< objects this node's shard is sized for; 0: derived from pool_bytes
  HugePages huge_pages = HugePages::kAuto;
  uint64_t memory_headroom_bytes = 256ULL << 20;  ///< must stay free after start

  // Directory.
  uint32_t directory_replicas = 2;
  uint32_t vnodes = 160;

  // Reads.
  VerifyMode verify = VerifyMode::kOff;  ///< payload hash on top of the slot header
  uint32_t verify_sample_reads = 64;     ///< sampled: one read in so many
  ShmMode shm = ShmMode::kAuto;
  uint32_t copier_threads = 0;  ///< helpers for shm copies

  // Application side.
  uint32_t client_count = 8;  ///< calls under way at the same time

  // Deadlines (design.md 4).
  uint32_t exists_timeout_ms = 250;
  uint32_t transfer_timeout_ms = 1000;       ///< get and put: this ...
  uint32_t transfer_timeout_ms_per_MiB = 1;  ///< ... plus this for each MiB of the call
  uint32_t operation_timeout_ms = 500;
  uint32_t connect_timeout_ms = 1000;
  uint32_t start_timeout_ms =
      30000;  ///< wait for the members; afterwards the node runs alone and goes on looking

  // Membership.
  uint32_t heartbeat_interval_ms = 2000;
  uint32_t member_ttl_ms = 6000;
};

}  // namespace peercache
