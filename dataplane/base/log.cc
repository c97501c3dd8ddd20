#include "dataplane/base/log.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <pthread.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <time.h>
#include <unistd.h>

#include <fmt/format.h>

#include "dataplane/base/cacheline.h"
#include "dataplane/base/thread_role.h"
#include "dataplane/base/wake_event.h"

namespace peercache {

namespace {

// A line of 400 characters holds every message of the tree; longer texts are cut and marked.
constexpr size_t kTextBytesMax = 400;
// 256 KiB: a burst of a thousand peers lost at once still leaves half of it free.
constexpr size_t kRingEntries = 512;
static_assert((kRingEntries & (kRingEntries - 1)) == 0);
constexpr Nanos kExitWait = std::chrono::milliseconds(200);
constexpr Nanos kSinkWait = std::chrono::seconds(1);
constexpr Nanos kSleepMax = std::chrono::milliseconds(500);

/// One message in the ring.
/// THREAD: the producer that took its number until `turn` says written, then the log thread's.
struct alignas(kCacheLineBytes) Entry {
  std::atomic<uint64_t> turn{0};
  LogLevel level = LogLevel::kInfo;
  int line = 0;
  int32_t thread_id = 0;
  uint32_t text_bytes = 0;
  const char* file = "";
  int64_t unix_time_ns = 0;
  std::array<char, kTextBytesMax> text;
};

/// The sink and its argument change together.
/// THREAD: any; a value.
struct SinkChoice {
  LogSink sink = &log_to_fd;
  void* context = reinterpret_cast<void*>(intptr_t{STDERR_FILENO});
};

void sleep_a_little() { ::usleep(200); }

int64_t unix_now_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int32_t system_thread_id() noexcept { return static_cast<int32_t>(::syscall(SYS_gettid)); }

/// The process's log: a ring of many producers and the thread that empties it.
///
/// THREAD:     write, set_level: any; drain: the log thread; set_sink: any, serialised by
/// `sink_mutex_`. OWNS:       the ring; the thread, which is detached and lives as long as the
/// process. INVARIANTS: (I1) entry i is free for message n (n mod entries = i) when its turn is 2n,
/// written when it is 2n + 1. COST:       write formats on the caller's stack and takes one locked
/// instruction; it never waits.
class Logger {
 public:
  Logger() {
    for (size_t i = 0; i < kRingEntries; ++i) {
      entries_[i].turn.store(2 * i, std::memory_order_relaxed);  // published with the object itself
    }
  }
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  [[nodiscard]] LogLevel level() const noexcept {
    return level_.load(std::memory_order_relaxed);
  }  // a hint
  void set_level(LogLevel level) noexcept {
    level_.store(level, std::memory_order_relaxed);
  }  // a hint
  [[nodiscard]] uint64_t dropped() const noexcept {
    return dropped_.load(std::memory_order_relaxed);
  }

  void write(LogLevel level, const char* file, int line, std::string_view text) noexcept;
  bool set_sink(SinkChoice choice) noexcept;
  bool flush(Nanos timeout) noexcept;
  /// In the child of a fork: the log thread does not exist there.
  void note_forked() noexcept { forked_.store(true, std::memory_order_relaxed); }

 private:
  void ensure_thread() noexcept;
  void run() noexcept;
  bool drain_one() noexcept;
  void emit(const LogRecord& record) noexcept;
  void report_dropped() noexcept;

  std::atomic<LogLevel> level_{LogLevel::kInfo};
  std::atomic<bool> forked_{false};
  std::atomic<uint64_t> dropped_{0};
  uint64_t dropped_reported_ = 0;  // log thread

  Padded<std::atomic<uint64_t>> next_{};     // number of the next message
  Padded<std::atomic<uint64_t>> written_{};  // messages below it have been given to the sink
  std::array<Entry, kRingEntries> entries_{};

  // 0: no thread, 1: being started, 2: runs, 3: cannot run
  std::atomic<int> thread_state_{0};
  std::unique_ptr<WakeEvent> event_;

