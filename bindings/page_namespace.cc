#include "bindings/page_namespace.h"

#include <cstring>

#include "dataplane/base/assert.h"

namespace peercache {

namespace {

void add_text(std::string& out, std::string_view name, std::string_view value) {
  out.append(" ").append(name).append("=").append(std::to_string(value.size())).append(":");
  out.append(value);
}

void add_number(std::string& out, std::string_view name, uint64_t value) {
  out.append(" ").append(name).append("=").append(std::to_string(value));
}

}  // namespace

std::string PageNamespace::to_text() const {
  std::string text = "format=" + std::to_string(kFormatVersion);
  add_text(text, "prefix", prefix);
  add_text(text, "model", model);
  add_text(text, "tag", tag);
  add_text(text, "dtype", dtype);
  add_text(text, "layout", layout);
  add_text(text, "pool", pool);
  add_text(text, "component", component);
  add_number(text, "page", page_slot_count);
  add_number(text, "bytes", object_bytes);
  if (replicated) {
    text += " tp=all";
  } else {
    add_number(text, "tp_rank", tp_rank);
    add_number(text, "tp_size", tp_size);
  }
  add_number(text, "pp_rank", pp_rank);
  add_number(text, "pp_size", pp_size);
  add_number(text, "cp_rank", cp_rank);
  add_number(text, "cp_size", cp_size);
  return text;
}

KeyHasher::KeyHasher(std::string_view namespace_text) noexcept {
  const Key128 digest = hash_key("peercache-namespace", namespace_text, "");
  std::memcpy(digest_, &digest, sizeof(digest_));
}

Key128 KeyHasher::hash(std::string_view key) const noexcept {
  return hash_key(std::string_view(digest_, sizeof(digest_)), key, "");
}

void KeyHasher::hash(std::span<const std::string_view> keys, std::span<Key128> out) const noexcept {
  PC_ASSERT(keys.size() == out.size(), keys.size(), out.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    out[i] = hash(keys[i]);
  }
}

}  // namespace peercache
