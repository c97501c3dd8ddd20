#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Whether this translation unit is instrumented by the thread sanitizer (g++ and clang say it
// differently).
#if defined(__SANITIZE_THREAD__)
#define PC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PC_TSAN 1
#endif
#endif
#ifndef PC_TSAN
#define PC_TSAN 0
#endif

/// For the few functions that read or write bytes while another thread may write them, and validate
/// afterwards.
#define PC_RACY __attribute__((no_sanitize("thread")))

/// The only fences of the tree (design 6), and the only functions that touch racing memory. Order
/// between CPU and NIC is a different matter and belongs to the mlx5 barriers.
///
/// Every function here is a few instructions, takes no lock and makes no system call.
/// scripts/check_aarch64.py looks for the barriers in the assembly of the aarch64 build, since x86
/// hides a missing one.
namespace peercache {

/// Reader's side of a validated read: copied bytes, THEN this, THEN the load of the header that
/// must still match. An acquire load of the header would not do: it orders later loads, not the
/// copy before it. Meets life_fence: if any byte of the next life was read, the header read
/// afterwards shows a newer generation.
inline void validation_fence() noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);  // F1 acquire: meets F2 life_fence; the
                                                        // header is read after the bytes.
}

/// Owner's side: the store of the new generation, THEN this, THEN the first byte of the next life.
/// A release store of the generation would not do: it orders earlier stores, not the bytes after
/// it.
inline void life_fence() noexcept {
  std::atomic_thread_fence(std::memory_order_release);  // F2 release: meets F1 validation_fence;
                                                        // bytes are written after the generation.
#if defined(__x86_64__)
  // Bytes may be written by non-temporal stores (libc decides by size), which other stores do not
  // wait for.
  _mm_sfence();
#elif defined(__aarch64__)
  // The reader may be a NIC, outside the inner-shareable domain that the fence above covers.
  asm volatile("dmb oshst" ::: "memory");
#endif
}

/// Copier's side: the last byte of a copy, THEN this, THEN the store that completes or publishes
/// it. The publishing store is a release store as well; this is what it does not cover:
/// non-temporal stores, and a NIC.
inline void copy_done_fence() noexcept {
  std::atomic_thread_fence(
      std::memory_order_release);  // F3 release: meets the acquire of whoever sees the publication.
#if defined(__x86_64__)
  _mm_sfence();
#elif defined(__aarch64__)
  asm volatile("dmb oshst" ::: "memory");
#endif
}

/// The word of a thread that may sleep: kAwake or kAsleep. It stands on a line of its own (Padded).
inline constexpr uint32_t kAwake = 0;
inline constexpr uint32_t kAsleep = 1;

/// Sleeper: announce, THEN look at the queues once more, and sleep only if they are empty;
/// afterwards cancel_sleep. Both sides use a sequentially consistent read-modify-write: each then
/// reads the other's latest value, so either the sleeper sees the item or the waker sees the
/// announcement. Loads and stores with acquire and release alone lost 2,442 wake-ups in a million
/// on x86, where the store waits in the store buffer behind the load.
inline void announce_sleep(std::atomic<uint32_t>& word) noexcept {
  // S1 seq_cst RMW: meets S2 in must_wake; what the waker pushed before it is visible to the look
  // that follows.
  static_cast<void>(word.exchange(kAsleep, std::memory_order_seq_cst));
}

/// Sleeper, awake again or not asleep after all. A read-modify-write too: a plain store would hide
/// an S2 from the next S1, and with it the item that was pushed before.
inline void cancel_sleep(std::atomic<uint32_t>& word) noexcept {
  // S3 seq_cst RMW: meets S2 in must_wake.
  static_cast<void>(word.exchange(kAwake, std::memory_order_seq_cst));
}

/// Waker: push, THEN ask; if true, write the sleeper's event. Takes the announcement, so that one
/// of many wakers writes. COST: one locked instruction on the sleeper's line; once per batch, not
/// per item.
[[nodiscard]] inline bool must_wake(std::atomic<uint32_t>& word) noexcept {
  // S2 seq_cst RMW: meets S1 in announce_sleep.
  return word.exchange(kAwake, std::memory_order_seq_cst) == kAsleep;
}