  // Two words that change together, read once per message by the log thread and changed a few times
  // per process: a ring would need a thread that empties it at every caller of set_sink.
  Mutex sink_mutex_;
  SinkChoice sink_ PC_GUARDED_BY(sink_mutex_);
  std::atomic<uint64_t> sink_calls_begun_{0};
  std::atomic<uint64_t> sink_calls_ended_{0};
};

// Never destroyed: threads may log while the process exits.
Logger& logger() noexcept {
  static Logger* const instance = [] {
    auto* created = new Logger();
    std::atexit([] { static_cast<void>(flush_log(kExitWait)); });
    ::pthread_atfork(nullptr, nullptr, [] { logger().note_forked(); });
    return created;
  }();
  return *instance;
}

void Logger::ensure_thread() noexcept {
  int state = thread_state_.load(std::memory_order_acquire);  // L3 acquire: meets L4; event_ is set
  if (state != 0 ||
      !thread_state_.compare_exchange_strong(state, 1, std::memory_order_relaxed,
                                             std::memory_order_relaxed)) {  // L4 publishes
    return;
  }
  Result<std::unique_ptr<WakeEvent>> event = WakeEvent::open();
  int outcome = 3;
  if (event.has_value()) {
    event_ = std::move(event).value();
    try {
      std::thread([this] { run(); }).detach();
      outcome = 2;
    } catch (const std::system_error&) {
      outcome = 3;  // no thread to be had: messages are counted as dropped when the ring is full
    }
  }
  thread_state_.store(outcome, std::memory_order_release);  // L4 release: meets L3; event_ is set
}

void Logger::write(LogLevel level, const char* file, int line, std::string_view text) noexcept {
  if (forked_.load(std::memory_order_relaxed)) {       // set before the child runs anything of ours
    dropped_.fetch_add(1, std::memory_order_relaxed);  // a count
    return;
  }
  ensure_thread();
  uint64_t number = next_.value.load(std::memory_order_relaxed);  // checked by the exchange below
  while (true) {
    Entry& entry = entries_[static_cast<size_t>(number) & (kRingEntries - 1)];
    // L1 acquire: meets L2 in drain_one; the former message has been read.
    const uint64_t turn = entry.turn.load(std::memory_order_acquire);
    if (turn == 2 * number) {
      // Relaxed is enough: the number only has to be ours; the entry is published by its turn.
      if (next_.value.compare_exchange_weak(number, number + 1, std::memory_order_relaxed,
                                            std::memory_order_relaxed)) {
        entry.level = level;
        entry.file = file;
        entry.line = line;
        entry.thread_id = system_thread_id();
        entry.unix_time_ns = unix_now_ns();
        entry.text_bytes = static_cast<uint32_t>(std::min(text.size(), kTextBytesMax));
        std::copy_n(text.begin(), entry.text_bytes, entry.text.data());
        entry.turn.store(2 * number + 1,
                         std::memory_order_release);  // L5 release: meets L6 in drain_one
        break;
      }
    } else if (turn < 2 * number) {
      dropped_.fetch_add(1, std::memory_order_relaxed);  // full; a count
      break;
    } else {
      number = next_.value.load(std::memory_order_relaxed);  // another producer was faster
    }
  }
  if (thread_state_.load(std::memory_order_acquire) == 2) {  // L3 acquire: meets L4; event_ is set
    event_->wake_if_sleeping();
  }
}

bool Logger::drain_one() noexcept {
  const uint64_t number = written_.value.load(std::memory_order_relaxed);  // its own index
  Entry& entry = entries_[static_cast<size_t>(number) & (kRingEntries - 1)];
  if (entry.turn.load(std::memory_order_acquire) !=
      2 * number + 1) {  // L6 acquire: meets L5; the entry is written
    return false;
  }
  emit(LogRecord{.level = entry.level,
                 .file = entry.file,
                 .line = entry.line,
                 .unix_time_ns = entry.unix_time_ns,
                 .thread_id = entry.thread_id,
                 .text = std::string_view(entry.text.data(), entry.text_bytes)});
  entry.turn.store(2 * (number + kRingEntries),
                   std::memory_order_release);  // L2 release: meets L1; entry is read
  written_.value.store(
      number + 1, std::memory_order_release);  // L7 release: meets L8 in flush; the sink has it
  return true;
}

void Logger::emit(const LogRecord& record) noexcept {
  SinkChoice choice;
  {
    const MutexLock lock(sink_mutex_);
    choice = sink_;
    sink_calls_begun_.fetch_add(1, std::memory_order_relaxed);  // ordered by the mutex
  }
  // Outside the mutex: a sink may wait for the GIL, and set_sink may be called by who holds it.
  choice.sink(choice.context, record);
  sink_calls_ended_.fetch_add(
      1, std::memory_order_release);  // L9 release: meets L10; the sink is out of its context
}

void Logger::report_dropped() noexcept {
  const uint64_t dropped = dropped_.load(std::memory_order_relaxed);  // a count
  if (dropped == dropped_reported_) {
    return;
  }
  std::array<char, 64> text{};
  const auto end = fmt::format_to_n(text.data(), text.size(), "{} log messages dropped, ring full",
                                    dropped - dropped_reported_);
  dropped_reported_ = dropped;
  emit(LogRecord{.level = LogLevel::kWarn,
                 .file = __FILE_NAME__,
                 .line = __LINE__,
                 .unix_time_ns = unix_now_ns(),
                 .thread_id = system_thread_id(),
                 .text = std::string_view(text.data(), std::min(end.size, text.size()))});
}

void Logger::run() noexcept {
  ::pthread_setname_np(::pthread_self(), "pc-log");
  while (thread_state_.load(std::memory_order_acquire) !=
         2) {  // L3 acquire: meets L4; event_ is set
    sleep_a_little();
  }
  while (true) {
    while (drain_one()) {
    }
    report_dropped();
    event_->announce_sleep();
    if (!drain_one()) {
      event_->sleep(kSleepMax);
    }
    event_->cancel_sleep();
  }
}

bool Logger::set_sink(SinkChoice choice) noexcept {
  uint64_t begun = 0;
  {
    const MutexLock lock(sink_mutex_);
    sink_ = choice;
    begun = sink_calls_begun_.load(std::memory_order_relaxed);  // ordered by the mutex
  }
  const Nanos deadline = monotonic_now() + kSinkWait;
  // L10 acquire: meets L9 in emit; calls of the former sink have returned.
  while (sink_calls_ended_.load(std::memory_order_acquire) < begun) {
    if (monotonic_now() > deadline || forked_.load(std::memory_order_relaxed)) {
      return false;
    }
    sleep_a_little();
  }
  return true;
}

bool Logger::flush(Nanos timeout) noexcept {
  const uint64_t wanted =
      next_.value.load(std::memory_order_relaxed);  // what this thread logged is below it
  const Nanos deadline = monotonic_now() + timeout;
  // L8 acquire: meets L7 in drain_one; the sink has the messages.
  while (written_.value.load(std::memory_order_acquire) < wanted) {
    const bool never =
        thread_state_.load(std::memory_order_relaxed) == 3 ||  // final states, no data read
        forked_.load(std::memory_order_relaxed);
    if (never || monotonic_now() > deadline) {
      return false;
    }
    sleep_a_little();
  }
  return true;
}

}  // namespace

const char* to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      return "off";
  }
  return "unknown";
}

