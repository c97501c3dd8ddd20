#include "dataplane/base/copy.h"

#include <cstring>

#include "dataplane/base/assert.h"
#include "dataplane/base/cacheline.h"
#include "dataplane/base/ordering.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace peercache {

namespace {

// libc's copy is watched by the thread sanitizer, and the race with the source is intended (design
// 6): under the sanitizer bytes go through the one function that it skips.
PC_RACY inline void copy_plain(std::byte* to, const std::byte* from, size_t bytes) noexcept {
#if PC_TSAN
  racy_copy(to, from, bytes);
#else
  std::memcpy(to, from, bytes);
#endif
}

#if defined(__x86_64__)

// Bytes until `to` is aligned to `alignment`, at most `bytes`.
size_t head_bytes(const std::byte* to, size_t alignment, size_t bytes) noexcept {
  const size_t past = reinterpret_cast<uintptr_t>(to) & (alignment - 1);
  const size_t head = past == 0 ? 0 : alignment - past;
  return head < bytes ? head : bytes;
}

// Four lines per turn keep enough loads in flight to hide DRAM latency. Stores are aligned: a
// non-temporal store that straddles lines would split.
constexpr size_t kTurnBytes = 4 * kCacheLineBytes;

[[gnu::target("avx2")]] PC_RACY void stream_avx2(std::byte* to,
                                                 const std::byte* from,
                                                 size_t bytes,
                                                 const std::byte* ahead) noexcept {
  const size_t head = head_bytes(to, kCacheLineBytes, bytes);
  copy_plain(to, from, head);
  to += head;
  from += head;
  ahead += head;
  bytes -= head;
  for (; bytes >= kTurnBytes;
       bytes -= kTurnBytes, to += kTurnBytes, from += kTurnBytes, ahead += kTurnBytes) {
    prefetch_bytes(ahead, kTurnBytes);
    __m256i vectors[kTurnBytes / sizeof(__m256i)];
    for (size_t i = 0; i < kTurnBytes / sizeof(__m256i); ++i) {
      vectors[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + i);
    }
    for (size_t i = 0; i < kTurnBytes / sizeof(__m256i); ++i) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + i, vectors[i]);
    }
  }
  copy_plain(to, from, bytes);
}

[[gnu::target("avx512f")]] PC_RACY void stream_avx512(std::byte* to,
                                                      const std::byte* from,
                                                      size_t bytes,
                                                      const std::byte* ahead) noexcept {
  const size_t head = head_bytes(to, kCacheLineBytes, bytes);
  copy_plain(to, from, head);
  to += head;
  from += head;
  ahead += head;
  bytes -= head;
  for (; bytes >= kTurnBytes;
       bytes -= kTurnBytes, to += kTurnBytes, from += kTurnBytes, ahead += kTurnBytes) {
    prefetch_bytes(ahead, kTurnBytes);
    __m512i vectors[kTurnBytes / sizeof(__m512i)];
    for (size_t i = 0; i < kTurnBytes / sizeof(__m512i); ++i) {
      vectors[i] = _mm512_loadu_si512(reinterpret_cast<const __m512i*>(from) + i);
    }
    for (size_t i = 0; i < kTurnBytes / sizeof(__m512i); ++i) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to) + i, vectors[i]);
    }
  }
  copy_plain(to, from, bytes);
}

CopyKernel probe_kernel() noexcept {
  if (__builtin_cpu_supports("avx512f")) {
    return CopyKernel::kAvx512;
  }
  return __builtin_cpu_supports("avx2") ? CopyKernel::kAvx2 : CopyKernel::kPlain;
}

void stream_ahead(CopyKernel kernel,
                  std::byte* to,
                  const std::byte* from,
                  size_t bytes,
                  const std::byte* ahead) noexcept {
  switch (kernel) {
    case CopyKernel::kAvx512:
      return stream_avx512(to, from, bytes, ahead);
    case CopyKernel::kAvx2:
      return stream_avx2(to, from, bytes, ahead);
    case CopyKernel::kPlain:
      prefetch_bytes(ahead, bytes);
      return copy_plain(to, from, bytes);
  }
  PC_UNREACHABLE();
}

#else

CopyKernel probe_kernel() noexcept { return CopyKernel::kPlain; }

void stream_ahead(CopyKernel /*kernel*/,
                  std::byte* to,
                  const std::byte* from,
                  size_t bytes,
                  const std::byte* ahead) noexcept {
  prefetch_bytes(ahead, bytes);
  copy_plain(to, from, bytes);
}

#endif

// A whole object: the last page has nothing ahead of it, so it names itself (in the cache by then).
void stream(CopyKernel kernel, std::byte* to, const std::byte* from, size_t bytes) noexcept {
  if (bytes == 0) {
    return;  // there may be no memory behind the pointers
  }
  const size_t body = bytes > kPrefetchAheadBytes ? bytes - kPrefetchAheadBytes : 0;
  if (body != 0) {
    stream_ahead(kernel, to, from, body, from + kPrefetchAheadBytes);
  }
  stream_ahead(kernel, to + body, from + body, bytes - body, from + body);
}

}  // namespace

CopyKernel copy_kernel() noexcept {
  static const CopyKernel kernel = probe_kernel();
  return kernel;
}

const char* to_string(CopyKernel kernel) noexcept {
  switch (kernel) {
    case CopyKernel::kPlain:
      return "plain";
    case CopyKernel::kAvx2:
      return "avx2";
    case CopyKernel::kAvx512:
      return "avx512";
  }
  return "unknown";
}

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) noexcept {
  if (bytes < kStreamingBytesMin) {
    copy_plain(to, from, bytes);
  } else {
    stream(copy_kernel(), to, from, bytes);
  }
}

void copy_bytes_ahead(std::byte* to,
                      const std::byte* from,
                      size_t bytes,
                      const std::byte* ahead) noexcept {
  if (ahead == nullptr) {
    ahead = from;  // nothing comes next: it names itself
  }
  if (bytes < kStreamingPieceBytesMin) {
    prefetch_bytes(ahead, bytes);
    copy_plain(to, from, bytes);
  } else {
    stream_ahead(copy_kernel(), to, from, bytes, ahead);
  }
}

void copy_bytes_cached(std::byte* to, const std::byte* from, size_t bytes) noexcept {
  copy_plain(to, from, bytes);
}

void test_copy_streaming(CopyKernel kernel,
                         std::byte* to,
                         const std::byte* from,
                         size_t bytes) noexcept {
  stream(kernel, to, from, bytes);
}

}  // namespace peercache
