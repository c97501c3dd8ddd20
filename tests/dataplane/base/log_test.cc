#include "dataplane/base/log.h"

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "dataplane/base/units.h"

namespace peercache {
namespace {

constexpr Nanos kWait = std::chrono::seconds(10);

// Collects messages; the sink of a case, put back to the default at its end.
// THREAD: the log thread writes, the case reads; a mutex, since this is a test.
class Collector {
 public:
  Collector() { REQUIRE(set_log_sink(&collect, this)); }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  ~Collector() {
    gate_open.store(
        true,
        std::memory_order_release);  // meets the acquire in collect: lets a blocked sink go on
    static_cast<void>(flush_log(kWait));
    static_cast<void>(set_log_sink(nullptr, nullptr));
    set_log_level(LogLevel::kInfo);
  }

  std::vector<std::string> texts() {
    REQUIRE(flush_log(kWait));
    const std::lock_guard lock(mutex_);
    return texts_;
  }

  std::atomic<bool> gate_open{true};

 private:
  static void collect(void* context, const LogRecord& record) {
    auto& self = *static_cast<Collector*>(context);
    while (!self.gate_open.load(std::memory_order_acquire)) {  // meets the release of the case
      std::this_thread::yield();
    }
    const std::lock_guard lock(self.mutex_);
    self.texts_.push_back(std::string(to_string(record.level)) + " " + record.file + " " +
                          std::string(record.text));
  }

  std::mutex mutex_;
  std::vector<std::string> texts_;
};

TEST_CASE("log: a message reaches the sink with level, file and values", "[unit]") {
  Collector collector;
  PC_LOG_WARN("rail {} down, {} bytes, qp {:#x}, {} ns, {}", RailIndex(3), 4_KiB, 0x1a2, Nanos(7),
              "lid 14");
  CHECK(
      collector.texts() ==
      std::vector<std::string>{"warn log_test.cc rail 3 down, 4096 bytes, qp 0x1a2, 7 ns, lid 14"});
}

TEST_CASE("log: messages below the level are not formatted", "[unit]") {
  Collector collector;
  int evaluated = 0;
  PC_LOG_DEBUG("{}", ++evaluated);
  set_log_level(LogLevel::kDebug);
  PC_LOG_DEBUG("{}", ++evaluated);
  set_log_level(LogLevel::kOff);
  PC_LOG_ERROR("{}", ++evaluated);
  CHECK(evaluated == 1);
  CHECK(collector.texts() == std::vector<std::string>{"debug log_test.cc 1"});
}

TEST_CASE("log: a long message is cut and marked", "[unit]") {
  Collector collector;
  PC_LOG_INFO("{}", std::string(5000, 'x'));
  const std::vector<std::string> texts = collector.texts();
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].size() < 450);
  CHECK(texts[0].ends_with("xxx..."));
}

TEST_CASE("log: messages of many threads all arrive, each thread's in order", "[unit]") {
  Collector collector;
  constexpr int kThreads = 4;
  constexpr int kMessages = 100;  // together below the ring's size: none may be dropped
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread] {
      for (int i = 0; i < kMessages; ++i) {
        PC_LOG_INFO("{} {}", thread, i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::array<int, kThreads> next{};
  for (const std::string& text : collector.texts()) {
    const std::string message = text.substr(text.find(".cc ") + 4);
    const size_t thread = static_cast<size_t>(message[0] - '0');
    CHECK(message == std::to_string(thread) + " " + std::to_string(next.at(thread)++));
  }
  CHECK(next == std::array<int, kThreads>{kMessages, kMessages, kMessages, kMessages});
}

TEST_CASE("log: nobody waits for a blocked sink, and what is dropped is counted and reported",
          "[unit]") {
  Collector collector;
  const uint64_t dropped_before = log_dropped_count();
  collector.gate_open.store(false, std::memory_order_release);  // meets the acquire in collect
  for (int i = 0; i < 2000; ++i) {
    PC_LOG_INFO("{}", i);
  }
  const uint64_t dropped = log_dropped_count() - dropped_before;
  CHECK(dropped >= 2000 - 513);
  CHECK(dropped < 2000);
  collector.gate_open.store(true, std::memory_order_release);  // meets the acquire in collect
  // The report follows when the ring is empty; it is not a message of the ring, so flush does not
  // wait for it.
  const std::string report = std::to_string(dropped) + " log messages dropped, ring full";
  const Nanos deadline = monotonic_now() + kWait;
  bool reported = false;
  while (!reported && monotonic_now() < deadline) {
    const std::vector<std::string> texts = collector.texts();
    reported = texts.back().ends_with(report);
  }
  CHECK(reported);
}

TEST_CASE(
    "log: a sink may be replaced while messages flow, and the old one is not called afterwards",
    "[unit]") {
  std::atomic<bool> stop{false};
  std::thread talker([&] {
    while (!stop.load(std::memory_order_relaxed)) {  // only ends the loop
      PC_LOG_INFO("talk");
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 20; ++i) {
    const Collector collector;  // destroyed with its context while the talker goes on
  }
  stop.store(true, std::memory_order_relaxed);  // only ends the loop
  talker.join();
  SUCCEED();
}

TEST_CASE("log: a child after fork does not hang and logs nothing", "[unit]") {
  Collector collector;
  PC_LOG_INFO("before");
  REQUIRE(flush_log(kWait));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const uint64_t before = log_dropped_count();
    PC_LOG_INFO("in the child");
    static_cast<void>(flush_log(kWait));  // returns: nobody would ever write
    ::_exit(log_dropped_count() == before + 1 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(collector.texts().size() == 1);
}

TEST_CASE("log: the default sink writes one line to a descriptor", "[unit]") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  log_to_fd(reinterpret_cast<void*>(intptr_t{ends[1]}),
            LogRecord{.level = LogLevel::kError, .file = "rail.h", .line = 12, .text = "lost"});
  ::close(ends[1]);
  std::array<char, 512> buffer{};
  const ssize_t got = ::read(ends[0], buffer.data(), buffer.size());
  ::close(ends[0]);
  REQUIRE(got > 0);
  const std::string line(buffer.data(), static_cast<size_t>(got));
  CHECK(line.ends_with(" error [0] rail.h:12 peercache: lost\n"));
}

TEST_CASE("log: a limiter lets one message through per interval and says how many it held back",
          "[unit]") {
  LogLimiter limiter(std::chrono::seconds(1));
  uint64_t suppressed = 99;
  CHECK(limiter.allow(Nanos(0), suppressed));
  CHECK(suppressed == 0);
  CHECK_FALSE(limiter.allow(Nanos(1), suppressed));
  CHECK_FALSE(limiter.allow(std::chrono::milliseconds(999), suppressed));
  CHECK(limiter.allow(std::chrono::milliseconds(1000), suppressed));
  CHECK(suppressed == 2);
}

TEST_CASE("log: the limited macro adds the number held back", "[unit]") {
  Collector collector;
  LogLimiter limiter(Nanos(0));
  PC_LOG_LIMITED(limiter, LogLevel::kWarn, "peer {} lost", PeerIndex(4));
  LogLimiter strict(std::chrono::hours(1));
  PC_LOG_LIMITED(strict, LogLevel::kWarn, "no values");
  PC_LOG_LIMITED(strict, LogLevel::kWarn, "no values");
  CHECK(collector.texts() ==
        std::vector<std::string>{"warn log_test.cc peer 4 lost", "warn log_test.cc no values"});
}

}  // namespace
}  // namespace peercache
