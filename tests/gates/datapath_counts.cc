// Runs batches through client, lanes and rail over the null device, all stepped in one thread, and fails if the steady state
// allocates, locks or calls the system. With --run it only runs, for valgrind to count instructions.

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf/harness/allocation_count.h"
#include "perf/harness/null_setup.h"

namespace {

using namespace peercache;        // NOLINT: a program, not a header
using namespace peercache::perf;  // NOLINT

thread_local uint64_t locks_count = 0;

constexpr int kBatches = 2000;

void run_batches(NullSetup& setup, uint32_t count, int batches) {
  const std::vector<Op> batch = setup.make_batch(0, count, Validation::kHeader);
  for (int i = 0; i < batches; ++i) setup.run_batch(setup.client(0), batch);
}

int check_count(const char* what, uint64_t before, uint64_t after, uint32_t count) {
  // make_batch's own vector is the one allocation that is not the data plane's.
  const uint64_t own = std::strcmp(what, "allocations") == 0 ? 1 : 0;
  const uint64_t found = after - before - own;
  std::printf("batch %u: %lu %s in %d operations\n", count, found, what,
              kBatches * static_cast<int>(count));
  return found == 0 ? 0 : 1;
}

/// From here on the kernel ends the process at any system call but write and exit.
bool forbid_system_calls() {
#if defined(__x86_64__)
  constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
  constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif
  std::array<sock_filter, 8> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int check(const std::string& gate) {
  NullSetup setup(false, 1);
  for (const uint32_t count : {1U, 16U, 128U}) run_batches(setup, count, 10);
  if (gate == "system-calls") {
    if (!forbid_system_calls()) {
      std::printf("skipped: this kernel does not allow seccomp filters\n");
      return 77;
    }
    const std::vector<Op> batch = setup.make_batch(0, 128, Validation::kHeader);
    for (int i = 0; i < kBatches; ++i) setup.run_batch(setup.client(0), batch);
    static const char kText[] = "no system call in 256000 operations\n";
    static_cast<void>(!write(STDOUT_FILENO, kText, sizeof(kText) - 1));
    _exit(0);
  }
  int failed = 0;
  for (const uint32_t count : {1U, 16U, 128U}) {
    const bool locks = gate == "locks";
    const uint64_t before = locks ? locks_count : allocations_of_this_thread();
    run_batches(setup, count, kBatches);
    const uint64_t after = locks ? locks_count : allocations_of_this_thread();
    failed |= check_count(gate.c_str(), before, after, count);
  }
  return failed;
}

}  // namespace

/// Counts, then locks: found before the C library's own.
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static Lock real = nullptr;
  if (real == nullptr) real = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++locks_count;
  return real(mutex);
}

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--check") == 0) return check(argv[2]);
  if (argc == 4 && std::strcmp(argv[1], "--run") == 0) {
    NullSetup setup(false, 1, NullSetup::Time::kStill);
    const auto count = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
    run_batches(setup, count, 10);
    run_batches(setup, count, std::atoi(argv[3]));
    return 0;
  }
  std::fprintf(stderr,
               "usage: datapath_counts --check allocations|locks|system-calls\n"
               "       datapath_counts --run BATCH COUNT\n");
  return 2;
}
