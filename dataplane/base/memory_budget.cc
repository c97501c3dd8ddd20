#include "dataplane/base/memory_budget.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace peercache {

namespace {

/// The file names of one cgroup version.
/// THREAD: any; constants.
struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* droppable;  // the line of memory.stat with page cache that is reclaimed first
};

// SOURCE: Linux Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst, "Memory Interface
// Files".
constexpr CgroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file"};
constexpr CgroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

// Version 1 writes "no limit" as the largest multiple of the page size below 2^63.
constexpr uint64_t kVersion1NoLimit = uint64_t{1} << 62;

/// Where a memory hierarchy is mounted, and which cgroup of it the mount point shows.
/// THREAD: any; a value.
struct CgroupMount {
  std::string root;         // e.g. "/" or, in a container, "/docker/0123"
  std::string mount_point;  // e.g. "/sys/fs/cgroup/memory"
};

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return std::nullopt;
  }
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::optional<uint64_t> parse_number(std::string_view text) {
  const size_t begin = text.find_first_of("0123456789");
  if (begin == std::string_view::npos) {
    return std::nullopt;
  }
  uint64_t value = 0;
  const auto [end, failure] =
      std::from_chars(text.data() + begin, text.data() + text.size(), value);
  static_cast<void>(end);
  return failure == std::errc() ? std::optional(value) : std::nullopt;
}

// The number of the line that starts with `name` followed by a blank or a colon.
std::optional<uint64_t> line_number(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(name) && line.size() > name.size() &&
        (line[name.size()] == ' ' || line[name.size()] == ':')) {
      return parse_number(line.substr(name.size()));
    }
    at = end + 1;
  }
  return std::nullopt;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

bool lists(const std::string& comma_separated, const std::string& word) {
  const std::vector<std::string> words = split(comma_separated, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// SOURCE: proc(5), /proc/pid/mountinfo: "id parent major:minor root mount-point options
// [optional]... - type source super-options".
std::optional<CgroupMount> find_mount(const std::string& root, bool version2) {
  const std::optional<std::string> mounts = read_file(root + "/proc/self/mountinfo");
  if (!mounts) {
    return std::nullopt;
  }
  for (const std::string& line : split(*mounts, '\n')) {
    const std::vector<std::string> fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 5 || fields.end() - dash < 4) {
      continue;
    }
    const bool wanted =
        version2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && lists(dash[3], "memory");
    if (wanted) {
      return CgroupMount{.root = fields[3], .mount_point = fields[4]};
    }
  }
  return std::nullopt;
}

// The path of this process's cgroup below the mount point, "" for the mount point itself. What the
// mount does not show (a container sees only its own part of the tree) is cut off: its root is then
// the nearest cgroup that can be read.
std::string path_below_mount(const std::string& cgroup, const CgroupMount& mount) {
  std::string below = cgroup;
  if (mount.root != "/") {
    const bool inside = cgroup == mount.root || cgroup.starts_with(mount.root + "/");
    below = inside ? cgroup.substr(mount.root.size()) : "";
  }
  const bool outside = below.find("/..") != std::string::npos;
  return outside || below == "/" ? "" : below;
}

// Limit minus usage of one cgroup; nothing if it has no limit or no memory controller.
std::optional<Bytes> room_of(const std::string& directory, const CgroupFiles& files) {
  const std::optional<std::string> limit_text = read_file(directory + "/" + files.limit);
  const std::optional<std::string> usage_text = read_file(directory + "/" + files.usage);
  if (!limit_text || !usage_text || limit_text->starts_with("max")) {
    return std::nullopt;
  }
  const std::optional<uint64_t> limit = parse_number(*limit_text);
  const std::optional<uint64_t> usage = parse_number(*usage_text);
  if (!limit || !usage || *limit >= kVersion1NoLimit) {
    return std::nullopt;
  }
  const std::string stat = read_file(directory + "/memory.stat").value_or("");
  const uint64_t droppable = std::min(line_number(stat, files.droppable).value_or(0), *usage);
  const uint64_t used = *usage - droppable;
  return Bytes(*limit > used ? *limit - used : 0);
}

// The least room from the process's cgroup up to the mount point.
void limit_by_hierarchy(const std::string& root,
                        const std::string& cgroup,
                        bool version2,
                        MemoryBudget& budget) {
  const std::optional<CgroupMount> mount = find_mount(root, version2);
  if (!mount) {
    return;
  }
  const CgroupFiles& files = version2 ? kVersion2 : kVersion1;
  std::string below = path_below_mount(cgroup, *mount);
  while (true) {
    if (const std::optional<Bytes> room = room_of(root + mount->mount_point + below, files)) {
      budget.cgroup_available = std::min(budget.cgroup_available, *room);
      budget.cgroup_limited = true;
    }
    if (below.empty()) {
      return;
    }
    below.resize(below.rfind('/'));
  }
}

}  // namespace

Result<MemoryBudget> read_memory_budget(const std::string& root) {
  const std::optional<std::string> meminfo = read_file(root + "/proc/meminfo");
  if (!meminfo) {
    return make_error(Errc::kSystem, "cannot read /proc/meminfo");
  }
  const std::optional<uint64_t> available_kib = line_number(*meminfo, "MemAvailable");
  if (!available_kib) {
    return make_error(Errc::kBadValue, "/proc/meminfo has no line MemAvailable");
  }
  MemoryBudget budget{.host_available = Bytes(*available_kib * 1024),
                      .cgroup_available = MemoryBudget::kNoLimit,
                      .cgroup_limited = false};
  // SOURCE: cgroups(7), /proc/pid/cgroup: "hierarchy:controllers:path"; version 2 has hierarchy 0
  // and no controllers.
  const std::string cgroups = read_file(root + "/proc/self/cgroup").value_or("");
  for (const std::string& line : split(cgroups, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string cgroup = line.substr(second + 1);
    if (controllers.empty()) {
      limit_by_hierarchy(root, cgroup, true, budget);
    } else if (lists(controllers, "memory")) {
      limit_by_hierarchy(root, cgroup, false, budget);
    }
  }
  return budget;
}

Result<void> check_memory_budget(Bytes wanted, Bytes headroom, const std::string& root) {
  PC_TRY_ASSIGN(const MemoryBudget budget, read_memory_budget(root));
  const Bytes available = budget.available();
  if (available < headroom || available - headroom < wanted) {
    if (budget.cgroup_available < budget.host_available) {
      return make_error(Errc::kMemoryBudget,
                        "{} bytes are wanted with {} to spare, and the memory cgroup has {} left",
                        wanted, headroom, available);
    }
    return make_error(Errc::kMemoryBudget,
                      "{} bytes are wanted with {} to spare, and the host has {} available", wanted,
                      headroom, available);
  }
  return {};
}

}  // namespace peercache