bool set_log_sink(LogSink sink, void* context) noexcept {
  return logger().set_sink(sink == nullptr ? SinkChoice{}
                                           : SinkChoice{.sink = sink, .context = context});
}

void set_log_level(LogLevel level) noexcept { logger().set_level(level); }
LogLevel log_level() noexcept { return logger().level(); }
bool flush_log(Nanos timeout) noexcept { return logger().flush(timeout); }
uint64_t log_dropped_count() noexcept { return logger().dropped(); }

void log_to_fd(void* context, const LogRecord& record) noexcept {
  timespec time{};
  time.tv_sec = record.unix_time_ns / 1'000'000'000;
  tm local{};
  ::localtime_r(&time.tv_sec, &local);
  std::array<char, kTextBytesMax + 128> line{};
  const auto end = fmt::format_to_n(
      line.data(), line.size() - 1,
      "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06} {} [{}] {}:{} peercache: {}", local.tm_year + 1900,
      local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
      record.unix_time_ns % 1'000'000'000 / 1000, to_string(record.level), record.thread_id,
      record.file, record.line, record.text);
  const size_t bytes = std::min(end.size, line.size() - 1);
  line[bytes] = '\n';
  // One write per line keeps lines of several processes whole; what a full pipe refuses is lost.
  static_cast<void>(
      !::write(static_cast<int>(reinterpret_cast<intptr_t>(context)), line.data(), bytes + 1));
}

bool LogLimiter::allow(Nanos now, uint64_t& suppressed) noexcept {
  int64_t next_ns = next_ns_.load(std::memory_order_relaxed);
  if (now.count() < next_ns ||
      !next_ns_.compare_exchange_strong(next_ns, now.count() + interval_ns_,
                                        std::memory_order_relaxed, std::memory_order_relaxed)) {
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  suppressed = suppressed_.exchange(0, std::memory_order_relaxed);
  return true;
}

namespace detail {

bool log_enabled(LogLevel level) noexcept { return level >= logger().level(); }

void log_write(LogLevel level,
               const char* file,
               int line,
               fmt::string_view format,
               fmt::format_args values) noexcept {
  // The stack buffer holds every message of the tree; fmt goes to the heap beyond it.
  fmt::basic_memory_buffer<char, kTextBytesMax> text;
  try {
    fmt::vformat_to(std::back_inserter(text), format, values);
  } catch (
      const std::exception&) {  // the format was checked when compiled: only memory can be short
    text.append(std::string_view(" (message cut: out of memory)"));
  }
  if (text.size() > kTextBytesMax) {
    static constexpr std::string_view kCut = "...";
    std::copy(kCut.begin(), kCut.end(), text.data() + kTextBytesMax - kCut.size());
  }
  logger().write(level, file, line, std::string_view(text.data(), text.size()));
}

}  // namespace detail

}  // namespace peercache
