#include "dataplane/base/copy.h"

#include <algorithm>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/base/ordering.h"

namespace peercache {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xA5};

std::vector<std::byte> random_bytes(size_t count) {
  std::mt19937_64 random(count);
  std::vector<std::byte> bytes(count);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

// Whether exactly [offset, offset + bytes) was copied and nothing around it was touched.
template <class Copy>
bool copies_exactly(Copy copy, size_t bytes, size_t to_offset, size_t from_offset) {
  const std::vector<std::byte> from = random_bytes(from_offset + bytes);
  std::vector<std::byte> to(kGuardBytes + to_offset + bytes + kGuardBytes, kGuard);
  std::byte* const target = to.data() + kGuardBytes + to_offset;
  copy(target, from.data() + from_offset, bytes);
  copy_done_fence();
  const auto is_guard = [](std::byte value) { return value == kGuard; };
  return std::equal(target, target + bytes, from.data() + from_offset) &&
         std::all_of(to.data(), target, is_guard) &&
         std::all_of(target + bytes, to.data() + to.size(), is_guard);
}

std::vector<CopyKernel> kernels_here() {
  std::vector<CopyKernel> kernels{CopyKernel::kPlain};
  if (copy_kernel() != CopyKernel::kPlain) {
    kernels.push_back(CopyKernel::kAvx2);
  }
  if (copy_kernel() == CopyKernel::kAvx512) {
    kernels.push_back(CopyKernel::kAvx512);
  }
  return kernels;
}

TEST_CASE("copy: every kernel copies every small size at every alignment", "[unit]") {
  for (const CopyKernel kernel : kernels_here()) {
    const auto copy = [&](std::byte* to, const std::byte* from, size_t bytes) {
      test_copy_streaming(kernel, to, from, bytes);
    };
    for (size_t bytes = 0; bytes <= 700; bytes += bytes < 140 ? 1 : 37) {
      for (const size_t to_offset : {0, 1, 8, 31, 32, 33, 63}) {
        for (const size_t from_offset : {0, 1, 32, 63}) {
          CAPTURE(to_string(kernel), bytes, to_offset, from_offset);
          REQUIRE(copies_exactly(copy, bytes, to_offset, from_offset));
        }
      }
    }
  }
}

TEST_CASE("copy: every kernel is exact around its block of four pages", "[unit]") {
  for (const CopyKernel kernel : kernels_here()) {
    const auto copy = [&](std::byte* to, const std::byte* from, size_t bytes) {
      test_copy_streaming(kernel, to, from, bytes);
    };
    for (const size_t blocks : {1, 2, 3}) {
      for (const ptrdiff_t more : {-65, -64, -1, 0, 1, 63, 64, 4095, 4097}) {
        const size_t bytes = blocks * 16384 + static_cast<size_t>(more);
        for (const size_t to_offset : {0, 1, 64}) {
          CAPTURE(to_string(kernel), bytes, to_offset);
          REQUIRE(copies_exactly(copy, bytes, to_offset, 5));
        }
      }
    }
  }
}

TEST_CASE("copy: copy_bytes is exact around the streaming threshold", "[unit]") {
  for (const size_t bytes :
       {kStreamingBytesMin - 65, kStreamingBytesMin - 1, kStreamingBytesMin, kStreamingBytesMin + 1,
        kStreamingBytesMin + 255, kStreamingBytesMin + 4097}) {
    for (const size_t to_offset : {0, 1, 63}) {
      for (const size_t from_offset : {0, 7, 64}) {
        CAPTURE(bytes, to_offset, from_offset);
        REQUIRE(copies_exactly(&copy_bytes, bytes, to_offset, from_offset));
      }
    }
  }
}

TEST_CASE("copy: the copies by name are exact", "[unit]") {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{63}, size_t{4096}, kStreamingBytesMin + 3}) {
    REQUIRE(copies_exactly(&copy_bytes_cached, bytes, 1, 3));
    const auto ahead = [](std::byte* to, const std::byte* from, size_t count) {
      copy_bytes_ahead(to, from, count, nullptr);
    };
    REQUIRE(copies_exactly(ahead, bytes, 1, 3));
  }
}

TEST_CASE("copy: the chosen kernel has a name", "[unit]") {
  CHECK(std::string(to_string(copy_kernel())) != "unknown");
}

}  // namespace
}  // namespace peercache
