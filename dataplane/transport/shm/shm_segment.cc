#include "dataplane/transport/shm/shm_segment.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "dataplane/base/memory_budget.h"

namespace peercache {

namespace {

constexpr Bytes kOrdinaryPageBytes = 4_KiB;

// SHRINK keeps readers from SIGBUS, GROW keeps the length what the region table says, FUTURE_WRITE
// (Linux 5.1) keeps everybody else from a writable mapping and the owner from punching holes; SEAL
// makes it final. SOURCE: fcntl(2), "File Sealing".
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
// F_SEAL_WRITE is stronger than FUTURE_WRITE and does as well.
constexpr int kSealsNeeded = F_SEAL_SHRINK | F_SEAL_GROW;

size_t page_size_of_host() {
  const long size = ::sysconf(_SC_PAGESIZE);
  return size > 0 ? static_cast<size_t>(size) : kOrdinaryPageBytes.value();
}

// Makes every page exist. MADV_POPULATE_WRITE (Linux 5.14) reports a lack of memory; where it is
// unknown each page is touched, after the budget check.
Result<void> populate(const MappedRange& range, size_t page_bytes) {
  if (::madvise(range.data, range.bytes, MADV_POPULATE_WRITE) == 0) {
    return {};
  }
  if (errno != EINVAL) {
    return make_system_error(Errc::kNoMemory, errno, "populating {} bytes", range.bytes);
  }
  for (size_t at = 0; at < range.bytes; at += page_bytes) {
    range.data[at] = std::byte{0};
  }
  return {};
}

struct Candidate {
  UniqueFd fd;
  UniqueMapping mapping;
};

// A populated, unsealed file of `bytes` (a multiple of the page).
Result<Candidate> make_memory(size_t bytes, size_t page_bytes, bool huge) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0U);
  Candidate candidate;
  candidate.fd.reset(::memfd_create("peercache", flags));
  if (!candidate.fd) {
    return make_system_error(huge ? Errc::kNoHugePages : Errc::kSystem, errno,
                             "creating a memory file");
  }
  if (::ftruncate(candidate.fd.get(), static_cast<off_t>(bytes)) != 0) {
    return make_system_error(Errc::kSystem, errno,
                             "setting the length of a memory file to {} bytes", bytes);
  }
  // Huge pages are reserved here, so that populating cannot fail later.
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, candidate.fd.get(), 0);
  if (data == MAP_FAILED) {
    return make_system_error(huge ? Errc::kNoHugePages : Errc::kSystem, errno, "mapping {} bytes",
                             bytes);
  }
  candidate.mapping.reset(MappedRange{static_cast<std::byte*>(data), bytes});
  // A forked child must not keep the memory alive. Both are hints: where they are refused nothing
  // is lost but that.
  static_cast<void>(::madvise(data, bytes, MADV_DONTFORK));
  if (!huge) {
    static_cast<void>(::madvise(
        data, bytes, MADV_HUGEPAGE));  // transparent ones, where the host lets files have them
  }
  PC_TRY(populate(candidate.mapping.get(), page_bytes));
  return candidate;
}

}  // namespace

HugePageSupply huge_page_supply() {
  HugePageSupply supply;
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) {
    return supply;
  }
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    unsigned long long value = 0;
    if (std::sscanf(line, "HugePages_Free: %llu", &value) == 1) {
      supply.free_count = value;
    } else if (std::sscanf(line, "Hugepagesize: %llu kB", &value) == 1) {
      supply.page_bytes = Bytes(value << 10);
    }
  }
  std::fclose(file);
  return supply;
}

ShmSegment::ShmSegment(UniqueFd fd,
                       UniqueMapping mapping,
                       Bytes page_bytes,
                       bool fell_back) noexcept
    : fd_(std::move(fd)),
      mapping_(std::move(mapping)),
      page_bytes_(page_bytes),
      fell_back_(fell_back) {}

