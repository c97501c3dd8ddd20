#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dataplane/base/assert.h"
#include "dataplane/wire/wire_types.h"

namespace peercache {

/// Appends little-endian fields to a message.
///
/// THREAD:     its creator; a value.
/// OWNS:       the bytes so far.
/// COST:       may allocate; for hand-shakes and other messages of the control path.
class ByteWriter {
 public:
  template <std::unsigned_integral Value>
  void put(Value value) {
    const auto* bytes =
        reinterpret_cast<const std::byte*>(&value);  // wire_types.h: the host is little-endian
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(Value));
  }

  void put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  /// One byte of length, then the characters. REQUIRES: at most 255.
  void put_text(std::string_view text) {
    PC_ASSERT(text.size() <= UINT8_MAX, text.size());
    put(static_cast<uint8_t>(text.size()));
    put_bytes(std::as_bytes(std::span(text)));
  }

  /// Overwrites an earlier field. REQUIRES: it lies inside what was written.
  void put_at(size_t at, uint32_t value) {
    PC_ASSERT(at + sizeof(value) <= bytes_.size(), at, bytes_.size());
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
  }

  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Takes little-endian fields from bytes that a peer supplied. Reading past the end yields zeros
/// and is remembered: a parser reads on and asks `ok()` before it uses a count or returns a result.
///
/// THREAD:     its creator; a value.
/// BORROWS:    the bytes.
/// INVARIANTS: (I1) never reads outside the bytes. (I2) once not ok, always not ok.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::unsigned_integral Value>
  Value take() {
    Value value{};
    if (const auto bytes = take_bytes(sizeof(Value)); bytes.size() == sizeof(Value)) {
      std::memcpy(&value, bytes.data(), sizeof(Value));
    }
    return value;
  }

  /// The next `count` bytes, or none and not ok() if there are fewer.
  std::span<const std::byte> take_bytes(size_t count) {
    if (!ok_ || count > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::string take_text() {
    const auto bytes = take_bytes(take<uint8_t>());
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] size_t rest_bytes() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace peercache
