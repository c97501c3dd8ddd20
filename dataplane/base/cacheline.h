#pragma once

#include <cstddef>

namespace peercache {

/// Bytes that travel together between cores. Our own constants:
/// std::hardware_destructive_interference_size may differ between compilers and flags, and would
/// then change the layout of structs that two libraries share.
inline constexpr size_t kCacheLineBytes = 64;

/// Distance at which two writers do not disturb each other: two lines, since the adjacent-line
/// prefetcher of x86 fetches pairs, and since some aarch64 cores have lines of 128 bytes.
inline constexpr size_t kFalseSharingBytes = 128;

/// A value alone on its lines.
///
/// THREAD:     as T.
template <class T>
struct alignas(kFalseSharingBytes) Padded {
  T value{};
};
static_assert(sizeof(Padded<char>) == kFalseSharingBytes);

}  // namespace peercache
