#pragma once

#include <mutex>

// Clang's thread-safety attributes; other compilers ignore them. The preset `tidy` turns a
// violation into an error.
#if defined(__clang__)
#define PC_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define PC_THREAD_ATTRIBUTE(x)
#endif

#define PC_CAPABILITY(name) PC_THREAD_ATTRIBUTE(capability(name))
#define PC_SCOPED_CAPABILITY PC_THREAD_ATTRIBUTE(scoped_lockable)
#define PC_GUARDED_BY(role) PC_THREAD_ATTRIBUTE(guarded_by(role))
#define PC_PT_GUARDED_BY(role) PC_THREAD_ATTRIBUTE(pt_guarded_by(role))
#define PC_REQUIRES(...) PC_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define PC_EXCLUDES(...) PC_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define PC_ACQUIRE(...) PC_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define PC_RELEASE(...) PC_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define PC_TRY_ACQUIRE(...) PC_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define PC_ASSERT_CAPABILITY(role) PC_THREAD_ATTRIBUTE(assert_capability(role))
#define PC_RETURN_CAPABILITY(role) PC_THREAD_ATTRIBUTE(lock_returned(role))
#define PC_NO_THREAD_ANALYSIS PC_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace peercache {

/// The right to run as the owner of some state ("I am the rail thread"). It exists for the compiler
/// only: members are PC_GUARDED_BY(role_), functions PC_REQUIRES(role_), and the one place that is
/// the thread's loop (or a test that steps it) opens a RoleScope. Nothing is checked at run time.
///
/// THREAD:     any; has no state.
class PC_CAPABILITY("role") ThreadRole {
 public:
  ThreadRole() = default;
  ThreadRole(const ThreadRole&) = delete;
  ThreadRole& operator=(const ThreadRole&) = delete;

  void enter() noexcept PC_ACQUIRE() {}
  void leave() noexcept PC_RELEASE() {}
  /// Tells the analysis that the caller runs as this role, where it cannot see so (constructors,
  /// callbacks).
  void assert_held() const noexcept PC_ASSERT_CAPABILITY(this) {}
};

/// Runs the rest of the scope as `role`.
///
/// THREAD:     the thread that owns the role.
/// BORROWS:    the role, for the scope.
class PC_SCOPED_CAPABILITY RoleScope {
 public:
  explicit RoleScope(ThreadRole& role) noexcept PC_ACQUIRE(role) { static_cast<void>(role); }
  RoleScope(const RoleScope&) = delete;
  RoleScope& operator=(const RoleScope&) = delete;
  ~RoleScope() PC_RELEASE() {}  // NOLINT(modernize-use-equals-default): the attribute needs a body
};

/// A mutex the analysis understands. Each one in the tree needs a sentence on why a ring would not
/// do.
///
/// THREAD:     any.
class PC_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() PC_ACQUIRE() { mutex_.lock(); }
  void unlock() PC_RELEASE() { mutex_.unlock(); }
  bool try_lock() PC_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

/// Holds a Mutex for the scope.
///
/// THREAD:     any.
/// BORROWS:    the mutex, for the scope.
class PC_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PC_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() PC_RELEASE() { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

}  // namespace peercache
