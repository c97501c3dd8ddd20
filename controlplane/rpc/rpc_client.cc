#include "controlplane/rpc/rpc_client.h"

#include <unordered_map>
#include <utility>

#include "controlplane/rpc/rpc_peer.h"
#include "controlplane/wire/host_port.h"
#include "controlplane/wire/message_codec.h"

namespace peercache {

/// What the client is made of.
///
/// THREAD:     the loop's.
struct RpcClient::State {
  State(RpcLoop& rpc_loop, const RpcClientOptions& client_options)
      : loop(rpc_loop), options(client_options) {}

  RpcPeer& peer(RpcPeerId id) {
    const auto found = peers.find(id);
    PC_ASSERT(found != peers.end(), id);
    return *found->second;
  }

  RpcLoop& loop;
  RpcClientOptions options;
  std::unordered_map<RpcPeerId, std::shared_ptr<RpcPeer>> peers;
  std::shared_ptr<RpcClientStats> stats = std::make_shared<RpcClientStats>();
  uint64_t peer_id_last = 0;
  bool closed = false;
};

RpcClient::RpcClient(std::shared_ptr<State> state) : state_(std::move(state)) {}

RpcClient::~RpcClient() { close(); }

std::unique_ptr<RpcClient> RpcClient::open(RpcLoop& loop, const RpcClientOptions& options) {
  return std::unique_ptr<RpcClient>(new RpcClient(std::make_shared<State>(loop, options)));
}

Result<RpcPeerId> RpcClient::add_peer(std::string_view address) {
  PC_TRY_ASSIGN(HostPort target, parse_host_port(address));
  const RpcPeerId id(++state_->peer_id_last);
  state_->peers.emplace(id, std::make_shared<RpcPeer>(state_->loop, state_->options,
                                                      std::move(target), state_->stats));
  return id;
}

void RpcClient::remove_peer(RpcPeerId peer) {
  const auto found = state_->peers.find(peer);
  if (found == state_->peers.end()) return;
  const std::shared_ptr<RpcPeer> removed = found->second;
  state_->peers.erase(found);
  removed->close();
}

void RpcClient::call(RpcPeerId peer, const Message& message, Nanos timeout, RpcReplyFn on_reply) {
  PC_ASSERT(timeout > Nanos(0), timeout);
  ++state_->stats->calls_count;
  if (state_->closed) {
    state_->loop.post(
        [fn = std::move(on_reply)] { fn(make_error(Errc::kClosed, "the rpc client is closed")); });
    return;
  }
  state_->peer(peer).call(message, timeout, std::move(on_reply));
}

void RpcClient::notify(RpcPeerId peer, const Message& message) {
  if (!state_->closed) state_->peer(peer).notify(message);
}

bool RpcClient::connected(RpcPeerId peer) const {
  const auto found = state_->peers.find(peer);
  return found != state_->peers.end() && found->second->connected();
}

void RpcClient::reset(RpcPeerId peer) {
  if (!state_->closed) state_->peer(peer).reset();
}

RpcClientStats RpcClient::stats() const { return *state_->stats; }

void RpcClient::close() {
  if (state_->closed) return;
  state_->closed = true;
  // Callbacks may remove peers.
  auto peers = std::exchange(state_->peers, {});
  for (auto& [id, peer] : peers) peer->close();
}

}  // namespace peercache
