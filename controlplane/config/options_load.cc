#include "controlplane/config/options_load.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "controlplane/config/options_validate.h"

namespace peercache {

namespace {

using Json = nlohmann::json;

/// Collects what is wrong; one line each.
///
/// THREAD:     one.
class Faults {
 public:
  void add(const std::string& text) { text_ += (text_.empty() ? "" : "\n") + text; }
  void wrong(const char* key, const Json& value, const std::string& wanted) {
    add(std::string(key) + ": " + shown(value) + " given, wanted " + wanted);
  }
  bool none() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  static std::string shown(const Json& value) {
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() > 80 ? text.substr(0, 77) + "..." : text;
  }
  std::string text_;
};

// --- readers of one value ----------------------------------------------------------------------

void read(const char* key, const Json& value, std::string& to, Faults& faults) {
  if (!value.is_string()) return faults.wrong(key, value, "a string");
  to = value.get<std::string>();
}

void read(const char* key, const Json& value, bool& to, Faults& faults) {
  if (!value.is_boolean()) return faults.wrong(key, value, "true or false");
  to = value.get<bool>();
}

void read(const char* key, const Json& value, std::vector<std::string>& to, Faults& faults) {
  const auto is_text = [](const Json& item) { return item.is_string(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text)) {
    return faults.wrong(key, value, "a list of strings");
  }
  to = value.get<std::vector<std::string>>();
}

template <std::unsigned_integral Number>
  requires(!std::same_as<Number, bool>)
void read(const char* key, const Json& value, Number& to, Faults& faults) {
  constexpr uint64_t kMax = std::numeric_limits<Number>::max();
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMax) {
    return faults.wrong(key, value, "a whole number from 0 to " + std::to_string(kMax));
  }
  to = static_cast<Number>(value.get<uint64_t>());
}

template <class Enum>
void read_enum(const char* key,
               const Json& value,
               Enum& to,
               std::span<const std::pair<const char*, Enum>> choices,
               Faults& faults) {
  std::string wanted;
  for (const auto& [name, choice] : choices) {
    if (value == name) {
      to = choice;
      return;
    }
    wanted += (wanted.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  }
  faults.wrong(key, value, "one of " + wanted);
}

void read(const char* key, const Json& value, VerifyMode& to, Faults& faults) {
  static constexpr std::array<std::pair<const char*, VerifyMode>, 3> kChoices{
      {{"off", VerifyMode::kOff}, {"sampled", VerifyMode::kSampled}, {"full", VerifyMode::kFull}}};
  read_enum<VerifyMode>(key, value, to, kChoices, faults);
}

void read(const char* key, const Json& value, ShmMode& to, Faults& faults) {
  static constexpr std::array<std::pair<const char*, ShmMode>, 2> kChoices{
      {{"auto", ShmMode::kAuto}, {"off", ShmMode::kOff}}};
  read_enum<ShmMode>(key, value, to, kChoices, faults);
}

void read(const char* key, const Json& value, HugePages& to, Faults& faults) {
  static constexpr std::array<std::pair<const char*, HugePages>, 3> kChoices{
      {{"auto", HugePages::kAuto}, {"off", HugePages::kOff}, {"required", HugePages::kRequired}}};
  read_enum<HugePages>(key, value, to, kChoices, faults);
}

void read_size(const char* key, const Json& value, uint64_t& to, Faults& faults) {
  if (value.is_number_unsigned()) {
    to = value.get<uint64_t>();
    return;
  }
  if (value.is_string()) {
    const Result<uint64_t, std::string> bytes = parse_size_bytes(value.get<std::string>());
    if (bytes) {
      to = *bytes;
      return;
    }
  }
  faults.wrong(key, value, "bytes, or a text such as \"4gb\" (kb, mb, gb, tb: powers of 1024)");
}

// --- keys --------------------------------------------------------------------------------------

struct Key {
  const char* name;
  void (*load)(const char* key, const Json& value, NodeOptions& options, Faults& faults);
};

template <auto kField>
constexpr auto plain =
    [](const char* key, const Json& value, NodeOptions& options, Faults& faults) {
      read(key, value, options.*kField, faults);
    };

template <auto kField>
constexpr auto size = [](const char* key, const Json& value, NodeOptions& options, Faults& faults) {
  read_size(key, value, options.*kField, faults);
};

constexpr Key kKeys[] = {
    {"node_id", plain<&NodeOptions::node_id>},
    {"cluster_name", plain<&NodeOptions::cluster_name>},
    {"host_id", plain<&NodeOptions::host_id>},
    {"members", plain<&NodeOptions::members>},
    {"control_bind_host", plain<&NodeOptions::control_bind_host>},
    {"control_port", plain<&NodeOptions::control_port>},
    {"insecure", plain<&NodeOptions::insecure>},
    {"runtime_dir", plain<&NodeOptions::runtime_dir>},
    {"pool_bytes", size<&NodeOptions::pool_bytes>},
    {"global_segment_size", size<&NodeOptions::pool_bytes>},
    {"granule_bytes", plain<&NodeOptions::granule_bytes>},
    {"directory_objects_max", plain<&NodeOptions::directory_objects_max>},
    {"huge_pages", plain<&NodeOptions::huge_pages>},
    {"memory_headroom_bytes", size<&NodeOptions::memory_headroom_bytes>},
    {"directory_replicas", plain<&NodeOptions::directory_replicas>},
    {"vnodes", plain<&NodeOptions::vnodes>},
    {"verify", plain<&NodeOptions::verify>},
    {"verify_sample_reads", plain<&NodeOptions::verify_sample_reads>},
    {"shm", plain<&NodeOptions::shm>},
    {"copier_threads", plain<&NodeOptions::copier_threads>},
    {"client_count", plain<&NodeOptions::client_count>},
    {"exists_timeout_ms", plain<&NodeOptions::exists_timeout_ms>},
    {"transfer_timeout_ms", plain<&NodeOptions::transfer_timeout_ms>},
    {"transfer_timeout_ms_per_MiB", plain<&NodeOptions::transfer_timeout_ms_per_MiB>},
    {"operation_timeout_ms", plain<&NodeOptions::operation_timeout_ms>},
    {"connect_timeout_ms", plain<&NodeOptions::connect_timeout_ms>},
    {"start_timeout_ms", plain<&NodeOptions::start_timeout_ms>},
    {"heartbeat_interval_ms", plain<&NodeOptions::heartbeat_interval_ms>},
    {"member_ttl_ms", plain<&NodeOptions::member_ttl_ms>},
};

/// Keys with a meaning that this version does not have yet, and what to write instead.
constexpr std::pair<const char*, const char*> kNotBuiltYet[] = {
    {"discovery_addr", "not built yet: use members"},
};

/// Single-character insertions, deletions and replacements between two words.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string nearest_key(std::string_view key) {
  const Key* best = nullptr;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (const Key& candidate : kKeys) {
    const size_t distance = edit_distance(key, candidate.name);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best->name;
}

void load_key(const std::string& name, const Json& value, NodeOptions& options, Faults& faults) {
  for (const Key& key : kKeys) {
    if (name == key.name) return key.load(key.name, value, options, faults);
  }
  for (const auto& [unbuilt, advice] : kNotBuiltYet) {
    if (name == unbuilt) return faults.add(name + ": " + advice);
  }
  // A name of any length may come in; the nearest of a long one is no help.
  const std::string shown = name.size() > 60 ? name.substr(0, 57) + "..." : name;
  faults.add("unknown option \"" + shown + "\"; the nearest is \"" + nearest_key(shown) + "\"");
}

/// Parses; repeated keys of the object itself are faults (the parser would keep the last one).
Json parse(std::string_view text, Faults& faults) {
  std::set<std::string> seen;
  const auto on_event = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!seen.insert(key).second) faults.add("option \"" + key + "\" is given twice");
    }
    return true;
  };
  return Json::parse(text, on_event, /*allow_exceptions=*/false);
}

}  // namespace

