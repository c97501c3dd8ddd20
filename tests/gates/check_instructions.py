#!/usr/bin/env python3
"""Counts instructions per validated READ with valgrind and compares them with instructions.json beside this file.

The count is of our code only: client, lanes, rail and null device, stepped in one thread. Two runs that differ in their
number of batches are subtracted, so start-up does not count. `--update` writes the present figures.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

GATES = pathlib.Path(__file__).with_name("instructions.json")
BATCHES = (1, 16, 128)
TOLERANCE = 1.10  # another compiler patch level moves some instructions; a lost budget moves many


def instructions(program, batch, count):
    command = ["valgrind", "--tool=none", "--log-fd=1", program, "--run", str(batch), str(count)]
    command[1] = "--tool=callgrind"
    command.insert(2, "--callgrind-out-file=/dev/null")
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(re.search(r"Collected\s*:\s*(\d+)", output).group(1))


def main():
    program = sys.argv[1]
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return 77
    measured = {}
    for batch in BATCHES:
        few, many = 10, 10 + max(20, 2000 // batch)
        difference = instructions(program, batch, many) - instructions(program, batch, few)
        measured[str(batch)] = round(difference / (many - few) / batch, 1)
    if "--update" in sys.argv:
        GATES.write_text(json.dumps(measured, indent=1) + "\n")
    gates = json.loads(GATES.read_text())
    failed = False
    for batch, value in measured.items():
        good = value <= gates[batch] * TOLERANCE
        failed |= not good
        print(f"batch {batch}: {value} instructions per operation, gate {gates[batch]} (+10 %): {'ok' if good else 'TOO MANY'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
