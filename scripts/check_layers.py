#!/usr/bin/env python3
"""Checks who may use whom (design: layout and dependencies); runs as a test.

usage: check_layers.py [--root DIR]

Three things: includes of the project's own headers, includes of other libraries, and the DEPENDS of each folder's
CMake target. A folder may use what stands in its row and nothing else. Exceptions are in scripts/style_allow.txt.
"""

import argparse
import pathlib
import re
import sys

from style.common import AllowList, Finding, read_tree, report

CHECKS = ("layer", "library", "link")

BASE = {"dataplane/base"}
WIRE = BASE | {"dataplane/wire"}
CORE = WIRE | {"dataplane/queue", "dataplane/transport"}
KINDS = {f"dataplane/transport/{kind}" for kind in ("null", "sim", "shm", "tcp", "verbs", "mlx5")}
# What a transport, the pool and the engine say to each other: operations and completions, no transport.
WORK_REQUEST = "dataplane/transport/work_request.h"

# The data plane as the control plane sees it: handles, options and records, no concrete transport.
DATA = WIRE | {
    "dataplane/queue",
    "dataplane/pool",
    "dataplane/rail",
    "dataplane/engine",
    "dataplane/transport",
}
MACHINE = {"numa", "gpu"}
# Decisions are pure: records and hashes of the data plane, messages of the control plane; no sockets, no engine.
DECISIONS = WIRE | {"dataplane/queue", "dataplane/pool", "controlplane/wire"}

# Configuration fills in the options that stand beside what they configure.
NODE_OPTIONS = "controlplane/node/node_options.h"

# folder: what it may include (folders, or single headers)
MAY_USE = {
    "dataplane/base": set(),
    "dataplane/wire": BASE,
    "dataplane/queue": BASE,
    "dataplane/transport": WIRE | {"dataplane/queue"},
    **{kind: CORE for kind in KINDS},
    "dataplane/transport/mlx5": CORE | {"dataplane/transport/verbs"},
    "dataplane/pool": WIRE | {"dataplane/queue", WORK_REQUEST},
    "dataplane/rail": CORE | {"dataplane/pool"},
    "dataplane/engine": CORE | {"dataplane/pool", "dataplane/rail"},
    "numa": BASE,
    "gpu": BASE | {"numa"},
    "controlplane": BASE | {WORK_REQUEST},
    "controlplane/wire": WIRE,
    "controlplane/rpc": WIRE | {"dataplane/queue", "controlplane/wire"},
    "controlplane/membership": DECISIONS,
    "controlplane/discovery": DECISIONS | {"controlplane/membership", "controlplane/rpc"},
    "controlplane/directory": DECISIONS | {"controlplane/membership"},
    "controlplane/tier": DECISIONS,
    "controlplane/metrics": DATA | {"controlplane"},
    "controlplane/config": DATA | MACHINE | {"controlplane", "controlplane/wire", NODE_OPTIONS},
}
# The composition root wires everything together, and so may see every transport's cold half.
COMPOSITION_ROOT = "controlplane/node"
# Above the product: may use anything below, and nothing uses them.
TOPS = ("bindings", "perf", "tests")
# Single files that see more than their folder.
FILE_MAY_USE = {"dataplane/rail/make_rail.cc": KINDS, "dataplane/rail/make_rail.h": KINDS}

# library: (its includes, the files that may include them)
LIBRARIES = {
    "fmt": (r"fmt/", r"dataplane/base/(log\.h|log\.cc|error\.cc|fmt_impl\.cc)$"),
    "xxHash": (r"xxh", r"dataplane/base/key\.cc$"),
    "libibverbs": (r"infiniband/(?!mlx5dv)|rdma/", r"dataplane/transport/(verbs|mlx5)/"),
    "libmlx5": (r"infiniband/mlx5dv", r"dataplane/transport/mlx5/"),
    "CUDA": (r"cuda", r"gpu/"),
    "hwloc and libnuma": (r"hwloc|numa\.h|numaif\.h", r"numa/"),
    "Boost": (r"boost/", r"controlplane/"),
    "JSON": (r"nlohmann/", r"controlplane/config/"),
    "FlatBuffers": (r"flatbuffers/", r"controlplane/(wire|rpc)/"),
    "io_uring": (r"liburing", r"controlplane/tier/"),
    "pybind11": (r"pybind11/|Python\.h", r"bindings/"),
    "the command line": (r"CLI/", r"controlplane/daemon/"),
}


