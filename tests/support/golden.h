#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace peercache::test {

/// Requires that `bytes` are those of tests/golden/<name>.bin. A difference leaves what was found
/// in golden-found/<name>.bin of the working directory: after a deliberate change of a format, look
/// at both and copy it.
inline void require_golden(const std::string& name, std::span<const std::byte> bytes) {
  const std::string path = std::string(PC_GOLDEN_DIR) + "/" + name + ".bin";
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> wanted{std::istreambuf_iterator<char>(file),
                                 std::istreambuf_iterator<char>()};
  const std::vector<char> found(reinterpret_cast<const char*>(bytes.data()),
                                reinterpret_cast<const char*>(bytes.data()) + bytes.size());
  if (found != wanted) {
    std::filesystem::create_directory("golden-found");
    std::ofstream("golden-found/" + name + ".bin", std::ios::binary)
        .write(found.data(), static_cast<std::streamsize>(found.size()));
  }
  INFO("golden file " << path);
  REQUIRE(found == wanted);
}

template <class Struct>
void require_golden_struct(const std::string& name, const Struct& value) {
  require_golden(name, std::as_bytes(std::span<const Struct>(&value, 1)));
}

}  // namespace peercache::test
