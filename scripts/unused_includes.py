#!/usr/bin/env python3
"""Finds includes that nothing in their file needs; runs as a test of the preset tidy.

usage: unused_includes.py --build DIR [FILE...]

Only removals: that a file repeats every header its own header brings along is not asked for. An include that is needed
by a macro or for its side effect says so: // IWYU pragma: keep. Exit status 77 (skipped) without clang-include-cleaner.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from style.common import SOURCE_FOLDERS, list_paths

TOOL = "clang-include-cleaner-19"
# Used without being named (operators, literals), or umbrella headers by design.
IGNORED = r"compare,fmt/.*,catch2/.*,boost/.*,flatbuffers/.*,.*_generated\.h,pybind11/.*,nlohmann/.*"


def unused_of(root, build, path):
    """Include lines of one file that can go, as messages."""
    command = [TOOL, "-p", str(build), "--insert=false", "--print=changes", f"--ignore-headers={IGNORED}", path]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    messages = []
    for header, line in re.findall(r"^- (\S+) @Line:(\d+)", done.stdout, re.MULTILINE):
        text = (root / path).read_text(encoding="utf-8").split("\n")[int(line) - 1]
        if "IWYU pragma: keep" not in text:
            messages.append(f"{path}:{line}: unused-include: {header}")
    return messages


def main():
    parser = argparse.ArgumentParser(description="finds includes that are not used")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with compile_commands.json")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    if shutil.which(TOOL) is None:
        print(f"skipped: {TOOL} is not installed")
        return 77
    commands = json.loads((options.build / "compile_commands.json").read_text(encoding="utf-8"))
    compiled = {os.path.relpath(entry["file"], options.root) for entry in commands}
    files = options.files or [
        path
        for path in list_paths(options.root)
        if path.split("/")[0] in SOURCE_FOLDERS and (path.endswith(".h") or path in compiled)
    ]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = sum(pool.map(lambda path: unused_of(options.root, options.build, path), files), [])
    print("\n".join(findings + [f"unused_includes: {len(findings)} in {len(files)} files"]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