/// Safe reclamation of what many threads look at through one table entry (mapped memory of a peer).
///
///   user:   announce_entry(word, epoch); entered_load() of entries; ... word = 0 with release
///   owner:  hide_entry(entry); epoch + 1; free once no word holds an older epoch (load_announced)
///
/// As with sleeping, each side writes its word and then reads the other's: either the user finds
/// the entry hidden, or the owner finds the announcement. A plain store of the word would wait in
/// the store buffer behind the load of the entry, and the memory would be gone while it is read.
inline void announce_entry(std::atomic<uint64_t>& word, uint64_t epoch) noexcept {
  // S4 seq_cst RMW: meets S6 in hide_entry and S7 in load_announced.
  static_cast<void>(word.exchange(epoch, std::memory_order_seq_cst));
}

/// User, after announce_entry: the entry, or null if it was hidden before the announcement.
template <class T>
[[nodiscard]] inline T* entered_load(const std::atomic<T*>& entry) noexcept {
  // S5 seq_cst load: meets S6 in hide_entry; also acquires what the publishing store released.
  return entry.load(std::memory_order_seq_cst);
}

/// Owner: nobody who announces after this finds the entry.
template <class T>
inline void hide_entry(std::atomic<T*>& entry) noexcept {
  // S6 seq_cst RMW: meets S4 in announce_entry and S5 in entered_load.
  static_cast<void>(entry.exchange(nullptr, std::memory_order_seq_cst));
}

/// Owner, after hide_entry: the epoch that a user has announced, or 0.
[[nodiscard]] inline uint64_t load_announced(const std::atomic<uint64_t>& word) noexcept {
  // S7 seq_cst load: meets S4 in announce_entry, and acquires what the user's last release covers.
  return word.load(std::memory_order_seq_cst);
}

namespace detail {

using RacyWord [[gnu::may_alias]] = uint64_t;

// Relaxed word accesses, so that no word is torn and the compiler neither repeats nor merges them.
// The thread sanitizer checks atomics even in functions it is told to skip, so there they are plain
// accesses behind a barrier for the optimiser (which would otherwise recognise memcpy, and memcpy
// is checked too).
template <class Word>
[[gnu::always_inline]] inline PC_RACY Word racy_word_load(const Word* from) noexcept {
#if PC_TSAN
  Word value = *from;
  asm volatile("" : "+r"(value) : : "memory");
  return value;
#else
  return __atomic_load_n(from, __ATOMIC_RELAXED);
#endif
}

template <class Word>
[[gnu::always_inline]] inline PC_RACY void racy_word_store(Word* to, Word value) noexcept {
#if PC_TSAN
  asm volatile("" : "+r"(value) : : "memory");
  *to = value;
#else
  __atomic_store_n(to, value, __ATOMIC_RELAXED);
#endif
}

}  // namespace detail

/// Copies bytes that another thread or a NIC may be writing: slot headers, directory buckets, ring
/// entries. What comes out may be a mixture and must be validated (validation_fence and a
/// comparison, or a checksum). The owner writes such bytes with it as well. Words of 8 are copied
/// whole where both sides are aligned to 8. No order of its own. For headers and records, not for
/// payload: that is base/copy.h.
PC_RACY inline void racy_copy(void* to, const void* from, size_t bytes) noexcept {
  auto* to_byte = static_cast<unsigned char*>(to);
  const auto* from_byte = static_cast<const unsigned char*>(from);
  if (((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) & 7U) == 0) {
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) {
      detail::racy_word_store(
          reinterpret_cast<detail::RacyWord*>(to_byte),
          detail::racy_word_load(reinterpret_cast<const detail::RacyWord*>(from_byte)));
      to_byte += sizeof(uint64_t);
      from_byte += sizeof(uint64_t);
    }
  }
  for (; bytes != 0; --bytes) {
    detail::racy_word_store(to_byte++, detail::racy_word_load(from_byte++));
  }
}

/// One word of at most 8 bytes that another thread or a NIC may be writing; aligned, never torn, no
/// order of its own.
template <class Word>
  requires(std::is_trivially_copyable_v<Word> && std::integral<Word>)
[[nodiscard]] PC_RACY inline Word racy_load(const Word* from) noexcept {
  return detail::racy_word_load(from);
}

/// The store that racy_load may race with.
template <class Word>
  requires(std::is_trivially_copyable_v<Word> && std::integral<Word>)
PC_RACY inline void racy_store(Word* to, Word value) noexcept {
  detail::racy_word_store(to, value);
}

/// Tells the core that this is a spin loop: fewer mis-speculations on leaving it, and the sibling
/// thread gets room.
inline void cpu_pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most cores; isb takes some 10 ns
#endif
}

}  // namespace peercache
