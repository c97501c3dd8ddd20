#include "dataplane/base/error.h"

#include <cstring>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

namespace peercache {

namespace {

// strerror_r is the GNU one here (returns the text, which may or may not be in the buffer).
std::string errno_text(int error_number) {
  std::array<char, 128> buffer{};
  return strerror_r(error_number, buffer.data(), buffer.size());
}

// Fills the placeholders by hand: a format call would throw on a context that lost its values on
// the way.
void append_context(std::string& text, const Error& error) {
  std::string_view rest(error.context);
  for (size_t i = 0; i < error.value_count; ++i) {
    const size_t at = rest.find("{}");
    if (at == std::string_view::npos) {
      break;
    }
    text.append(rest.substr(0, at));
    fmt::format_to(std::back_inserter(text), "{}", error.values[i]);
    rest.remove_prefix(at + 2);
  }
  text.append(rest);
}

}  // namespace

std::string to_string(const Error& error) {
  std::string text =
      fmt::format("{} ({})", to_string(error.code), static_cast<unsigned>(error.code));
  if (error.context[0] != '\0') {
    text += ": ";
    append_context(text, error);
  }
  if (error.os_errno != 0) {
    fmt::format_to(std::back_inserter(text), ": {} (errno {})", errno_text(error.os_errno),
                   error.os_errno);
  }
  if (error.vendor != 0) {
    fmt::format_to(std::back_inserter(text), ", vendor {}", error.vendor);
  }
  return text;
}

}  // namespace peercache
