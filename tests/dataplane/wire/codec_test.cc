#include "dataplane/wire/codec.h"

#include <array>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

TEST_CASE("codec: fields are little-endian and come back in order", "[unit]") {
  ByteWriter writer;
  writer.put(uint32_t{0});
  writer.put(uint16_t{0x0102});
  writer.put(uint64_t{0x1122334455667788});
  writer.put_text("abc");
  writer.put_at(0, 7);
  const auto bytes = std::move(writer).take();
  REQUIRE(bytes.size() == 4 + 2 + 8 + 1 + 3);
  REQUIRE(bytes[4] == std::byte{0x02});
  REQUIRE(bytes[6] == std::byte{0x88});
  ByteReader reader(bytes);
  REQUIRE(reader.take<uint32_t>() == 7);
  REQUIRE(reader.take<uint16_t>() == 0x0102);
  REQUIRE(reader.take<uint64_t>() == 0x1122334455667788);
  REQUIRE(reader.take_text() == "abc");
  REQUIRE(reader.ok());
  REQUIRE(reader.rest_bytes() == 0);
}

TEST_CASE("codec: a read past the end yields zero and is remembered", "[unit]") {
  const std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  ByteReader reader(bytes);
  REQUIRE(reader.take<uint32_t>() == 0);
  REQUIRE_FALSE(reader.ok());
  REQUIRE(reader.take<uint8_t>() == 0);
  REQUIRE_FALSE(reader.ok());

  ByteReader text(bytes);
  REQUIRE(text.take_text() == "\x02");
  REQUIRE(text.take_text().empty());  // says 3, nothing is left
  REQUIRE_FALSE(text.ok());
}

}  // namespace
}  // namespace peercache
