#pragma once

#include <cstdint>

namespace peercache::perf {

/// Heap allocations of the calling thread since its start. Programs that link this count them all:
/// operator new is
/// replaced by one that counts and calls malloc.
///
/// THREAD:     any; each sees its own.
uint64_t allocations_of_this_thread() noexcept;

}  // namespace peercache::perf
