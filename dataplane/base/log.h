#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/core.h>

#include "dataplane/base/clock.h"  // IWYU pragma: keep (used by a macro)
#include "dataplane/base/units.h"

namespace peercache {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError, kOff };

[[nodiscard]] const char* to_string(LogLevel level) noexcept;

/// One message, as the sink sees it.
///
/// THREAD:     any; a value. BORROWS: everything, for the call of the sink.
struct LogRecord {
  LogLevel level = LogLevel::kInfo;
  const char* file = "";  ///< base name
  int line = 0;
  int64_t unix_time_ns = 0;
  int32_t thread_id = 0;  ///< as the system numbers threads
  std::string_view text;
};

/// Where messages go. Called by the log thread only, one at a time; it may block (Python's GIL) and
/// must not throw.
using LogSink = void (*)(void* context, const LogRecord& record);

/// Messages pass a bounded ring and are written by a thread of their own, started by the first
/// message: no caller ever waits for a log, and never writes to standard output. When the ring is
/// full a message is dropped and counted, and the next one that fits says how many were. This is
/// the one process-wide object of the tree: a log call takes no argument for it, since that
/// argument would be in every class.

/// Replaces the sink; a null `sink` brings back the default (standard error). Waits until the
/// former sink is not being called any more, at most 1 s (a sink that waits for a lock of the
/// caller), and says whether that is so.
bool set_log_sink(LogSink sink, void* context) noexcept;
/// Messages below `level` cost one relaxed load. The default is kInfo.
void set_log_level(LogLevel level) noexcept;
[[nodiscard]] LogLevel log_level() noexcept;

/// Waits until everything logged before is written, at most `timeout`; says whether it is.
bool flush_log(Nanos timeout) noexcept;
/// Messages dropped since start: ring full, or logged in a child process after fork.
[[nodiscard]] uint64_t log_dropped_count() noexcept;

/// A sink that appends "time level thread file:line text" lines to a descriptor (context: the fd as
/// intptr_t).
void log_to_fd(void* context, const LogRecord& record) noexcept;

/// Lets one message through per interval and counts the others.
///
/// THREAD:     any; a member of the class whose message repeats.
class LogLimiter {
 public:
  explicit LogLimiter(Nanos interval = std::chrono::seconds(10)) noexcept
      : interval_ns_(interval.count()) {}

  /// Whether to log now; if so `suppressed` is the number of messages since the last one that were
  /// not logged.
  [[nodiscard]] bool allow(Nanos now, uint64_t& suppressed) noexcept;

 private:
  int64_t interval_ns_;
  // Relaxed throughout: two threads at the same moment may both log, or count one message too few.
  std::atomic<int64_t> next_ns_{INT64_MIN};
  std::atomic<uint64_t> suppressed_{0};
};

namespace detail {

[[nodiscard]] bool log_enabled(LogLevel level) noexcept;
void log_write(LogLevel level,
               const char* file,
               int line,
               fmt::string_view format,
               fmt::format_args values) noexcept;

/// Strong ids, Bytes and durations are logged as their bare number; everything else as it is.
/// (Formatters of fmt would need its large header in every file that logs.)
template <class Value>
[[nodiscard]] decltype(auto) loggable(const Value& value) noexcept {
  if constexpr (requires {
                  typename Value::rep;
                  value.count();
                }) {
    return value.count();
  } else if constexpr (requires {
                         typename Value::rep;
                         value.value();
                       } || std::same_as<Value, Bytes>) {
    return value.value();
  } else {
    return (value);
  }
}
template <class Value>
using Loggable = std::remove_cvref_t<decltype(loggable(std::declval<const Value&>()))>;

template <class... Values>
void log_message(LogLevel level,
                 const char* file,
                 int line,
                 fmt::format_string<Loggable<Values>...> format,
                 const Values&... values) noexcept {
  log_write(level, file, line, format, fmt::make_format_args(loggable(values)...));
}

}  // namespace detail

#define PC_LOG(level, ...)                                                           \
  do {                                                                               \
    if (::peercache::detail::log_enabled(level)) {                                   \
      ::peercache::detail::log_message(level, __FILE_NAME__, __LINE__, __VA_ARGS__); \
    }                                                                                \
  } while (false)

/// PC_LOG_WARN("rail {} down, wc status {}", rail, status): lower case, one line, values bare.
/// Never on a hot path.
#define PC_LOG_DEBUG(...) PC_LOG(::peercache::LogLevel::kDebug, __VA_ARGS__)
#define PC_LOG_INFO(...) PC_LOG(::peercache::LogLevel::kInfo, __VA_ARGS__)
#define PC_LOG_WARN(...) PC_LOG(::peercache::LogLevel::kWarn, __VA_ARGS__)
#define PC_LOG_ERROR(...) PC_LOG(::peercache::LogLevel::kError, __VA_ARGS__)

/// The same for a message that may repeat, with a LogLimiter; what was left out is added as ", N
/// more like it".
#define PC_LOG_LIMITED(limiter, level, format, ...)                                     \
  do {                                                                                  \
    uint64_t pc_log_suppressed = 0;                                                     \
    if (::peercache::detail::log_enabled(level) &&                                      \
        (limiter).allow(::peercache::monotonic_now(), pc_log_suppressed)) {             \
      if (pc_log_suppressed == 0) {                                                     \
        ::peercache::detail::log_message(level, __FILE_NAME__, __LINE__,                \
                                         format __VA_OPT__(, ) __VA_ARGS__);            \
      } else {                                                                          \
        ::peercache::detail::log_message(level, __FILE_NAME__, __LINE__,                \
                                         format ", {} more like it",                    \
                                         __VA_ARGS__ __VA_OPT__(, ) pc_log_suppressed); \
      }                                                                                 \
    }                                                                                   \
  } while (false)

}  // namespace peercache
