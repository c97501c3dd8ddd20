#include "dataplane/base/result.h"

#include <csignal>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

Result<std::unique_ptr<int>> make_box(bool good, int value = 7) {
  if (!good) {
    return make_error(Errc::kNoMemory, "no box for {}", value);
  }
  return std::make_unique<int>(value);
}

Result<void> need(bool good) {
  if (!good) {
    return make_error(Errc::kBusy, "not now");
  }
  return {};
}

Result<int> two_steps(bool first, bool second) {
  PC_TRY(need(first));
  PC_TRY_ASSIGN(auto box, make_box(second, 40));
  PC_TRY_ASSIGN(box, make_box(true, *box + 2));
  return *box;
}

TEST_CASE("result: a value is found and a move-only one can be moved out", "[unit]") {
  Result<std::unique_ptr<int>> box = make_box(true);
  REQUIRE(box.has_value());
  CHECK(static_cast<bool>(box));
  CHECK(**box == 7);
  const std::unique_ptr<int> moved = std::move(box).value();
  CHECK(*moved == 7);
}

TEST_CASE("result: an error is found, with its values", "[unit]") {
  const Result<std::unique_ptr<int>> box = make_box(false);
  REQUIRE_FALSE(box.has_value());
  CHECK(box.error().code == Errc::kNoMemory);
  CHECK(to_string(box.error()) == "out of memory (4): no box for 7");
}

TEST_CASE("result: value_or gives the fallback only on an error", "[unit]") {
  CHECK(Result<int>(3).value_or(9) == 3);
  CHECK(Result<int>(make_error(Errc::kBusy, "")).value_or(9) == 9);
}

TEST_CASE("result: arrow reaches the value's members", "[unit]") {
  const Result<std::string> text(std::string("abc"));
  CHECK(text->size() == 3);
}

TEST_CASE("result: void is success by default", "[unit]") {
  CHECK(Result<void>().has_value());
  CHECK(need(false).error().code == Errc::kBusy);
}

TEST_CASE("result: the try macros pass values on and stop at the first error", "[unit]") {
  CHECK(*two_steps(true, true) == 42);
  CHECK(two_steps(false, true).error().code == Errc::kBusy);
  CHECK(two_steps(true, false).error().code == Errc::kNoMemory);
}

TEST_CASE("result: other error types work", "[unit]") {
  const Result<int, std::string> failed = Unexpected<std::string>("why");
  CHECK(failed.error() == "why");
}

TEST_CASE("result: reading a value that is not there aborts", "[unit]") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    ::close(STDERR_FILENO);
    const Result<int> failed = make_error(Errc::kBusy, "");
    ::_exit(*failed);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

}  // namespace
}  // namespace peercache
