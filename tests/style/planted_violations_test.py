"""Plants one violation of each rule in a small tree and expects tidy.py and check_layers.py to find exactly it."""

import contextlib
import io
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
# pylint: disable=wrong-import-position
import check_aarch64  # noqa: E402
import check_layers  # noqa: E402
import tidy  # noqa: E402
from style.common import CHECKS, AllowList, blank_comments_and_literals, report  # noqa: E402

HEADER = "#pragma once\n\n"
CLASS = "/// A thing.\n///\n/// THREAD:     any.\nclass Thing {\n public:\n%s\n};\n"

# rule: (file, text); each text breaks that rule and no other
PLANTED = {
    "file-length": ("dataplane/rail/long.cc", "int x;\n" * 601),
    "function-length": (
        "dataplane/rail/long_function.cc",
        "void f() {\n" + "  g();\n" * 71 + "}\n",
    ),
    "line-length": ("dataplane/rail/wide.cc", "int a_name_" + "x" * 100 + ";\n"),
    "duplicate-name": ("dataplane/pool/clean.h", HEADER),
    "file-name": ("dataplane/rail/CamelCase.cc", "int x;\n"),
    "pragma-once": ("dataplane/rail/twice.h", "int f();\n"),
    "todo": ("dataplane/rail/later.cc", "// TODO: later\n"),
    "machine-path": ("scripts/where.sh", "cd /home/somebody/tree\n"),
    "volatile": ("dataplane/rail/flag.cc", "volatile int flag = 0;\n"),
    "fence": ("dataplane/rail/order.cc", "void f() { _mm_sfence(); }\n"),
    "atomic-order": (
        "dataplane/rail/count.cc",
        "std::atomic<int> count_{0};\nint f() { return count_.load(); }\n",
    ),
    "order-label": (
        "dataplane/rail/label.cc",
        "std::atomic<int> n{0};\nint f() { return n.load(std::memory_order_acquire); }\n",
    ),
    "hot-path": ("dataplane/rail/tcp_datapath.cc", "std::map<int, int> table;\n"),
    "thread-line": ("dataplane/rail/silent.h", HEADER + "/// A thing.\nclass Silent {\n};\n"),
    "getenv": ("dataplane/rail/env.cc", 'const char* f() { return std::getenv("HOME"); }\n'),
    "stdout": ("dataplane/rail/chatty.cc", 'void f() { std::printf("x"); }\n'),
    "transport-name": ("dataplane/rail/rail_kind.cc", "using T = Rail<ShmTransport>;\n"),
    "unit-suffix": (
        "dataplane/rail/rail_options.h",
        HEADER + "struct RailOptions {\n  uint32_t timeout = 5;\n};\n",
    ),
    "wire-size": (
        "dataplane/wire/bare.h",
        HEADER + "struct Bare {\n  uint32_t length_bytes;\n};\n",
    ),
    "perf-data": ("docs/perf/result.md", "# Result\n\n| case | GB/s |\n|---|---|\n| copy | 12 |\n"),
    "heavy-include": ("controlplane/rpc/asio.cc", "#include <boost/asio.hpp>\n"),
}

# What the rules must not mistake for a violation.
CLEAN = {
    "dataplane/rail/clean.h": HEADER
    + CLASS % "  void wait();"
    + "class Forward;\nenum class Kind { kA };\n",
    "dataplane/rail/clean.cc": (
        "// volatile in a comment, getenv( in a comment, TODO(#12) with its issue\n"
        'const char* text = "std::getenv( volatile printf(";\n'
        'void f() { asm volatile("" ::: "memory"); }\n'
        "void g() { std::fprintf(stderr, text); }\n"
        "std::atomic<int> n{0};\n"
        "int h() { return n.load(std::memory_order_relaxed); }\n"
        "// R1 acquire: meets W1 in j(); the items below are readable.\n"
        "int i() { return n.load(std::memory_order_acquire); }\n"
        "// W1 release: meets R1 in i().\n"
        "void j() { n.store(1, std::memory_order_release); }\n"
        "struct Long {\n" + "  int member;\n" * 90 + "};\n"
    ),
    "dataplane/wire/clean_record.h": (
        HEADER
        + "struct Record {\n  uint32_t length_bytes;\n  uint32_t latency_ns_max;\n  uint64_t node_id;\n};\n"
        "static_assert(sizeof(Record) == 16);\n"
    ),
    "tests/dataplane/wire/record_test.cc": "// golden bytes of Record\n",
    "docs/perf/clean.md": "# Table\n\ndata/run.json\n\n| case | GB/s |\n|---|---|\n| copy | 12 |\n",
    "docs/perf/data/run.json": "{}\n",
}

