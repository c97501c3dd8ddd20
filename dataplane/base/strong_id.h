#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <functional>

namespace peercache {

/// A number that names something. Explicit both ways, ordered, hashable, and without arithmetic: an
/// index of a rail is not an index of a peer, and neither can be added to anything.
///
/// THREAD:     any; a value, of the size of Rep.
template <class Tag, std::integral Rep>
class StrongId {
 public:
  using rep = Rep;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) noexcept : value_(value) {}

  [[nodiscard]] constexpr Rep value() const noexcept { return value_; }

  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;

 private:
  Rep value_{};
};

}  // namespace peercache

template <class Tag, class Rep>
struct std::hash<peercache::StrongId<Tag, Rep>> {
  size_t operator()(const peercache::StrongId<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
