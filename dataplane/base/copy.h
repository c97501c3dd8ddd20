#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/base/cacheline.h"

namespace peercache {

/// From this size on a copy writes past the caches: a page that is read once by a GPU or a NIC
/// would only push the serving engine's data out, and a plain store first reads the line that it
/// overwrites. Measured on Sapphire Rapids, sources of 1 GiB in random order into 256 MiB, in GB/s
/// for objects of 4 KiB, 16 KiB, 128 KiB and 2 MiB: libc 5.1, 4.8, 6.1, 6.1; non-temporal without
/// prefetch 6.3, 8.4, 9.3, 9.7; with the prefetch of kPrefetchAheadBytes 7.5, 10.2, 11.1, 11.8. So
/// it wins from one page on whenever the bytes are not in a cache.
inline constexpr size_t kStreamingBytesMin = 4096;

/// A piece below this is copied plainly even inside a streamed object: its two partial lines would
/// cost more than the rest gains (pieces of 256 bytes still reach 98 % of the speed of whole
/// pages).
inline constexpr size_t kStreamingPieceBytesMin = 256;

/// How far ahead of the loads a streamed copy prefetches its source: one page, since the hardware
/// prefetcher stops at the end of a page and small objects end there as well. Into L2 (hint T1),
/// because T0 takes the few line-fill buffers of L1 (9.2 GB/s at 128 KiB instead of 11.1) and NTA
/// those as well (5.0). 2 to 16 KiB differ by less than the noise from 16 KiB objects on; at 4 KiB
/// anything below a page loses 25 %.
inline constexpr size_t kPrefetchAheadBytes = 4096;

/// Which instructions copy_bytes uses for large copies on this machine.
enum class CopyKernel : uint8_t { kPlain, kAvx2, kAvx512 };
[[nodiscard]] CopyKernel copy_kernel() noexcept;
[[nodiscard]] const char* to_string(CopyKernel kernel) noexcept;

/// Copies payload. The source may be written concurrently: the caller validates afterwards, and the
/// bytes of a lost race are whatever was there. Any size, any alignment; ranges do not overlap.
///
/// Ends WITHOUT a fence: run copy_done_fence() (base/ordering.h) before the copy is completed or
/// published, and validation_fence() before the source's header is looked at.
void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) noexcept;

/// One part of a copy that goes on elsewhere: writes past the caches (from kStreamingPieceBytesMin
/// on) and meanwhile prefetches `bytes` bytes at `ahead`, the place that the caller reads
/// kPrefetchAheadBytes later: the same object further on, or the next one. That is what keeps the
/// memory busy across many small objects. `ahead` may be any address, mapped or not. No fence
/// either.
void copy_bytes_ahead(std::byte* to,
                      const std::byte* from,
                      size_t bytes,
                      const std::byte* ahead) noexcept;

/// Prefetches the first `bytes` of what will be copied soon. Any address.
inline void prefetch_bytes(const std::byte* from, size_t bytes) noexcept {
  for (size_t line = 0; line < bytes; line += kCacheLineBytes) {
    __builtin_prefetch(from + line, 0, 2);  // into L2, as above
  }
}

/// The same into the caches whatever the size: for bytes that this core reads next (a checksum, a
/// small message).
void copy_bytes_cached(std::byte* to, const std::byte* from, size_t bytes) noexcept;

/// The large-copy kernel by name, for tests and benchmarks; any size. REQUIRES: this machine has
/// it.
void test_copy_streaming(CopyKernel kernel,
                         std::byte* to,
                         const std::byte* from,
                         size_t bytes) noexcept;

}  // namespace peercache
