#pragma once

#include <concepts>
#include <type_traits>
#include <utility>
#include <variant>

#include "dataplane/base/assert.h"
#include "dataplane/base/error.h"

namespace peercache {

/// The error side of a Result, spelled out: `return Unexpected(error);`.
///
/// THREAD:     any; a value.
template <class E = Error>
class Unexpected {
 public:
  explicit constexpr Unexpected(E error) : error_(std::move(error)) {}
  [[nodiscard]] constexpr const E& error() const& noexcept { return error_; }
  [[nodiscard]] constexpr E&& error() && noexcept { return std::move(error_); }

 private:
  E error_;
};

/// A value or the reason why there is none. A subset of std::expected with its names, so that a
/// later alias can replace it; unlike std::expected, `*` and `->` are checked, since reading a
/// value that is not there is a bug.
///
/// THREAD:     any; a value.
/// INVARIANTS: (I1) exactly one of value and error exists.
/// COST:       no allocation beyond T's own.
template <class T, class E = Error>
class [[nodiscard]] Result {
  static_assert(!std::is_reference_v<T> && !std::is_same_v<std::remove_cv_t<T>, E>);

 public:
  using value_type = T;
  using error_type = E;

  template <class U = T>
    requires(std::constructible_from<T, U &&> && !std::same_as<std::remove_cvref_t<U>, Result> &&
             !std::same_as<std::remove_cvref_t<U>, E>)
  constexpr explicit(!std::convertible_to<U&&, T>)
      Result(U&& value)  // NOLINT(bugprone-forwarding-reference-overload)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  constexpr Result(E error)  // NOLINT(google-explicit-constructor): `return make_error(...)`
      : state_(std::in_place_index<1>, std::move(error)) {}
  constexpr Result(Unexpected<E> error)  // NOLINT(google-explicit-constructor)
      : state_(std::in_place_index<1>, std::move(error).error()) {}

  [[nodiscard]] constexpr bool has_value() const noexcept { return state_.index() == 0; }
  constexpr explicit operator bool() const noexcept { return has_value(); }

  [[nodiscard]] constexpr T& value() & { return *checked(); }
  [[nodiscard]] constexpr const T& value() const& { return *checked(); }
  [[nodiscard]] constexpr T&& value() && { return std::move(*checked()); }
  [[nodiscard]] constexpr T& operator*() & { return *checked(); }
  [[nodiscard]] constexpr const T& operator*() const& { return *checked(); }
  [[nodiscard]] constexpr T&& operator*() && { return std::move(*checked()); }
  [[nodiscard]] constexpr T* operator->() { return checked(); }
  [[nodiscard]] constexpr const T* operator->() const { return checked(); }

  template <class U>
  [[nodiscard]] constexpr T value_or(U&& fallback) const& {
    return has_value() ? *checked() : static_cast<T>(std::forward<U>(fallback));
  }
  template <class U>
  [[nodiscard]] constexpr T value_or(U&& fallback) && {
    return has_value() ? std::move(*checked()) : static_cast<T>(std::forward<U>(fallback));
  }

  [[nodiscard]] constexpr const E& error() const& {
    PC_ASSERT(!has_value());
    return *std::get_if<1>(&state_);
  }
  [[nodiscard]] constexpr E&& error() && {
    PC_ASSERT(!has_value());
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  constexpr T* checked() {
    PC_ASSERT(has_value());
    return std::get_if<0>(&state_);
  }
  constexpr const T* checked() const {
    PC_ASSERT(has_value());
    return std::get_if<0>(&state_);
  }

  std::variant<T, E> state_;
};

/// Success without a value, or the reason of a failure.
///
/// THREAD:     any; a value.
template <class E>
class [[nodiscard]] Result<void, E> {
 public:
  using value_type = void;
  using error_type = E;

  constexpr Result() = default;
  constexpr Result(E error)  // NOLINT(google-explicit-constructor)
      : error_(std::move(error)), has_value_(false) {}
  constexpr Result(Unexpected<E> error)  // NOLINT(google-explicit-constructor)
      : error_(std::move(error).error()), has_value_(false) {}

  [[nodiscard]] constexpr bool has_value() const noexcept { return has_value_; }
  constexpr explicit operator bool() const noexcept { return has_value_; }
  constexpr void value() const { PC_ASSERT(has_value_); }
  [[nodiscard]] constexpr const E& error() const& {
    PC_ASSERT(!has_value_);
    return error_;
  }
  [[nodiscard]] constexpr E&& error() && {
    PC_ASSERT(!has_value_);
    return std::move(error_);
  }

 private:
  E error_{};
  bool has_value_ = true;
};

#define PC_CONCAT_IMPL(a, b) a##b
#define PC_CONCAT(a, b) PC_CONCAT_IMPL(a, b)

/// Returns from the caller with the error of a Result; goes on if there is none. A value is
/// dropped.
#define PC_TRY(...) PC_TRY_IMPL(PC_CONCAT(pc_try_, __COUNTER__), __VA_ARGS__)
#define PC_TRY_IMPL(result, ...)                                 \
  do {                                                           \
    auto result = (__VA_ARGS__);                                 \
    if (!result.has_value()) {                                   \
      return ::peercache::Unexpected(std::move(result).error()); \
    }                                                            \
  } while (false)

/// `PC_TRY_ASSIGN(auto fd, open_it());` declares (or assigns) the value, or returns from the caller
/// with the error. It is two statements: not for an `if` without braces.
#define PC_TRY_ASSIGN(declaration, ...) \
  PC_TRY_ASSIGN_IMPL(PC_CONCAT(pc_try_, __COUNTER__), declaration, __VA_ARGS__)
#define PC_TRY_ASSIGN_IMPL(result, declaration, ...)           \
  auto result = (__VA_ARGS__);                                 \
  if (!result.has_value()) {                                   \
    return ::peercache::Unexpected(std::move(result).error()); \
  }                                                            \
  declaration = std::move(result).value()

}  // namespace peercache
