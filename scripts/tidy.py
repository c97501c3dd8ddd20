#!/usr/bin/env python3
"""Checks the style rules that a program can check; runs as a test.

usage: tidy.py [--root DIR] [--list]

Prints `path:line: check: message` per violation and exits with 1 if there is one. Exceptions stand in
scripts/style_allow.txt, each with its reason. The rules are in scripts/style/rules_*.py.
"""

import argparse
import pathlib
import sys

from style import (
    rules_borders,
    rules_layout,
    rules_threads,
)  # noqa: F401: they register their checks
from style.common import CHECKS, AllowList, read_tree, report


def run(root):
    """All findings of the tree, and the allow-list."""
    files = read_tree(root)
    findings = []
    for function in CHECKS.values():
        findings += function(files)
    allow = AllowList(root / "scripts" / "style_allow.txt")
    return findings + allow.faults, allow


def main():
    parser = argparse.ArgumentParser(
        description="checks style rules; exceptions are in scripts/style_allow.txt"
    )
    parser.add_argument(
        "--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1]
    )
    parser.add_argument("--list", action="store_true", help="lists the checks")
    options = parser.parse_args()
    if options.list:
        print("\n".join(CHECKS))
        return 0
    findings, allow = run(options.root)
    failures = report(findings, allow, CHECKS)
    print(f"tidy: {failures} violations")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
