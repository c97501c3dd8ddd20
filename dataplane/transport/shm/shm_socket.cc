#include "dataplane/transport/shm/shm_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "dataplane/base/log.h"
#include "dataplane/transport/shm/shm_frame.h"

namespace peercache {

namespace {

constexpr std::string_view kNamePrefix = "pc-";
constexpr std::string_view kNameSuffix = ".sock";
constexpr std::string_view kNewSuffix = ".sock-new";  // between bind and listen
// A socket without a listener under its temporary name is being set up, or was when its process
// died.
constexpr time_t kNewSecondsMax = 10;
// A directory of ours holds a socket per node; more entries than this are not ours to go through.
constexpr uint32_t kEntriesMax = 100000;

constexpr mode_t kDirectoryMode = 0700;

Result<sockaddr_un> socket_address(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {  // one for the terminating zero
    return make_error(Errc::kBadLength,
                      "a socket path of {} bytes, at most {} fit: use a shorter runtime_dir",
                      path.size(), sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Looks at the directory that a path names, not following a symbolic link that someone else may
// have put there.
Result<void> check_directory(const std::string& path, bool follow) {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW);
  const UniqueFd directory(::open(path.c_str(), flags));
  if (!directory) {
    return make_system_error(Errc::kSystem, errno, "opening the runtime directory");
  }
  struct stat info = {};
  if (::fstat(directory.get(), &info) != 0) {
    return make_system_error(Errc::kSystem, errno, "looking at the runtime directory");
  }
  if (info.st_uid != ::geteuid()) {
    return make_error(Errc::kPermission, "the runtime directory belongs to uid {}, we are uid {}",
                      info.st_uid, ::geteuid());
  }
  if ((info.st_mode & 077U) != 0) {
    return make_error(Errc::kPermission,
                      "the runtime directory has mode {} (decimal), needed is 448 (octal 700)",
                      info.st_mode & 07777U);
  }
  return {};
}

Result<void> make_directory(const std::string& path, bool follow) {
  if (::mkdir(path.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
    return make_system_error(Errc::kSystem, errno, "making the runtime directory");
  }
  return check_directory(path, follow);
}

Result<UniqueFd> make_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) {
    return make_system_error(Errc::kSystem, errno, "making a Unix socket");
  }
  return socket;
}

// True if nobody listens on the socket and nobody is about to.
bool is_stale(const std::string& path, bool under_construction) {
  auto connected = connect_unix(path);
  const bool refused = !connected && connected.error().code == Errc::kConnectRefused &&
                       connected.error().os_errno == ECONNREFUSED;
  if (!refused || !under_construction) {
    return refused;
  }
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0 && info.st_mtime + kNewSecondsMax < std::time(nullptr);
}

}  // namespace

Result<std::string> prepare_runtime_dir(const std::string& wanted) {
  if (!wanted.empty()) {
    PC_TRY(make_directory(wanted, true));
    return wanted;
  }
  std::string system_path = "/run/peercache";
  if (make_directory(system_path, false)) {
    return system_path;
  }
  std::string own_path = "/tmp/peercache-" + std::to_string(::geteuid());
  PC_TRY(make_directory(own_path, false));
  return own_path;
}

std::string shm_socket_name(NodeId node, Incarnation incarnation) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "pc-%016llx-%08lx.sock",
                static_cast<unsigned long long>(node.value()),
                static_cast<unsigned long>(incarnation.value()));
  return text.data();
}

Result<uint32_t> remove_stale_sockets(const std::string& directory) {
  struct CloseDir {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(directory.c_str()));
  if (dir == nullptr) {
    return make_system_error(Errc::kSystem, errno, "reading the runtime directory");
  }
  uint32_t removed_count = 0;
  for (uint32_t i = 0; i < kEntriesMax; ++i) {
    const dirent* entry =
        ::readdir(dir.get());  // NOLINT(concurrency-mt-unsafe): a stream of our own
    if (entry == nullptr) {
      break;
    }
    const std::string_view name = entry->d_name;
    const bool is_new = name.ends_with(kNewSuffix);
    if (!name.starts_with(kNamePrefix) || !(is_new || name.ends_with(kNameSuffix))) {
      continue;
    }
    const std::string path = directory + "/" + entry->d_name;
    if (is_stale(path, is_new) && ::unlink(path.c_str()) == 0) {
      ++removed_count;
    }
  }
  return removed_count;
}

