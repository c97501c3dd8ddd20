#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_handle.h"
#include "dataplane/wire/wire_types.h"

/// The system's side of the shared-memory transport: runtime directory, socket names, Unix sockets,
/// descriptors in messages. THREAD: the conductor, like everything that calls it.
namespace peercache {

/// Makes sure that the runtime directory exists, belongs to us and is closed to others; returns its
/// path. `wanted` empty: /run/peercache, or /tmp/peercache-UID where that cannot be made. Errors:
/// kPermission (another owner or mode; values: uid, mode), kSystem.
Result<std::string> prepare_runtime_dir(const std::string& wanted);

/// Name of a node's socket in the runtime directory: short, unique per start, readable in a
/// listing.
std::string shm_socket_name(NodeId node, Incarnation incarnation);

/// Removes sockets of processes that are gone from the directory: those that nobody listens on.
/// Returns how many. A frozen process still listens. Errors: kSystem.
Result<uint32_t> remove_stale_sockets(const std::string& directory);

/// Listens on `directory`/`name`. The name appears only once connecting works, so that nobody takes
/// it for stale. Errors: kBadLength (the path does not fit a socket address; values: bytes, most),
/// kAlreadyExists, kSystem.
Result<UniqueFd> listen_unix(const std::string& directory, const std::string& name, int backlog);

/// Begins to connect; the socket is non-blocking. kBusy: the peer's queue is full, try again later.
/// Errors: kBadLength, kConnectRefused (nobody there; errno says which way), kBusy, kPermission,
/// kSystem.
Result<UniqueFd> connect_unix(const std::string& path);

/// Checks that the other end runs as `uid`. Errors: kPermission (values: its uid, ours), kSystem.
Result<void> check_peer_uid(int fd, int64_t uid);

/// What one attempt to send or receive did.
enum class IoOutcome : uint8_t {
  kProgress,  ///< some bytes
  kBlocked,   ///< nothing now
  kEnded,     ///< the other end is gone
};
struct IoResult {
  IoOutcome outcome;
  size_t bytes;
};

/// Receives up to `room.size()` bytes and any descriptors that came with them; the descriptors go
/// to the end of `fds`. Errors: kTooManyRegions (more than kShmFdsPerFrame with one message, or
/// `fds` above the limit), kSystem.
IoResult receive_some(int fd, std::span<std::byte> room, std::deque<UniqueFd>& fds, bool& fds_lost);

/// Sends what fits, with `fds` attached to the first byte. If any byte was taken, so were all
/// descriptors.
IoResult send_some(int fd, std::span<const std::byte> bytes, std::span<const int> fds);

}  // namespace peercache