# include or link that breaks the picture: (file, text, check)
LAYERS = {
    "base uses nothing above": (
        "dataplane/base/up.cc",
        '#include "dataplane/wire/location.h"\n',
        "layer",
    ),
    "kinds do not see each other": (
        "dataplane/transport/shm/peek.cc",
        '#include "dataplane/transport/tcp/tcp_socket.h"\n',
        "layer",
    ),
    "the product does not use tests": (
        "dataplane/rail/t.cc",
        '#include "tests/support/x.h"\n',
        "layer",
    ),
    "pool sees no transport": (
        "dataplane/pool/p.cc",
        '#include "dataplane/transport/transport.h"\n',
        "layer",
    ),
    "a new folder says what it uses": (
        "controlplane/novelty/n.cc",
        '#include "dataplane/base/units.h"\n',
        "layer",
    ),
    "includes start at the root": ("dataplane/rail/r.cc", '#include "rail.h"\n', "layer"),
    "json is for configuration": (
        "controlplane/node/j.cc",
        "#include <nlohmann/json.hpp>\n",
        "library",
    ),
    "fmt is for the log": ("dataplane/rail/f.cc", "#include <fmt/format.h>\n", "library"),
    "verbs is for its folder": (
        "dataplane/rail/v.cc",
        "#include <infiniband/verbs.h>\n",
        "library",
    ),
    "targets link as folders include": (
        "dataplane/wire/CMakeLists.txt",
        "pc_add_library(pc_wire\n  SOURCES location.cc\n  DEPENDS pc_rail)\n",
        "link",
    ),
}


