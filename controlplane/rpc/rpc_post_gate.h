#pragma once

#include <functional>

#include "dataplane/base/thread_role.h"

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace peercache {

/// How a thread that may outlive the loop hands it something: after the loop has closed it, posts
/// vanish.
///
/// THREAD:     any.
/// A mutex, not a ring: it is used once per name look-up, and keeps the io_context alive during the
/// post.
class RpcPostGate {
 public:
  explicit RpcPostGate(boost::asio::io_context* context) : context_(context) {}
  void post(std::function<void()> fn) PC_EXCLUDES(mutex_);
  void close() PC_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    context_ = nullptr;
  }

 private:
  Mutex mutex_;
  boost::asio::io_context* context_ PC_GUARDED_BY(mutex_);
};

}  // namespace peercache
