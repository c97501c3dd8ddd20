#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace peercache {

namespace detail {

/// Prints the failed condition with file, line and values to standard error, then aborts.
[[noreturn]] void assert_abort(const char* condition,
                               const char* file,
                               int line,
                               const char* names,
                               const uint64_t* values,
                               size_t value_count) noexcept;

/// A value as assert and error messages carry it: integers, enumerators, pointers, strong types.
template <class Value>
uint64_t message_value(const Value& value) noexcept {
  if constexpr (std::is_pointer_v<Value>) {
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(value));
  } else if constexpr (std::is_integral_v<Value> || std::is_enum_v<Value>) {
    return static_cast<uint64_t>(value);
  } else if constexpr (requires { value.value(); }) {
    return static_cast<uint64_t>(value.value());
  } else {
    return static_cast<uint64_t>(value.count());  // a std::chrono duration
  }
}

template <class... Values>
[[noreturn, gnu::cold, gnu::noinline]] void assert_failed(const char* condition,
                                                          const char* file,
                                                          int line,
                                                          const char* names,
                                                          const Values&... values) noexcept {
  const std::array<uint64_t, sizeof...(Values) + 1> printed{message_value(values)..., 0};
  assert_abort(condition, file, line, names, printed.data(), sizeof...(Values));
}

}  // namespace detail

/// A bug if false: aborts, in every build, and prints the further arguments as values.
/// Integers, enumerators, pointers, strong ids, Bytes and durations can be printed.
#define PC_ASSERT(condition, ...)                                                \
  (__builtin_expect(static_cast<bool>(condition), 1)                             \
       ? static_cast<void>(0)                                                    \
       : ::peercache::detail::assert_failed(#condition, __FILE_NAME__, __LINE__, \
                                            #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__))

/// The same where the check is too dear for the hot path: only in builds without NDEBUG.
#ifdef NDEBUG
#define PC_DASSERT(condition, ...) static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define PC_DASSERT(condition, ...) PC_ASSERT(condition __VA_OPT__(, ) __VA_ARGS__)
#endif

/// Reaching this line is a bug: aborts, in every build.
#define PC_UNREACHABLE() \
  ::peercache::detail::assert_failed("unreachable", __FILE_NAME__, __LINE__, "")

}  // namespace peercache
