"""Clang refuses code that touches a role's state from elsewhere, and accepts code that does not."""

import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = shutil.which("clang++-19")

CODE = """
#include "dataplane/base/thread_role.h"
class Rail {
 public:
  void turn() {
    const peercache::RoleScope scope(role_);
    step();
  }
  void from_elsewhere() { %s }

 private:
  void step() PC_REQUIRES(role_) { ++posted_; }
  peercache::ThreadRole role_;
  peercache::Mutex mutex_;
  int posted_ PC_GUARDED_BY(role_) = 0;
  int shared_ PC_GUARDED_BY(mutex_) = 0;
};
int main() { Rail rail; rail.turn(); rail.from_elsewhere(); }
"""


def compiles(body):
    command = [
        COMPILER,
        "-std=c++20",
        "-fsyntax-only",
        "-Wthread-safety",
        "-Werror",
        f"-I{ROOT}",
        "-x",
        "c++",
        "-",
    ]
    return (
        subprocess.run(
            command, input=CODE % body, text=True, capture_output=True, check=False
        ).returncode
        == 0
    )


class ThreadRolesTest(unittest.TestCase):
    def test_code_inside_a_scope_is_accepted(self):
        self.assertTrue(compiles("const peercache::RoleScope scope(role_); step(); ++posted_;"))
        self.assertTrue(compiles("const peercache::MutexLock lock(mutex_); ++shared_;"))
        self.assertTrue(compiles("role_.assert_held(); ++posted_;"))

    def test_guarded_state_outside_its_role_is_refused(self):
        self.assertFalse(compiles("++posted_;"))
        self.assertFalse(compiles("++shared_;"))

    def test_a_call_without_the_role_is_refused(self):
        self.assertFalse(compiles("step();"))

    def test_a_role_entered_twice_is_refused(self):
        self.assertFalse(
            compiles("const peercache::RoleScope a(role_); const peercache::RoleScope b(role_);")
        )


if __name__ == "__main__":
    if COMPILER is None:
        print("skipped: clang++-19 is not installed")
        sys.exit(77)
    unittest.main()
