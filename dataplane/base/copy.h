#pragma once

#include <cstddef>
#include <cstdint>

namespace peercache {

/// From this size on a copy writes past the caches: a page that is read once by a GPU or a NIC
/// would only push the serving engine's data out. Below, the destination is likely to be used by
/// this core soon.
inline constexpr size_t kStreamingBytesMin = size_t{256} * 1024;

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