Result<uint64_t, std::string> parse_size_bytes(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c) {
    if (*c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  }
  static constexpr std::pair<const char*, uint32_t> kUnits[] = {{"", 0},    {"b", 0},   {"kb", 10},
                                                                {"mb", 20}, {"gb", 30}, {"tb", 40}};
  const auto* found = std::find_if(std::begin(kUnits), std::end(kUnits),
                                   [&](const auto& u) { return unit == u.first; });
  if (error != std::errc{} || found == std::end(kUnits) ||
      number > (std::numeric_limits<uint64_t>::max() >> found->second)) {
    return Unexpected<std::string>("\"" + std::string(text.substr(0, 40)) + "\" is not a size");
  }
  return number << found->second;
}

Result<NodeOptions, std::string> load_options(std::string_view json_text) {
  Faults faults;
  const Json root = parse(json_text, faults);
  if (root.is_discarded()) return Unexpected<std::string>("options: not valid JSON");
  if (!root.is_object()) return Unexpected<std::string>("options: not a JSON object");
  NodeOptions options;
  for (const auto& [name, value] : root.items()) load_key(name, value, options, faults);
  if (root.contains("pool_bytes") && root.contains("global_segment_size")) {
    faults.add("pool_bytes and global_segment_size are the same option; give one");
  }
  for (const std::string& fault : validate_options(options)) faults.add(fault);
  if (!faults.none()) return Unexpected<std::string>(faults.text());
  return options;
}

}  // namespace peercache
