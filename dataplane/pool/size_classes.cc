#include "dataplane/pool/size_classes.h"

#include <algorithm>

#include "dataplane/base/assert.h"

namespace peercache {

Result<SizeClassIndex> SizeClasses::ensure(uint32_t length_bytes) {
  if (length_bytes == 0) {
    return make_error(Errc::kInvalidArgument, "an object of 0 bytes has no size class");
  }
  const uint64_t largest_bytes_max =
      std::min(region_bytes_ / granule_bytes_ * granule_bytes_, limits::kObjectBytesMax.value());
  if (length_bytes > limits::kObjectBytesMax.value()) {
    return make_error(Errc::kNoSizeClass,
                      "no size class for an object of {} bytes: the largest possible has {} bytes",
                      length_bytes, largest_bytes_max);
  }
  const auto wanted =
      static_cast<uint32_t>(round_up(Bytes(length_bytes), Bytes(granule_bytes_)).value());
  const uint32_t count = count_.load(
      std::memory_order_relaxed);  // only this function writes it, under the caller's lock
  uint64_t others_bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (slot_bytes_[i] == wanted) {
      return SizeClassIndex(static_cast<uint8_t>(i));
    }
    others_bytes += slot_bytes_[i];
  }
  if (wanted > region_bytes_) {
    return make_error(Errc::kPoolTooSmall,
                      "pool of {} bytes cannot hold one page of {} bytes (a slot of {} bytes)",
                      region_bytes_, length_bytes, wanted);
  }
  if (count < limits::kSizeClassesMax) {
    if (wanted > region_bytes_ - others_bytes) {
      return make_error(Errc::kPoolTooSmall,
                        "pool of {} bytes cannot hold one page of {} bytes beside one slot of each "
                        "of {} other sizes, {} bytes",
                        region_bytes_, length_bytes, count, others_bytes);
    }
    slot_bytes_[count] = wanted;
    // C2 release: meets C1 in count(); the size is readable before the count says so.
    count_.store(count + 1, std::memory_order_release);
    return SizeClassIndex(static_cast<uint8_t>(count));
  }
  uint32_t best = count;
  for (uint32_t i = 0; i < count; ++i) {
    const bool fits =
        slot_bytes_[i] >= wanted && slot_bytes_[i] - length_bytes <= slot_bytes_[i] / 4;
    if (fits && (best == count || slot_bytes_[i] < slot_bytes_[best])) {
      best = i;
    }
  }
  if (best == count) {
    return make_error(Errc::kNoSizeClass,
                      "no size class for an object of {} bytes: all {} are in use, none wastes at "
                      "most a quarter, the largest "
                      "has {} bytes",
                      length_bytes, count, largest_bytes());
  }
  return SizeClassIndex(static_cast<uint8_t>(best));
}

uint32_t SizeClasses::slot_bytes(SizeClassIndex size_class) const {
  PC_ASSERT(size_class.value() < count(), size_class);
  return slot_bytes_[size_class.value()];
}

uint32_t SizeClasses::largest_bytes() const { return *std::ranges::max_element(slot_bytes_); }

std::array<uint64_t, limits::kSizeClassesMax> class_shares(
    uint64_t region_bytes,
    const std::array<uint32_t, limits::kSizeClassesMax>& slot_bytes) {
  std::array<uint64_t, limits::kSizeClassesMax> shares{};
  uint64_t rest_bytes = region_bytes;
  uint64_t rest_count = 0;
  for (const uint32_t bytes : slot_bytes) {
    rest_count += bytes != 0 ? 1 : 0;
  }
  // Each round gives one slot to those that an even part is too small for; the part of the others
  // shrinks, so again.
  for (bool changed = true; changed && rest_count > 0;) {
    changed = false;
    const uint64_t even_bytes = rest_bytes / rest_count;
    for (size_t i = 0; i < slot_bytes.size(); ++i) {
      if (slot_bytes[i] > even_bytes && shares[i] == 0) {
        PC_ASSERT(slot_bytes[i] <= rest_bytes, slot_bytes[i], rest_bytes);
        shares[i] = slot_bytes[i];
        rest_bytes -= slot_bytes[i];
        --rest_count;
        changed = true;
        break;
      }
    }
  }
  for (size_t i = 0; i < slot_bytes.size(); ++i) {
    if (slot_bytes[i] != 0 && shares[i] == 0 && rest_count != 0) {
      shares[i] = rest_bytes / rest_count;
    }
  }
  return shares;
}

}  // namespace peercache
