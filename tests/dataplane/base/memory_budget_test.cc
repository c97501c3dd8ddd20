#include "dataplane/base/memory_budget.h"

#include <string>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

std::string tree(const std::string& name) { return std::string(PC_TEST_DATA) + "/cgroup/" + name; }

MemoryBudget budget_of(const std::string& name) {
  const Result<MemoryBudget> budget = read_memory_budget(tree(name));
  REQUIRE(budget.has_value());
  return *budget;
}

TEST_CASE("memory budget: an unlimited host has what meminfo says", "[unit]") {
  const MemoryBudget budget = budget_of("v2_unlimited");
  CHECK(budget.host_available == Bytes(uint64_t{24'000'000} * 1024));
  CHECK_FALSE(budget.cgroup_limited);
  CHECK(budget.available() == budget.host_available);
}

TEST_CASE("memory budget: the tightest ancestor counts in version 2", "[unit]") {
  // The leaf allows 8 GiB more, its parent only 4 GiB - 3 GiB + 1 GiB of page cache that can be
  // dropped.
  const MemoryBudget budget = budget_of("v2_nested");
  CHECK(budget.cgroup_limited);
  CHECK(budget.available() == 2_GiB);
}

TEST_CASE("memory budget: version 1 has its own files and its own number for no limit", "[unit]") {
  const MemoryBudget budget = budget_of("v1_limited");
  CHECK(budget.cgroup_limited);
  CHECK(budget.available() == 512_MiB);
  CHECK_FALSE(budget_of("v1_unlimited").cgroup_limited);
}

TEST_CASE("memory budget: a container sees its own cgroup at the mount point", "[unit]") {
  // /proc/self/cgroup names the host's path, the mount shows only the container's part of it.
  const MemoryBudget budget = budget_of("v1_container");
  CHECK(budget.cgroup_limited);
  CHECK(budget.available() == 256_MiB);
}

TEST_CASE("memory budget: both versions at once give the tighter one", "[unit]") {
  CHECK(budget_of("hybrid").available() == 1_GiB);
}

TEST_CASE("memory budget: a cgroup over its limit leaves nothing", "[unit]") {
  CHECK(budget_of("v2_full").available() == Bytes(0));
}

TEST_CASE("memory budget: a request that fits passes, with its headroom", "[unit]") {
  CHECK(check_memory_budget(1_GiB, 1_GiB, tree("v2_nested")).has_value());
  CHECK_FALSE(check_memory_budget(1_GiB, 1_GiB + Bytes(1), tree("v2_nested")).has_value());
}

TEST_CASE("memory budget: the error names what was wanted, what had to stay and what there is",
          "[unit]") {
  const Result<void> cgroup = check_memory_budget(3_GiB, 64_MiB, tree("v2_nested"));
  REQUIRE_FALSE(cgroup.has_value());
  CHECK(cgroup.error().code == Errc::kMemoryBudget);
  CHECK(to_string(cgroup.error()) ==
        "over the memory budget (5): 3221225472 bytes are wanted with 67108864 to spare, and the "
        "memory cgroup has "
        "2147483648 left");
  const Result<void> host = check_memory_budget(100_GiB, 64_MiB, tree("v2_unlimited"));
  REQUIRE_FALSE(host.has_value());
  CHECK(to_string(host.error()).find("and the host has 24576000000 available") !=
        std::string::npos);
  CHECK_FALSE(check_memory_budget(Bytes(UINT64_MAX), 1_GiB, tree("v2_unlimited")).has_value());
}

TEST_CASE("memory budget: a tree without meminfo or MemAvailable is an error", "[unit]") {
  CHECK(read_memory_budget(tree("nothing_here")).error().code == Errc::kSystem);
  CHECK(read_memory_budget(tree("old_kernel")).error().code == Errc::kBadValue);
}

TEST_CASE("memory budget: this machine can be read", "[unit]") {
  const Result<MemoryBudget> budget = read_memory_budget();
  REQUIRE(budget.has_value());
  CHECK(budget->host_available > Bytes(0));
}

}  // namespace
}  // namespace peercache
