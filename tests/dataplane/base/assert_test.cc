#include "dataplane/base/assert.h"

#include <array>
#include <csignal>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "dataplane/base/units.h"

namespace peercache {
namespace {

// THREAD: any; a value.
struct Death {
  int signal = 0;
  std::string error_text;
};

// Runs `body` in a child and reports what it died of and what it wrote to standard error.
template <class Body>
Death die(Body body) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT,
                SIG_DFL);  // Catch2's handler would report the death as a failure of this case
    ::dup2(ends[1], STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  Death death;
  std::array<char, 256> buffer{};
  for (ssize_t got = 0; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;) {
    death.error_text.append(buffer.data(), static_cast<size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  death.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return death;
}

TEST_CASE("assert: a true condition does nothing", "[unit]") {
  PC_ASSERT(1 + 1 == 2);
  PC_ASSERT(true, 1, 2);
  SUCCEED();
}

TEST_CASE("assert: a false condition aborts with file, condition and values", "[unit]") {
  const uint64_t tail = 12;
  const Death death = die([&] { PC_ASSERT(tail < 10, tail, RailIndex(3), 4_KiB); });
  CHECK(death.signal == SIGABRT);
  CHECK(death.error_text.find("assert_test.cc:") != std::string::npos);
  CHECK(death.error_text.find("tail < 10") != std::string::npos);
  CHECK(death.error_text.find("12 (0xc) 3 (0x3) 4096 (0x1000)") != std::string::npos);
}

TEST_CASE("assert: the message names no directory", "[unit]") {
  const Death death = die([] { PC_ASSERT(false); });
  CHECK(death.error_text.find('/') == std::string::npos);
}

TEST_CASE("assert: reaching an unreachable line aborts", "[unit]") {
  CHECK(die([] { PC_UNREACHABLE(); }).signal == SIGABRT);
}

TEST_CASE("assert: narrow aborts when the value does not fit", "[unit]") {
  CHECK(narrow<uint8_t>(255) == 255);
  CHECK(die([] { static_cast<void>(narrow<uint8_t>(256)); }).signal == SIGABRT);
  CHECK(die([] { static_cast<void>(narrow<uint32_t>(-1)); }).signal == SIGABRT);
}

}  // namespace
}  // namespace peercache
