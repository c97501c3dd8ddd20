#include "dataplane/transport/shm/shm_connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dataplane/base/assert.h"

namespace peercache {

namespace {

constexpr size_t kFrameBytesMax = sizeof(ShmFrameHeader) + kShmPayloadBytesMax;
constexpr size_t kInBytesFirst = 4096;  // a hello with a few regions

}  // namespace

IoOutcome ShmStream::fill() {
  if (in_begin_ != 0) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  if (in_.size() < std::max(need_bytes_, kInBytesFirst)) {
    in_.resize(std::max(need_bytes_, kInBytesFirst));
  }
  PC_ASSERT(in_.size() <= kFrameBytesMax, in_.size());  // (I1)
  if (in_end_ == in_.size()) {
    return IoOutcome::kBlocked;  // a whole frame is there; consume it first
  }
  const IoResult result = receive_some(fd_.get(), std::span(in_).subspan(in_end_), fds_, fds_lost_);
  in_end_ += result.bytes;
  if (fds_lost_ || fds_.size() > kFdsWaitingMax) {  // (I2)
    return IoOutcome::kEnded;
  }
  return result.outcome;
}

Result<std::optional<ShmFrame>> ShmStream::next_frame() {
  return parse_shm_frame(std::span<const std::byte>(in_).subspan(in_begin_, in_end_ - in_begin_),
                         need_bytes_);
}

bool ShmStream::take_fds(size_t count, std::vector<UniqueFd>& fds) {
  if (fds_.size() < count) {
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    fds.push_back(std::move(fds_.front()));
    fds_.pop_front();
  }
  return true;
}

void ShmStream::append_fds(uint32_t first_index, std::span<const int> fds) {
  marks_.push_back({out_.size(), std::vector<int>(fds.begin(), fds.end())});
  append_payload(out_, ShmFrameKind::kRegionFds, static_cast<uint16_t>(fds.size()),
                 ShmRegionFds{first_index, 0});
}

void ShmStream::drop_sent() {
  if (out_begin_ < kShmPayloadBytesMax) {
    return;  // moving the rest down costs as much as it saves
  }
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_begin_));
  for (FdMark& mark : marks_) {
    mark.position -= out_begin_;
  }
  out_begin_ = 0;
}

IoOutcome ShmStream::drain() {
  while (out_begin_ != out_.size()) {
    // A message starts at each mark, so that the descriptors arrive with their frame.
    size_t end = out_.size();
    std::span<const int> fds;
    if (!marks_.empty() && marks_.front().position == out_begin_) {
      fds = marks_.front().fds;
      end = marks_.size() > 1 ? marks_[1].position : end;
    } else if (!marks_.empty()) {
      end = marks_.front().position;
    }
    const IoResult result =
        send_some(fd_.get(), std::span(out_).subspan(out_begin_, end - out_begin_), fds);
    if (result.outcome != IoOutcome::kProgress) {
      drop_sent();
      return result.outcome;
    }
    if (!fds.empty() && result.bytes != 0) {
      marks_.pop_front();
    }
    out_begin_ += result.bytes;
  }
  out_.clear();
  out_begin_ = 0;
  return IoOutcome::kProgress;
}

}  // namespace peercache
