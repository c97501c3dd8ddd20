#!/usr/bin/env python3
"""Adds up JUnit reports of ctest and pytest and prints `N passed, N failed` as the last line.

usage: summary.py report.xml...

Skipped cases are counted and named with their reason. Exit status 1 if anything failed, a report is missing, or
nothing ran at all.
"""

import sys
import xml.etree.ElementTree as ElementTree


def outcome_of(case):
    """'failed', 'skipped' or 'passed', and the reason where there is one."""
    for kind in ("failure", "error"):
        found = case.find(kind)
        if found is not None:
            return "failed", found.get("message", "")
    skipped = case.find("skipped")
    if skipped is not None or case.get("status") == "notrun":
        return "skipped", "" if skipped is None else skipped.get("message", "")
    return "passed", ""


def main(paths):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for path in paths:
        try:
            root = ElementTree.parse(path).getroot()
        except (OSError, ElementTree.ParseError) as problem:
            print(f"no report: {path}: {problem}")
            counts["failed"] += 1
            continue
        for case in root.iter("testcase"):
            outcome, reason = outcome_of(case)
            counts[outcome] += 1
            if outcome != "passed":
                print(
                    f"{outcome}: {case.get('name')}"
                    + (f": {reason.splitlines()[0]}" if reason else "")
                )
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