Result<std::unique_ptr<ShmSegment>> ShmSegment::create(Bytes length,
                                                       HugePageMode mode,
                                                       Bytes headroom) {
  // 2^47: the address space of a process; keeps the sums below from wrapping.
  if (length.value() == 0 || length.value() > (1ULL << 47)) {
    return make_error(Errc::kInvalidArgument, "a segment of {} bytes", length);
  }
  Candidate candidate;
  Bytes page_bytes{};
  bool huge = false;
  if (mode != HugePageMode::kOff) {
    const HugePageSupply supply = huge_page_supply();
    page_bytes = supply.page_bytes;
    const Bytes wanted = page_bytes.value() == 0 ? Bytes{} : round_up(length, page_bytes);
    huge = wanted.value() != 0 && wanted / page_bytes <= supply.free_count;
    Error refusal =
        make_error(Errc::kNoHugePages, "{} bytes wanted in huge pages of {} bytes, {} are free",
                   length, page_bytes, supply.free_count);
    if (huge) {
      auto made = make_memory(wanted.value(), page_bytes.value(), true);
      huge = made.has_value();
      if (huge) {
        candidate = std::move(*made);
      } else {
        refusal = made.error();
      }
    }
    if (!huge && mode == HugePageMode::kRequired) {
      return refusal;
    }
  }
  if (!huge) {
    page_bytes = Bytes(page_size_of_host());
    const Bytes wanted = round_up(length, page_bytes);
    PC_TRY(check_memory_budget(wanted, headroom));
    PC_TRY_ASSIGN(candidate, make_memory(wanted.value(), page_bytes.value(), false));
  }
  if (::fcntl(candidate.fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return make_system_error(Errc::kSystem, errno, "sealing a memory file of {} bytes",
                             candidate.mapping.get().bytes);
  }
  const bool fell_back = !huge && mode == HugePageMode::kAuto;
  return std::unique_ptr<ShmSegment>(
      new ShmSegment(std::move(candidate.fd), std::move(candidate.mapping), page_bytes, fell_back));
}

Result<UniqueMapping> ShmSegment::map_remote(int fd, Bytes expected) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    return make_system_error(Errc::kPermission, errno, "the peer's file cannot be sealed");
  }
  const bool write_sealed = (seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)) != 0;
  if ((seals & kSealsNeeded) != kSealsNeeded || !write_sealed) {
    return make_error(Errc::kPermission, "the peer's memory has seals {}, needed are {}", seals,
                      kSealsNeeded | F_SEAL_FUTURE_WRITE);
  }
  struct stat info = {};
  if (::fstat(fd, &info) != 0) {
    return make_system_error(Errc::kSystem, errno, "looking at the peer's memory");
  }
  const auto bytes = static_cast<uint64_t>(info.st_size);
  const uint64_t page_bytes =
      std::max<uint64_t>(page_size_of_host(), static_cast<uint64_t>(info.st_blksize));
  // A file is whole pages, a region may end within the last one.
  if (expected.value() == 0 || bytes < expected.value() || bytes - expected.value() >= page_bytes) {
    return make_error(Errc::kBadLength, "the peer's memory has {} bytes, its region table says {}",
                      bytes, expected);
  }
  // A sparse file would be filled on our account, page by page, as we read it. Blocks of 512 bytes
  // (inode(7)).
  if (static_cast<uint64_t>(info.st_blocks) < bytes / 512) {
    return make_error(Errc::kBadLength,
                      "the peer's memory of {} bytes has only {} blocks of 512 bytes", bytes,
                      info.st_blocks);
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return make_system_error(Errc::kSystem, errno, "mapping {} bytes of a peer", bytes);
  }
  static_cast<void>(::madvise(data, bytes, MADV_DONTFORK));  // as in make_memory
  return UniqueMapping(MappedRange{static_cast<std::byte*>(data), bytes});
}

}  // namespace peercache
