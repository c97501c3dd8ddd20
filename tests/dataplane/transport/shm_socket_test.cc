#include "dataplane/transport/shm/shm_socket.h"

#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <catch2/catch.hpp>

#include "dataplane/transport/shm/shm_frame.h"
#include "tests/support/temp_dir.h"

namespace peercache {
namespace {

using testing::TempDir;

TEST_CASE("shm socket: the runtime directory is made private", "[unit]") {
  const TempDir temp;
  const std::string path = temp.path() + "/run";
  REQUIRE(prepare_runtime_dir(path).value() == path);
  struct stat info = {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  REQUIRE((info.st_mode & 0777U) == 0700);
  REQUIRE(prepare_runtime_dir(path).has_value());
}

TEST_CASE("shm socket: a directory that others may enter, or that is none, is refused", "[unit]") {
  const TempDir temp;
  const std::string path = temp.path() + "/open";
  REQUIRE(::mkdir(path.c_str(), 0700) == 0);
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
  const auto open = prepare_runtime_dir(path);
  REQUIRE(open.error().code == Errc::kPermission);
  REQUIRE(open.error().values[0] == 0755);
  const std::string file = temp.path() + "/file";
  REQUIRE(::close(::open(file.c_str(), O_CREAT | O_WRONLY, 0600)) == 0);
  REQUIRE(prepare_runtime_dir(file).error().code == Errc::kSystem);
  REQUIRE(prepare_runtime_dir(temp.path() + "/no/such").error().code == Errc::kSystem);
}

TEST_CASE("shm socket: a path that does not fit is an error with both lengths", "[unit]") {
  const TempDir temp;
  const std::string name = shm_socket_name(NodeId(0xABCDEF), Incarnation(7));
  REQUIRE(name == "pc-0000000000abcdef-00000007.sock");
  const std::string deep = temp.path() + "/" + std::string(100, 'd');
  REQUIRE(::mkdir(deep.c_str(), 0700) == 0);
  const auto listening = listen_unix(deep, name, 8);
  REQUIRE(listening.error().code == Errc::kBadLength);
  REQUIRE(listening.error().values[1] == 107);
  REQUIRE(connect_unix(deep + "/" + name).error().code == Errc::kBadLength);
}

TEST_CASE("shm socket: connecting works as soon as the name is there", "[unit]") {
  const TempDir temp;
  REQUIRE(connect_unix(temp.path() + "/pc-a.sock").error().os_errno == ENOENT);
  const auto listening = listen_unix(temp.path(), "pc-a.sock", 8);
  REQUIRE(listening.has_value());
  REQUIRE_FALSE(std::filesystem::exists(temp.path() + "/pc-a.sock-new"));
  REQUIRE(connect_unix(temp.path() + "/pc-a.sock").has_value());
  REQUIRE(listen_unix(temp.path(), "pc-a.sock", 8).error().code == Errc::kAlreadyExists);
}

TEST_CASE("shm socket: a full queue is busy, not gone", "[unit]") {
  const TempDir temp;
  const auto listening = listen_unix(temp.path(), "pc-a.sock", 0);
  std::vector<UniqueFd> waiting;
  Errc code{};
  for (int i = 0; i < 64 && code == Errc{}; ++i) {
    auto connected = connect_unix(temp.path() + "/pc-a.sock");
    if (connected) {
      waiting.push_back(std::move(*connected));
    } else {
      code = connected.error().code;
    }
  }
  REQUIRE(code == Errc::kBusy);
  REQUIRE(remove_stale_sockets(temp.path()).value() == 0);
}

TEST_CASE("shm socket: sockets of the dead are removed, those of the living and other files stay",
          "[unit]") {
  const TempDir temp;
  const auto file = [&](const char* name) { return temp.path() + "/" + name; };
  const auto alive = listen_unix(temp.path(), "pc-alive.sock", 8);
  {
    const auto dead = listen_unix(temp.path(), "pc-dead.sock", 8);
  }
  {
    const auto dead = listen_unix(temp.path(), "other.sock", 8);
  }
  REQUIRE(::close(::open(file("pc-core.lock").c_str(), O_CREAT | O_WRONLY, 0600)) == 0);
  // One under construction, and one whose process died during it.
  {
    const auto half = listen_unix(temp.path(), "pc-half.sock", 8);
  }
  REQUIRE(::rename(file("pc-half.sock").c_str(), file("pc-half.sock-new").c_str()) == 0);
  {
    const auto half = listen_unix(temp.path(), "pc-old.sock", 8);
  }
  REQUIRE(::rename(file("pc-old.sock").c_str(), file("pc-old.sock-new").c_str()) == 0);
  const utimbuf long_ago = {1000, 1000};
  REQUIRE(::utime(file("pc-old.sock-new").c_str(), &long_ago) == 0);
  REQUIRE(remove_stale_sockets(temp.path()).value() == 2);
  REQUIRE(std::filesystem::exists(file("pc-alive.sock")));
  REQUIRE_FALSE(std::filesystem::exists(file("pc-dead.sock")));
  REQUIRE(std::filesystem::exists(file("other.sock")));
  REQUIRE(std::filesystem::exists(file("pc-core.lock")));
  REQUIRE(std::filesystem::exists(file("pc-half.sock-new")));
  REQUIRE_FALSE(std::filesystem::exists(file("pc-old.sock-new")));
}

TEST_CASE("shm socket: descriptors arrive with their bytes, in order", "[unit]") {
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
  const UniqueFd a(pair[0]), b(pair[1]);
  const UniqueFd sent(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<int> fds(kShmFdsPerFrame, sent.get());
  const std::vector<std::byte> bytes(10);
  REQUIRE(send_some(a.get(), bytes, fds).bytes == 10);
  REQUIRE(send_some(a.get(), bytes, std::span(fds).first(1)).bytes == 10);
  std::deque<UniqueFd> received;
  std::vector<std::byte> room(100);
  bool lost = false;
  size_t got = 0;
  while (got < 20) {
    const IoResult result = receive_some(b.get(), room, received, lost);
    REQUIRE(result.outcome == IoOutcome::kProgress);
    got += result.bytes;
  }
  REQUIRE(received.size() == kShmFdsPerFrame + 1);
  REQUIRE_FALSE(lost);
  REQUIRE((::fcntl(received[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE(receive_some(b.get(), room, received, lost).outcome == IoOutcome::kBlocked);
}

TEST_CASE("shm socket: the peer's uid is compared", "[unit]") {
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  const UniqueFd a(pair[0]), b(pair[1]);
  REQUIRE(check_peer_uid(a.get(), ::geteuid()).has_value());
  const auto other = check_peer_uid(a.get(), 12345);
  REQUIRE(other.error().code == Errc::kPermission);
  REQUIRE(other.error().values[0] == ::geteuid());
  REQUIRE(other.error().values[1] == 12345);
}

}  // namespace
}  // namespace peercache
