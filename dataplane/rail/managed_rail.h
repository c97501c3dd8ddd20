#pragma once

#include "dataplane/base/agent.h"
#include "dataplane/base/result.h"
#include "dataplane/rail/rail_handle.h"
#include "dataplane/rail/rail_proxy.h"

namespace peercache {

/// A rail as its owner sees it: what engines see, and its thread. Clients use the RailHandle part
/// only.
///
/// THREAD: the owner's (conductor), as for RailHandle.
class ManagedRail : public RailHandle {
 public:
  /// Gives the rail its thread. Call before clients attach, so that they find its wake_event. Not
  /// for client-driven rails, and not in tests that step. Errors: kUnsupported (client-driven),
  /// kAlreadyExists (runs), those of AgentThread::start.
  virtual Result<void> start(AgentOptions options) = 0;

  /// Ends the thread, then all operations (kCancelled), and returns when nothing is in flight.
  /// REQUIRES: no client uses the rail any more. Errors: kTimeout if the transport has not become
  /// quiet within `patience`; memory of operations may still be written then.
  virtual Result<void> stop(Nanos patience) = 0;

  virtual RailProxy& proxy() noexcept = 0;

  /// For tests: aborts if the state contradicts itself.
  virtual void check_invariants() const = 0;
};

}  // namespace peercache
