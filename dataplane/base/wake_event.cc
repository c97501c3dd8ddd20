#include "dataplane/base/wake_event.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

namespace peercache {

Result<std::unique_ptr<WakeEvent>> WakeEvent::open() {
  UniqueFd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd) {
    return make_system_error(Errc::kSystem, errno, "cannot create an eventfd");
  }
  return std::unique_ptr<WakeEvent>(new WakeEvent(std::move(fd)));
}

void WakeEvent::sleep(Nanos timeout, int other_fd) noexcept {
  const int64_t wait_ns = std::max<int64_t>(timeout.count(), 0);
  const timespec wait{.tv_sec = wait_ns / 1'000'000'000, .tv_nsec = wait_ns % 1'000'000'000};
  std::array<pollfd, 2> fds{pollfd{.fd = fd_.get(), .events = POLLIN, .revents = 0},
                            pollfd{.fd = other_fd, .events = POLLIN, .revents = 0}};
  // A signal ends the wait early, which the contract allows; poll skips a descriptor of -1.
  ::ppoll(fds.data(), fds.size(), &wait, nullptr);
  if ((fds[0].revents & POLLIN) != 0) {
    consume();
  }
}

void WakeEvent::consume() noexcept {
  uint64_t count = 0;
  static_cast<void>(
      !::read(fd_.get(), &count, sizeof(count)));  // nothing to consume is fine: it does not block
}

void WakeEvent::signal() noexcept {
  const uint64_t one = 1;
  // Fails only when 2^64 - 2 wake-ups are pending, and then the descriptor is readable anyway.
  static_cast<void>(!::write(fd_.get(), &one, sizeof(one)));
}

}  // namespace peercache
