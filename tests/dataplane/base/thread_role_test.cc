#include "dataplane/base/thread_role.h"

#include <thread>

#include <catch2/catch.hpp>

namespace peercache {
namespace {

// What the analysis accepts; what it must refuse is in tests/style.
class Owner {
 public:
  void step() {
    const RoleScope scope(role_);
    add();
  }
  int value() {
    const RoleScope scope(role_);
    return value_;
  }

 private:
  void add() PC_REQUIRES(role_) { ++value_; }

  ThreadRole role_;
  int value_ PC_GUARDED_BY(role_) = 0;
};

TEST_CASE("thread role: guarded state is reached inside a scope", "[unit]") {
  Owner owner;
  owner.step();
  CHECK(owner.value() == 1);
}

TEST_CASE("thread role: the annotated mutex excludes", "[unit]") {
  constexpr int kAdds = 10'000;
  Mutex mutex;
  int value = 0;
  const auto add = [&] {
    for (int i = 0; i < kAdds; ++i) {
      const MutexLock lock(mutex);
      ++value;
    }
  };
  std::thread other(add);
  add();
  other.join();
  CHECK(value == 2 * kAdds);
}

}  // namespace
}  // namespace peercache
