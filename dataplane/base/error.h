#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "dataplane/base/assert.h"
#include "dataplane/base/errc.h"

namespace peercache {

/// Why a set-up or control call failed: a code, the system's and the device's number, and a literal
/// sentence with the values that matter. Small and trivially copyable, so that it crosses rings and
/// is returned without a heap.
///
/// THREAD:     any; a value.
/// BORROWS:    `context`, always a string literal (make_error accepts nothing else).
/// INVARIANTS: (I1) `context` has exactly `value_count` placeholders `{}`.
struct Error {
  static constexpr size_t kValuesMax = 4;

  Errc code = Errc::kInvalidArgument;
  uint8_t value_count = 0;
  int32_t os_errno = 0;  ///< errno of the call that failed, or 0
  uint32_t vendor = 0;   ///< e.g. the vendor error of a work completion, or 0
  const char* context = "";
  std::array<uint64_t, kValuesMax> values{};

  /// The same error with a device's own number attached.
  [[nodiscard]] constexpr Error with_vendor(uint32_t number) const noexcept {
    Error copy = *this;
    copy.vendor = number;
    return copy;
  }
};
static_assert(std::is_trivially_copyable_v<Error>);

/// A string literal whose number of `{}` is checked against the number of values when it is
/// compiled.
///
/// THREAD:     any; a value.
template <size_t kValueCount>
class ErrorContext {
 public:
  template <size_t kChars>
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is meant to become one silently
  consteval ErrorContext(const char (&literal)[kChars]) : text_(literal) {
    size_t placeholders = 0;
    for (size_t i = 0; i + 1 < kChars; ++i) {
      placeholders += literal[i] == '{' && literal[i + 1] == '}' ? 1 : 0;
    }
    if (placeholders != kValueCount) {
      // Not a constant expression: a wrong count fails to compile.
      throw "an error context needs one {} per value";
    }
  }

  [[nodiscard]] constexpr const char* text() const noexcept { return text_; }

 private:
  const char* text_;
};

/// An error with a code and a sentence; each `{}` of the literal is filled by one value, in order.
/// Values are integers, enumerators, pointers, strong ids, Bytes or durations (their count).
template <class... Values>
  requires(sizeof...(Values) <= Error::kValuesMax)
[[nodiscard]] Error make_error(Errc code,
                               ErrorContext<sizeof...(Values)> context,
                               const Values&... values) noexcept {
  Error error;
  error.code = code;
  error.value_count = sizeof...(Values);
  error.context = context.text();
  error.values = {detail::message_value(values)...};
  return error;
}

/// The same for a failed system call; `error_number` is errno (or a positive return code), kept and
/// spelled out.
template <class... Values>
  requires(sizeof...(Values) <= Error::kValuesMax)
[[nodiscard]] Error make_system_error(Errc code,
                                      int error_number,
                                      ErrorContext<sizeof...(Values)> context,
                                      const Values&... values) noexcept {
  Error error = make_error(code, context, values...);
  error.os_errno = error_number;
  return error;
}

/// "pool too small (4001): pool of 4096 bytes cannot hold one page of 8192 bytes", followed by ":
/// Cannot allocate memory (errno 12)" and ", vendor 129" where those numbers are set. Never throws
/// but for lack of memory.
std::string to_string(const Error& error);

}  // namespace peercache
