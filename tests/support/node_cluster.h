#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controlplane/node/node.h"
#include "tests/support/free_port.h"
#include "tests/support/pattern.h"
#include "tests/support/temp_dir.h"

namespace peercache::testing {

/// Objects of one call, in memory of its own.
struct Objects {
  std::vector<Key128> keys;
  std::vector<std::byte> memory;
  std::vector<LocalPiece> pieces;
  std::vector<uint32_t> offsets{0};
  std::vector<KeyStatus> statuses;
  size_t object_bytes = 0;

  ObjectBatch batch() const { return {keys, pieces, offsets}; }
  std::byte* at(size_t i) { return memory.data() + i * object_bytes; }
  void fill() {
    for (size_t i = 0; i < keys.size(); ++i) fill_pattern(keys[i], at(i), object_bytes);
  }
  size_t wrong_bytes(size_t i) { return count_wrong(keys[i], at(i), object_bytes); }
  size_t count(KeyStatus status) const {
    size_t n = 0;
    for (const KeyStatus s : statuses) n += s == status ? 1 : 0;
    return n;
  }
};

/// Keys `prefix`-0 ... `prefix`-(count-1), each of `piece_count` pieces.
inline Objects make_objects(const std::string& prefix,
                            size_t count,
                            size_t object_bytes,
                            size_t piece_count = 2) {
  Objects objects;
  objects.object_bytes = object_bytes;
  objects.memory.resize(count * object_bytes);
  objects.statuses.resize(count);
  const size_t piece_bytes = object_bytes / piece_count;
  for (size_t i = 0; i < count; ++i) {
    objects.keys.push_back(hash_key("test", prefix + "-" + std::to_string(i), ""));
    for (size_t p = 0; p < piece_count; ++p) {
      const size_t from = p * piece_bytes;
      const size_t bytes = p + 1 == piece_count ? object_bytes - from : piece_bytes;
      objects.pieces.push_back({objects.at(i) + from, static_cast<uint32_t>(bytes), LocalKey(0)});
    }
    objects.offsets.push_back(static_cast<uint32_t>(objects.pieces.size()));
  }
  return objects;
}

/// Options of a small node; `ports` are those of all members, `own` its place among them.
inline NodeOptions small_node(const std::vector<uint16_t>& ports,
                              size_t own,
                              const std::string& runtime_dir) {
  NodeOptions options;
  options.node_id = "node-" + std::to_string(own);
  options.cluster_name = "test-" + std::to_string(ports[0]);
  for (const uint16_t port : ports) options.members.push_back("127.0.0.1:" + std::to_string(port));
  options.control_port = ports[own];
  options.runtime_dir = runtime_dir;
  options.pool_bytes = 8 << 20;
  options.directory_objects_max = 20000;
  options.memory_headroom_bytes = 64 << 20;
  options.heartbeat_interval_ms = 200;
  options.member_ttl_ms = 1000;
  return options;
}

}  // namespace peercache::testing