Result<UniqueFd> listen_unix(const std::string& directory, const std::string& name, int backlog) {
  const std::string path = directory + "/" + name;
  const std::string new_path = path + "-new";
  PC_TRY_ASSIGN(const sockaddr_un address, socket_address(new_path));
  PC_TRY_ASSIGN(UniqueFd socket, make_socket());
  if (::access(path.c_str(), F_OK) == 0) {
    return make_error(Errc::kAlreadyExists,
                      "the socket of this node and incarnation exists already");
  }
  ::unlink(new_path.c_str());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return make_system_error(Errc::kSystem, errno, "binding a socket in the runtime directory");
  }
  if (::listen(socket.get(), backlog) != 0 || ::rename(new_path.c_str(), path.c_str()) != 0) {
    const int number = errno;
    ::unlink(new_path.c_str());
    return make_system_error(Errc::kSystem, number, "listening in the runtime directory");
  }
  return socket;
}

Result<UniqueFd> connect_unix(const std::string& path) {
  PC_TRY_ASSIGN(const sockaddr_un address, socket_address(path));
  PC_TRY_ASSIGN(UniqueFd socket, make_socket());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return socket;
  }
  const int number = errno;
  switch (number) {
    case EAGAIN:  // on a Unix socket: the listener's queue is full
    case EINTR:
      return make_system_error(Errc::kBusy, number, "connecting to a node of this host");
    case ECONNREFUSED:
    case ENOENT:
      return make_system_error(Errc::kConnectRefused, number, "connecting to a node of this host");
    case EACCES:
    case EPERM:
      return make_system_error(Errc::kPermission, number, "connecting to a node of this host");
    default:
      return make_system_error(Errc::kSystem, number, "connecting to a node of this host");
  }
}

Result<void> check_peer_uid(int fd, int64_t uid) {
  ucred credentials = {};
  socklen_t length = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return make_system_error(Errc::kSystem, errno, "asking for the credentials of a peer");
  }
  if (static_cast<int64_t>(credentials.uid) != uid) {
    return make_error(Errc::kPermission, "the peer runs as uid {}, expected is uid {}",
                      credentials.uid, uid);
  }
  return {};
}

IoResult receive_some(int fd,
                      std::span<std::byte> room,
                      std::deque<UniqueFd>& fds,
                      bool& fds_lost) {
  iovec vector = {room.data(), room.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kShmFdsPerFrame)> control{};
  msghdr message = {};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t received = 0;
  do {
    received = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    const bool blocked = errno == EAGAIN || errno == EWOULDBLOCK;
    return {blocked ? IoOutcome::kBlocked : IoOutcome::kEnded, 0};
  }
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int received_fd = -1;
      std::memcpy(&received_fd, CMSG_DATA(part) + i * sizeof(int), sizeof received_fd);
      fds.emplace_back(received_fd);
    }
  }
  // Truncated: more descriptors than a frame may carry, or than this process may open.
  fds_lost = fds_lost || (message.msg_flags & MSG_CTRUNC) != 0;
  return {received == 0 ? IoOutcome::kEnded : IoOutcome::kProgress, static_cast<size_t>(received)};
}

IoResult send_some(int fd, std::span<const std::byte> bytes, std::span<const int> fds) {
  iovec vector = {const_cast<std::byte*>(bytes.data()),
                  bytes.size()};  // sendmsg does not write to it
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kShmFdsPerFrame)> control{};
  msghdr message = {};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    PC_ASSERT(fds.size() <= kShmFdsPerFrame, fds.size());
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    return {IoOutcome::kProgress, static_cast<size_t>(sent)};
  }
  // ETOOMANYREFS: too many descriptors are in flight for this user; they arrive and it passes.
  const bool blocked = errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS;
  return {blocked ? IoOutcome::kBlocked : IoOutcome::kEnded, 0};
}

}  // namespace peercache
