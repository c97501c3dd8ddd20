#!/usr/bin/env python3
"""Compiles base/ordering.h for aarch64 and looks for the barrier in each named operation; runs as a test.

x86 keeps most stores and loads in order, so a missing barrier shows nowhere on it. Exit status 77 (skipped) without
an aarch64 compiler.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

COMPILER = "aarch64-linux-gnu-g++"

# One function per named operation, and what its assembly must contain. Without LSE atomics (-march=armv8-a) a
# read-modify-write is a loop of exclusives: ldaxr acquires, stlxr releases; with them it is one swpal.
OPERATIONS = {
    "validation_fence": ("peercache::validation_fence();", [r"\bdmb\s+ish(ld)?\b"]),
    "life_fence": ("peercache::life_fence();", [r"\bdmb\s+ish\b", r"\bdmb\s+osh(st)?\b"]),
    "copy_done_fence": ("peercache::copy_done_fence();", [r"\bdmb\s+ish\b", r"\bdmb\s+osh(st)?\b"]),
    "announce_sleep": (
        "peercache::announce_sleep(word);",
        [r"\b(ldaxr|swpal)\b", r"\b(stlxr|swpal)\b"],
    ),
    "cancel_sleep": (
        "peercache::cancel_sleep(word);",
        [r"\b(ldaxr|swpal)\b", r"\b(stlxr|swpal)\b"],
    ),
    "must_wake": (
        "return peercache::must_wake(word);",
        [r"\b(ldaxr|swpal)\b", r"\b(stlxr|swpal)\b"],
    ),
    "ring_push": ("return ring.push(1);", [r"\bldap?r\b", r"\bstlr\b"]),
    "ring_pop": ("int value = 0; return ring.pop(value);", [r"\bldap?r\b", r"\bstlr\b"]),
}


def source():
    lines = ['#include "dataplane/base/ordering.h"', '#include "dataplane/queue/spsc_ring.h"']
    for name, (body, _) in OPERATIONS.items():
        result = "bool" if body.split(" ", 1)[0] == "return" or "; return" in body else "void"
        argument = {"ring": "peercache::SpscRing<int>& ring"}.get(
            name.split("_")[0], "[[maybe_unused]] std::atomic<uint32_t>& word"
        )
        lines.append(f'extern "C" {result} check_{name}({argument}) {{ {body} }}')
    return "\n".join(lines) + "\n"


def function_bodies(assembly):
    """Instructions by function label."""
    bodies, current = {}, None
    for line in assembly.split("\n"):
        label = re.match(r"(check_\w+):", line)
        if label:
            current = bodies.setdefault(label.group(1), [])
        elif re.match(r"\s+\.size\s", line):
            current = None
        elif current is not None:
            current.append(line.strip())
    return {name: "\n".join(lines) for name, lines in bodies.items()}


def compile_for(root, march):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "operations.cc"
        path.write_text(source(), encoding="utf-8")
        command = [
            COMPILER,
            "-std=c++20",
            "-O2",
            f"-march={march}",
            "-mno-outline-atomics",
            "-Wall",
            "-Werror",
        ]
        done = subprocess.run(
            [*command, f"-I{root}", "-S", "-o", "-", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        sys.exit(f"does not compile for aarch64:\n{done.stderr}")
    return function_bodies(done.stdout)


def main():
    parser = argparse.ArgumentParser(description="looks for the barriers in the aarch64 assembly")
    parser.add_argument(
        "--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1]
    )
    options = parser.parse_args()
    if shutil.which(COMPILER) is None:
        print(f"skipped: {COMPILER} is not installed")
        return 77
    failures = 0
    for march in ("armv8-a", "armv8.1-a"):
        bodies = compile_for(options.root, march)
        for name, (_, patterns) in OPERATIONS.items():
            body = bodies.get(f"check_{name}", "")
            for pattern in patterns:
                if not re.search(pattern, body):
                    failures += 1
                    print(f"{march}: {name} has no {pattern}:\n{body}")
    print(f"check_aarch64: {failures} barriers missing")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