def allowed_for(folder, path):
    """Folders and headers that a file may include."""
    if folder.split("/")[0] in TOPS:
        return None
    if folder == COMPOSITION_ROOT or folder == "controlplane/daemon":
        return None
    return MAY_USE.get(folder, set()) | FILE_MAY_USE.get(path, set()) | {folder}


def check_includes(files):
    findings = []
    for file in files:
        if not file.is_cpp:
            continue
        top = file.path.split("/")[0]
        for number, line in enumerate(file.lines, 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not found:
                continue
            header = found.group(1)
            folder = str(pathlib.PurePosixPath(header).parent)
            used_top = header.split("/")[0]
            allowed = allowed_for(file.folder, file.path)
            if "/" not in header:
                message = "includes are written from the root of the tree"
            elif used_top in TOPS and used_top != top and top != "tests":
                message = f"nothing below uses {used_top}/"
            elif used_top in TOPS or allowed is None:
                continue
            elif file.folder not in MAY_USE:
                message = f"{file.folder} has no row in check_layers.py: say what it may use"
            elif folder in allowed or header in allowed:
                continue
            else:
                message = f"{file.folder} may not use {folder}"
            findings.append(Finding("layer", file.path, number, message))
    return findings


def check_libraries(files):
    findings = []
    for file in files:
        if not (file.is_cpp and file.is_source):
            continue
        for number, line in enumerate(file.lines, 1):
            found = re.match(r"\s*#\s*include\s+[<\"]([^>\"]+)[>\"]", line)
            for library, (pattern, places) in LIBRARIES.items():
                if found and re.match(pattern, found.group(1)) and not re.match(places, file.path):
                    findings.append(
                        Finding("library", file.path, number, f"{library} is not for this folder")
                    )
    return findings


def check_links(files):
    """A target links only targets of folders that its own folder may use."""
    call = re.compile(r"pc_add_library\(\s*(\w+)(.*?)\n?\)", re.DOTALL)
    home, links = {}, []
    for file in files:
        if file.name != "CMakeLists.txt" or not file.is_source:
            continue
        for found in call.finditer(re.sub(r"#[^\n]*", "", file.text)):
            home[found.group(1)] = file.folder
            depends = re.search(
                r"\b(?<!PRIVATE_)DEPENDS\b(.*?)(?=PRIVATE_DEPENDS|SOURCES|HEADERS|HEAVY|$)",
                found.group(2),
                re.DOTALL,
            )
            private = re.search(
                r"\bPRIVATE_DEPENDS\b(.*?)(?=\bDEPENDS|SOURCES|HEADERS|HEAVY|$)",
                found.group(2),
                re.DOTALL,
            )
            words = " ".join(part.group(1) for part in (depends, private) if part).split()
            links.append((found.group(1), file, file.line_of(found.start()), words))
    findings = []
    for target, file, number, words in links:
        allowed = allowed_for(file.folder, file.path)
        if file.folder == "dataplane/rail":
            allowed = allowed | KINDS  # for make_rail.cc
        for word in words:
            used = home.get(word)
            if not used or allowed is None or used in allowed:
                continue
            if not any(
                header.startswith(f"{used}/") and header.endswith(".h") for header in allowed
            ):
                findings.append(
                    Finding("link", file.path, number, f"{target} may not link {word} ({used})")
                )
    return findings


def run(root):
    files = read_tree(root)
    return check_includes(files) + check_libraries(files) + check_links(files)


def main():
    parser = argparse.ArgumentParser(description="checks who may use whom")
    parser.add_argument(
        "--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1]
    )
    options = parser.parse_args()
    failures = report(
        run(options.root), AllowList(options.root / "scripts" / "style_allow.txt"), CHECKS
    )
    print(f"check_layers: {failures} violations")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
