#include "dataplane/base/error.h"

#include <cerrno>
#include <cstring>
#include <set>

#include <catch2/catch.hpp>

#include "dataplane/base/units.h"

namespace peercache {
namespace {

TEST_CASE("error: the text has the code, its number and the filled context", "[unit]") {
  const Error error = make_error(Errc::kPoolTooSmall,
                                 "pool of {} bytes cannot hold one page of {} bytes", 4_KiB, 8192);
  CHECK(to_string(error) ==
        "pool too small (4001): pool of 4096 bytes cannot hold one page of 8192 bytes");
}

TEST_CASE("error: a system error spells out errno", "[unit]") {
  const Error error = make_system_error(Errc::kSystem, ENOMEM, "cannot map {} bytes", 1_GiB);
  CHECK(to_string(error) == std::string("system call failed (6): cannot map 1073741824 bytes: ") +
                                std::strerror(ENOMEM) + " (errno 12)");
}

TEST_CASE("error: a vendor number is appended", "[unit]") {
  const Error error = make_error(Errc::kPeerLost, "wc status {}", 12).with_vendor(129);
  CHECK(to_string(error) == "peer lost (2003): wc status 12, vendor 129");
}

TEST_CASE("error: strong types, enumerators and durations are values", "[unit]") {
  const Error error = make_error(Errc::kTimeout, "rail {} code {} after {} ns {}", RailIndex(3),
                                 Errc::kBusy, Nanos(1500), static_cast<void*>(nullptr));
  CHECK(to_string(error) == "timed out (7): rail 3 code 8 after 1500 ns 0");
}

TEST_CASE("error: a context that lost its values is printed as it is", "[unit]") {
  Error error = make_error(Errc::kBusy, "client {}", 4);
  error.value_count = 0;
  CHECK(to_string(error) == "busy (8): client {}");
}

TEST_CASE("errc: every code has words of its own, and a foreign one is unknown", "[unit]") {
  std::set<std::string> seen;
  size_t known = 0;
  for (unsigned number = 0; number < 10'000; ++number) {
    const std::string words = to_string(static_cast<Errc>(number));
    REQUIRE_FALSE(words.empty());
    if (words != "unknown error") {
      ++known;
      CHECK(seen.insert(words).second);
    }
  }
  CHECK(known > 70);
  CHECK(std::string(to_string(static_cast<Errc>(0))) == "unknown error");
}

}  // namespace
}  // namespace peercache
