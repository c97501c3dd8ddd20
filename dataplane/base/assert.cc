#include "dataplane/base/assert.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace peercache::detail {

void assert_abort(const char* condition,
                  const char* file,
                  int line,
                  const char* names,
                  const uint64_t* values,
                  size_t value_count) noexcept {
  // stdio only: the heap may be what is broken, and the log thread may be the one that asserts.
  std::fprintf(stderr, "peercache: %s:%d: assertion failed: %s", file, line, condition);
  if (value_count != 0) {
    std::fprintf(stderr, " with (%s) =", names);
    for (size_t i = 0; i < value_count; ++i) {
      std::fprintf(stderr, " %" PRIu64 " (0x%" PRIx64 ")", values[i], values[i]);
    }
  }
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace peercache::detail
