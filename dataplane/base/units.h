#pragma once

#include <chrono>
#include <compare>
#include <concepts>
#include <cstdint>
#include <utility>

#include "dataplane/base/assert.h"
#include "dataplane/base/strong_id.h"

namespace peercache {

/// Every span and point of time: points are counted on the monotonic clock (base/clock.h).
using Nanos = std::chrono::nanoseconds;

/// A checked conversion between integers: a value that does not fit is a bug.
template <std::integral To, std::integral From>
[[nodiscard]] constexpr To narrow(From value) noexcept {
  PC_ASSERT(std::in_range<To>(value), value);
  return static_cast<To>(value);
}

/// An amount of bytes. Sums and differences of amounts are amounts; times and divided by counts
/// too; the quotient of two amounts is a count.
///
/// THREAD:     any; a value of 8 bytes.
/// INVARIANTS: (I1) a difference is never negative (checked where asserts are on).
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(uint64_t value) noexcept : value_(value) {}

  [[nodiscard]] constexpr uint64_t value() const noexcept { return value_; }

  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;

  constexpr Bytes& operator+=(Bytes other) noexcept {
    value_ += other.value_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) noexcept {
    PC_DASSERT(value_ >= other.value_, value_, other.value_);
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) noexcept { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) noexcept { return a -= b; }
  friend constexpr Bytes operator*(Bytes a, uint64_t count) noexcept {
    return Bytes(a.value_ * count);
  }
  friend constexpr Bytes operator*(uint64_t count, Bytes a) noexcept { return a * count; }
  friend constexpr Bytes operator/(Bytes a, uint64_t count) noexcept {
    return Bytes(a.value_ / count);
  }
  friend constexpr uint64_t operator/(Bytes a, Bytes b) noexcept { return a.value_ / b.value_; }
  friend constexpr Bytes operator%(Bytes a, Bytes b) noexcept { return Bytes(a.value_ % b.value_); }

 private:
  uint64_t value_ = 0;
};

/// `bytes` rounded up to a multiple of `unit`.
[[nodiscard]] constexpr Bytes round_up(Bytes bytes, Bytes unit) noexcept {
  return Bytes((bytes.value() + unit.value() - 1) / unit.value() * unit.value());
}

inline namespace literals {

constexpr Bytes operator""_B(unsigned long long count) noexcept { return Bytes(count); }
constexpr Bytes operator""_KiB(unsigned long long count) noexcept { return Bytes(count << 10); }
constexpr Bytes operator""_MiB(unsigned long long count) noexcept { return Bytes(count << 20); }
constexpr Bytes operator""_GiB(unsigned long long count) noexcept { return Bytes(count << 30); }

}  // namespace literals

using RailIndex = StrongId<struct RailIndexTag, uint16_t>;
using PeerIndex = StrongId<struct PeerIndexTag, uint16_t>;
using RegionIndex = StrongId<struct RegionIndexTag, uint16_t>;
using SlotIndex = StrongId<struct SlotIndexTag, uint32_t>;
using ClientIndex = StrongId<struct ClientIndexTag, uint16_t>;
using SizeClassIndex = StrongId<struct SizeClassIndexTag, uint8_t>;
using GpuIndex = StrongId<struct GpuIndexTag, uint16_t>;

/// The count of a slot's lives; wraps after 2^32 lives of one slot.
using Generation = StrongId<struct GenerationTag, uint32_t>;
/// The count of membership views.
using Epoch = StrongId<struct EpochTag, uint64_t>;

/// Numbers of the operating system; -1 is "any" or "unknown".
using NumaNode = StrongId<struct NumaNodeTag, int32_t>;
using CpuId = StrongId<struct CpuIdTag, int32_t>;
inline constexpr NumaNode kNumaNodeAny{-1};
inline constexpr CpuId kCpuAny{-1};

/// The generation after `g`.
[[nodiscard]] constexpr Generation next(Generation g) noexcept { return Generation(g.value() + 1); }
/// The epoch after `e`.
[[nodiscard]] constexpr Epoch next(Epoch e) noexcept { return Epoch(e.value() + 1); }

}  // namespace peercache
