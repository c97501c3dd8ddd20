#pragma once

#include <string>
#include <string_view>

#include "controlplane/node/node_options.h"
#include "dataplane/base/result.h"

namespace peercache {

/// Reads the text of a JSON object; every key is a field of NodeOptions by its name, or an alias:
/// `global_segment_size` (pool_bytes; a number of bytes, or a text such as "4gb" with kb, mb, gb,
/// tb as powers of 1024). Strict: unknown and repeated keys, wrong types and values out of range
/// are faults. All faults are reported at once, one per line, each with key, value and what would
/// be right. The result has passed validate_options.
Result<NodeOptions, std::string> load_options(std::string_view json_text);

/// "4gb", "512 MB", "1073741824". Errors: the fault as text.
Result<uint64_t, std::string> parse_size_bytes(std::string_view text);

}  // namespace peercache