class Tree:
    """A tree in a temporary folder."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, encoding="utf-8")

    def __enter__(self):
        return self.root

    def __exit__(self, *unused):
        self.folder.cleanup()


def quietly(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*arguments)


class TidyTest(unittest.TestCase):
    def test_every_rule_has_a_planted_violation(self):
        self.assertEqual(set(PLANTED), set(CHECKS))

    def test_a_clean_tree_passes(self):
        with Tree(CLEAN) as root:
            findings, _ = quietly(tidy.run, root)
            self.assertEqual([str(finding) for finding in findings], [])

    def test_each_planted_violation_is_found_and_nothing_else(self):
        for rule, (path, text) in PLANTED.items():
            with self.subTest(rule), Tree({**CLEAN, path: text}) as root:
                findings, _ = quietly(tidy.run, root)
                self.assertEqual({finding.check for finding in findings}, {rule})

    def test_a_missing_data_file_is_found(self):
        with Tree({**CLEAN, "docs/perf/lost.md": "# T\n\ndata/lost.json\n\n| a |\n"}) as root:
            findings, _ = quietly(tidy.run, root)
            self.assertEqual(
                [finding.message for finding in findings], ["data/lost.json does not exist"]
            )

    def test_a_label_without_partner_is_found(self):
        text = "// R7 acquire: meets W7.\nint f() { return n.load(std::memory_order_acquire); }\n"
        with Tree({"dataplane/rail/alone.cc": text}) as root:
            findings, _ = quietly(tidy.run, root)
            self.assertEqual(
                [finding.message for finding in findings], ["no comment has the partner W7"]
            )

    def test_operators_on_atomics_are_found(self):
        for statement in (
            "++n_;",
            "n_ = 1;",
            "n_ += 2;",
            "n_--;",
            "n_.fetch_add(1);",
            "word_.value.store(1);",
        ):
            text = (
                "std::atomic<int> n_{0};\nPadded<std::atomic<int>> word_;\nvoid f() { "
                + statement
                + " }\n"
            )
            with self.subTest(statement), Tree({"dataplane/rail/op.cc": text}) as root:
                findings, _ = quietly(tidy.run, root)
                self.assertEqual([finding.check for finding in findings], ["atomic-order"])

    def test_every_hot_word_is_found(self):
        for word in (
            "virtual void f();",
            "std::function<int()> f;",
            "std::string s;",
            "std::mutex m;",
            "new int;",
        ):
            with self.subTest(word), Tree({"dataplane/queue/hot.h": HEADER + word + "\n"}) as root:
                findings, _ = quietly(tidy.run, root)
                self.assertEqual([finding.check for finding in findings], ["hot-path"])


class AllowListTest(unittest.TestCase):
    def failures(self, allow_text):
        path, text = PLANTED["volatile"]
        with Tree({path: text, "scripts/style_allow.txt": allow_text}) as root:
            findings, allow = quietly(tidy.run, root)
            return quietly(report, findings, allow, CHECKS)

    def test_an_exception_with_a_reason_is_granted(self):
        self.assertEqual(
            self.failures("volatile dataplane/rail/flag.cc set by a signal handler\n"), 0
        )

    def test_an_exception_without_a_reason_is_not(self):
        self.assertEqual(self.failures("volatile dataplane/rail/flag.cc\n"), 2)

    def test_an_exception_that_excuses_nothing_fails(self):
        self.assertEqual(
            self.failures(
                "volatile dataplane/rail/flag.cc why\nfence dataplane/rail/flag.cc why\n"
            ),
            1,
        )

    def test_a_missing_list_is_empty(self):
        self.assertEqual(AllowList(pathlib.Path("nowhere")).entries, {})


class LayersTest(unittest.TestCase):
    RAIL = {
        "dataplane/rail/CMakeLists.txt": "pc_add_library(pc_rail\n  SOURCES rail.cc\n  DEPENDS pc_base)\n"
    }

    def test_each_forbidden_use_is_found(self):
        for name, (path, text, check) in LAYERS.items():
            with self.subTest(name), Tree({**self.RAIL, path: text}) as root:
                self.assertEqual([finding.check for finding in check_layers.run(root)], [check])

    def test_allowed_uses_pass(self):
        files = {
            "dataplane/engine/e.cc": '#include "dataplane/rail/rail_handle.h"\n#include "dataplane/base/units.h"\n',
            "dataplane/rail/make_rail.cc": '#include "dataplane/transport/shm/shm_transport.h"\n',
            "dataplane/pool/p.h": '#include "dataplane/transport/work_request.h"\n',
            "tests/dataplane/t.cc": '#include "dataplane/rail/rail.h"\n#include "tests/support/x.h"\n',
            "dataplane/base/log.h": "#include <fmt/core.h>\n#include <vector>\n",
        }
        with Tree({**self.RAIL, **files}) as root:
            self.assertEqual(check_layers.run(root), [])


class BlankTest(unittest.TestCase):
    def test_comments_and_literals_are_blanked_and_nothing_moves(self):
        text = 'a /* b\n c */ "d\\"e" f // g\n1\'000 R"x(h)x" i'
        blank = blank_comments_and_literals(text)
        self.assertEqual(len(blank), len(text))
        self.assertEqual(blank.count("\n"), text.count("\n"))
        for gone in "bcdegh":
            self.assertNotIn(gone, blank)
        for kept in ("a", "f", "i", "000"):
            self.assertIn(kept, blank)


@unittest.skipIf(shutil.which(check_aarch64.COMPILER) is None, "no compiler for aarch64")
class BarrierTest(unittest.TestCase):
    def test_a_fence_without_its_barrier_is_missed(self):
        names = (
            "dataplane/base/ordering.h",
            "dataplane/queue/spsc_ring.h",
            "dataplane/base/assert.h",
            "dataplane/base/cacheline.h",
        )
        files = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
        fence = "std::atomic_thread_fence(std::memory_order_acquire);"
        self.assertIn(fence, files[names[0]])
        files[names[0]] = files[names[0]].replace(fence, "")
        with Tree(files) as root:
            bodies = check_aarch64.compile_for(root, "armv8-a")
        self.assertNotIn("dmb", bodies["check_validation_fence"])


if __name__ == "__main__":
    unittest.main()
