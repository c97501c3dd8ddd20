#include "dataplane/transport/shm/shm_segment.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

UniqueFd raw_file(uint64_t bytes, int seals, bool populated = true) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  if (populated && bytes != 0) {
    REQUIRE(::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)) == 0);
  }
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

constexpr int kGoodSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

Errc refusal(int fd, Bytes expected) {
  const auto mapped = ShmSegment::map_remote(fd, expected);
  REQUIRE_FALSE(mapped.has_value());
  return mapped.error().code;
}

TEST_CASE("shm segment: is whole pages of zeros, writable by its owner", "[unit]") {
  const auto segment = ShmSegment::create(10000_B, HugePageMode::kOff, 1_MiB).value()->length();
  REQUIRE(segment == 12288_B);
  auto whole = std::move(ShmSegment::create(64_KiB, HugePageMode::kOff, 1_MiB)).value();
  REQUIRE(whole->page_bytes() == 4_KiB);
  REQUIRE_FALSE(whole->fell_back());
  REQUIRE(std::all_of(whole->data(), whole->data() + 65536,
                      [](std::byte b) { return b == std::byte{0}; }));
  std::memset(whole->data(), 7, 65536);
}

TEST_CASE("shm segment: what the owner writes the reader sees, and cannot change", "[unit]") {
  auto segment = std::move(ShmSegment::create(1_MiB, HugePageMode::kOff, 1_MiB)).value();
  auto mapped = std::move(ShmSegment::map_remote(segment->fd(), 1_MiB)).value();
  segment->data()[4097] = std::byte{42};
  REQUIRE(mapped.get().data[4097] == std::byte{42});
  REQUIRE(::mprotect(mapped.get().data, 4096, PROT_READ | PROT_WRITE) == -1);
  REQUIRE(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd(), 0) ==
          MAP_FAILED);
  REQUIRE(::ftruncate(segment->fd(), 4096) == -1);
  REQUIRE(::ftruncate(segment->fd(), 2 << 20) == -1);
  REQUIRE(::fallocate(segment->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == -1);
  REQUIRE(::madvise(segment->data(), 4096, MADV_REMOVE) == -1);
}

TEST_CASE("shm segment: no bytes and too many bytes are refused with the numbers", "[unit]") {
  REQUIRE(ShmSegment::create(0_B, HugePageMode::kOff, 0_B).error().code == Errc::kInvalidArgument);
  REQUIRE(ShmSegment::create(Bytes(UINT64_MAX), HugePageMode::kOff, 0_B).error().code ==
          Errc::kInvalidArgument);
  const auto beyond = ShmSegment::create(Bytes(1ULL << 46), HugePageMode::kOff, 1_MiB);
  REQUIRE(beyond.error().code == Errc::kMemoryBudget);
  REQUIRE(beyond.error().values[0] == 1ULL << 46);
  REQUIRE(ShmSegment::create(1_MiB, HugePageMode::kOff, Bytes(1ULL << 46)).error().code ==
          Errc::kMemoryBudget);
}

TEST_CASE("shm segment: huge pages are taken, refused or shown as missing", "[unit]") {
  const HugePageSupply supply = huge_page_supply();
  const auto required = ShmSegment::create(1_MiB, HugePageMode::kRequired, 1_MiB);
  const auto wanted = ShmSegment::create(1_MiB, HugePageMode::kAuto, 1_MiB);
  REQUIRE(wanted.has_value());
  if (supply.free_count == 0) {
    REQUIRE(required.error().code == Errc::kNoHugePages);
    REQUIRE((*wanted)->fell_back());
    REQUIRE((*wanted)->page_bytes() == 4_KiB);
  } else {
    REQUIRE(required.has_value());
    REQUIRE((*required)->page_bytes() == supply.page_bytes);
    REQUIRE(ShmSegment::map_remote((*required)->fd(), 1_MiB).has_value());
  }
}

TEST_CASE("shm segment: a file that its owner could shrink is refused", "[unit]") {
  REQUIRE(refusal(raw_file(65536, 0).get(), 64_KiB) == Errc::kPermission);
  REQUIRE(refusal(raw_file(65536, F_SEAL_GROW | F_SEAL_FUTURE_WRITE).get(), 64_KiB) ==
          Errc::kPermission);
  REQUIRE(refusal(raw_file(65536, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE).get(), 64_KiB) ==
          Errc::kPermission);
  REQUIRE(refusal(raw_file(65536, F_SEAL_SHRINK | F_SEAL_GROW).get(), 64_KiB) == Errc::kPermission);
  REQUIRE(ShmSegment::map_remote(raw_file(65536, kGoodSeals).get(), 64_KiB).has_value());
}

TEST_CASE("shm segment: a file of another length, or an empty one, is refused", "[unit]") {
  const UniqueFd file = raw_file(65536, kGoodSeals);
  REQUIRE(refusal(file.get(), 65537_B) == Errc::kBadLength);
  REQUIRE(refusal(file.get(), 61440_B) == Errc::kBadLength);  // a page less
  REQUIRE(refusal(file.get(), 0_B) == Errc::kBadLength);
  REQUIRE(ShmSegment::map_remote(file.get(), 61441_B).has_value());  // ends within the last page
  REQUIRE(refusal(raw_file(0, kGoodSeals).get(), 1_B) == Errc::kBadLength);
  REQUIRE(refusal(raw_file(1 << 20, kGoodSeals, false).get(), 1_MiB) == Errc::kBadLength);
}

TEST_CASE("shm segment: what is no memory file is refused", "[unit]") {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  REQUIRE(refusal(null.get(), 4_KiB) == Errc::kPermission);
  REQUIRE(refusal(-1, 4_KiB) == Errc::kPermission);
}

TEST_CASE("shm segment: the memory outlives its owner while a reader maps it", "[unit]") {
  auto segment = std::move(ShmSegment::create(64_KiB, HugePageMode::kOff, 1_MiB)).value();
  segment->data()[9] = std::byte{9};
  auto mapped = std::move(ShmSegment::map_remote(segment->fd(), 64_KiB)).value();
  segment.reset();
  REQUIRE(mapped.get().data[9] == std::byte{9});
}

}  // namespace
}  // namespace peercache
