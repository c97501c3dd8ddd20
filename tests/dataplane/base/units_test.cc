#include "dataplane/base/units.h"

#include <catch2/catch.hpp>

#include "dataplane/base/limits.h"

namespace peercache {
namespace {

TEST_CASE("units: binary literals are powers of 1024", "[unit]") {
  CHECK((1_KiB).value() == 1024);
  CHECK((1_MiB).value() == 1024 * 1024);
  CHECK(1_GiB == 1024_MiB);
}

TEST_CASE("units: amounts add, subtract, scale and divide", "[unit]") {
  CHECK(3_KiB - 1_KiB == 2_KiB);
  CHECK(2_KiB * 3 == 6_KiB);
  CHECK(3 * 2_KiB == 6_KiB);
  CHECK(6_KiB / 3 == 2_KiB);
  CHECK(6_KiB / 4_KiB == 1);
  CHECK(6_KiB % 4_KiB == 2_KiB);
  CHECK(round_up(Bytes(1), 4_KiB) == 4_KiB);
  CHECK(round_up(4_KiB, 4_KiB) == 4_KiB);
  CHECK(round_up(Bytes(0), 4_KiB) == Bytes(0));
}

TEST_CASE("units: generations wrap and epochs count", "[unit]") {
  CHECK(next(Generation(7)) == Generation(8));
  CHECK(next(Generation(UINT32_MAX)) == Generation(0));
  CHECK(next(Epoch(1)) == Epoch(2));
}

TEST_CASE("units: narrow keeps what fits, of either sign", "[unit]") {
  CHECK(narrow<int8_t>(int64_t{-128}) == -128);
  CHECK(narrow<uint32_t>(size_t{UINT32_MAX}) == UINT32_MAX);
}

}  // namespace
}  // namespace peercache
