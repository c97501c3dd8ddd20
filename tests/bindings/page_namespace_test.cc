#include "bindings/page_namespace.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

PageNamespace base_namespace() {
  PageNamespace out;
  out.prefix = "p";
  out.model = "llama";
  out.tag = "r1";
  out.dtype = "bfloat16";
  out.layout = "page_first";
  out.page_slot_count = 64;
  out.object_bytes = 1048576;
  out.tp_rank = 1;
  out.tp_size = 4;
  out.pp_rank = 0;
  out.pp_size = 2;
  out.cp_rank = 0;
  out.cp_size = 2;
  return out;
}

TEST_CASE("page_namespace: every field alone makes another namespace", "[unit]") {
  const std::vector<std::function<void(PageNamespace&)>> changes = {
      [](PageNamespace&) {},
      [](PageNamespace& n) { n.prefix = "q"; },
      [](PageNamespace& n) { n.model = "llama2"; },
      [](PageNamespace& n) { n.tag = ""; },
      [](PageNamespace& n) { n.dtype = "float16"; },
      [](PageNamespace& n) { n.layout = "page_first_direct"; },
      [](PageNamespace& n) { n.pool = "draft"; },
      [](PageNamespace& n) { n.component = "flat"; },
      [](PageNamespace& n) { n.page_slot_count = 32; },
      [](PageNamespace& n) { n.object_bytes = 1048577; },
      [](PageNamespace& n) { n.tp_rank = 2; },
      [](PageNamespace& n) { n.tp_size = 8; },
      [](PageNamespace& n) { n.pp_rank = 1; },
      [](PageNamespace& n) { n.pp_size = 4; },
      [](PageNamespace& n) { n.cp_rank = 1; },
      [](PageNamespace& n) { n.cp_size = 4; },
      [](PageNamespace& n) { n.replicated = true; },
  };
  std::set<std::string> texts;
  std::set<Key128> names;
  for (const auto& change : changes) {
    PageNamespace changed = base_namespace();
    change(changed);
    CHECK(texts.insert(changed.to_text()).second);
    CHECK(names.insert(KeyHasher(changed.to_text()).hash("abc")).second);
  }
}

TEST_CASE("page_namespace: ranks of a replicated cache share their objects", "[unit]") {
  PageNamespace one = base_namespace();
  one.replicated = true;
  PageNamespace other = one;
  other.tp_rank = 3;
  CHECK(one.to_text() == other.to_text());
  other.pp_rank = 1;  // another stage holds other layers
  CHECK(one.to_text() != other.to_text());
}

TEST_CASE("page_namespace: text that imitates another field does not collide", "[unit]") {
  PageNamespace one = base_namespace();
  one.prefix = "a";
  one.model = "b";
  PageNamespace other = base_namespace();
  other.prefix = "a model=1:b";
  other.model = "";
  CHECK(one.to_text() != other.to_text());
  one.prefix = "ab";
  one.model = "c";
  other.prefix = "a";
  other.model = "bc";
  CHECK(one.to_text() != other.to_text());
}

TEST_CASE("page_namespace: names are frozen, since nodes of different builds share objects",
          "[unit]") {
  CHECK(
      base_namespace().to_text() ==
      "format=1 prefix=1:p model=5:llama tag=2:r1 dtype=8:bfloat16 layout=10:page_first pool=2:kv "
      "component=0: page=64 bytes=1048576 tp_rank=1 tp_size=4 pp_rank=0 pp_size=2 cp_rank=0 "
      "cp_size=2");
  const Key128 name = KeyHasher(base_namespace().to_text()).hash(std::string(64, 'a'));
  CHECK(name.low == 0x3c2a0d2fa58d1b9bULL);
  CHECK(name.high == 0x26914fa096b6043dULL);
}

TEST_CASE("page_namespace: a batch is hashed as its keys are one by one", "[unit]") {
  const KeyHasher hasher("any text");
  const std::vector<std::string_view> keys = {"", "a", "b", "a"};
  std::vector<Key128> names(keys.size());
  hasher.hash(keys, names);
  for (size_t i = 0; i < keys.size(); ++i) {
    CHECK(names[i] == hasher.hash(keys[i]));
  }
  CHECK(names[1] == names[3]);
  CHECK(names[1] != names[2]);
}

}  // namespace
}  // namespace peercache
