#include "dataplane/base/unique_handle.h"

#include <fcntl.h>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

std::vector<int>& closed() {
  static std::vector<int> list;
  return list;
}

struct TestTraits {
  using Handle = int;
  static Handle none() noexcept { return 0; }
  static void close(Handle handle) noexcept { closed().push_back(handle); }
};
using TestHandle = UniqueHandle<TestTraits>;

TEST_CASE("unique handle: each handle is closed exactly once", "[unit]") {
  closed().clear();
  {
    TestHandle first(1);
    TestHandle second(std::move(first));
    TestHandle third(3);
    third = std::move(second);
    CHECK(closed() == std::vector<int>{3});
    third.reset(4);
    CHECK(closed() == std::vector<int>{3, 1});
    CHECK(static_cast<bool>(third));
    CHECK(TestHandle(9).release() == 9);
  }
  CHECK(closed() == std::vector<int>{3, 1, 4});
}

TEST_CASE("unique handle: a descriptor is closed", "[unit]") {
  int number = -1;
  {
    const UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = fd.get();
    CHECK(::fcntl(number, F_GETFD) >= 0);
  }
  CHECK(::fcntl(number, F_GETFD) < 0);
}

TEST_CASE("unique handle: a mapping is unmapped", "[unit]") {
  void* const data =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(data != MAP_FAILED);
  {
    const UniqueMapping mapping(MappedRange{.data = static_cast<std::byte*>(data), .bytes = 4096});
  }
  CHECK(::msync(data, 4096, MS_ASYNC) != 0);  // ENOMEM: not mapped
}

}  // namespace
}  // namespace peercache
