#include "dataplane/base/counters.h"

#include <thread>

#include <catch2/catch.hpp>

#include "dataplane/base/cacheline.h"

namespace peercache {
namespace {

TEST_CASE("counter: one thread adds while another reads a value that only grows", "[unit]") {
  constexpr uint64_t kAdds = 100'000;
  Counter counter;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kAdds; ++i) {
      counter.add();
    }
  });
  uint64_t last = 0;
  bool grows = true;
  while (last < kAdds) {
    const uint64_t now = counter.value();
    grows = grows && now >= last;
    last = now;
  }
  writer.join();
  CHECK(grows);
  CHECK(counter.value() == kAdds);
}

TEST_CASE("counter: a gauge is replaced", "[unit]") {
  Counter gauge;
  gauge.set(9);
  gauge.set(4);
  CHECK(gauge.value() == 4);
}

TEST_CASE("cacheline: two padded neighbours do not share a pair of lines", "[unit]") {
  const Padded<int> pair[2]{};
  CHECK(reinterpret_cast<uintptr_t>(&pair[1]) - reinterpret_cast<uintptr_t>(&pair[0]) ==
        kFalseSharingBytes);
}

}  // namespace
}  // namespace peercache
