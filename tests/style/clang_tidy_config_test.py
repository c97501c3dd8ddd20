"""clang-tidy's configuration has no misspelt check or option: those are silently dropped otherwise."""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = shutil.which("clang-tidy-19")

if TOOL is None:
    print("skipped: clang-tidy-19 is not installed")
    sys.exit(77)
done = subprocess.run(
    [TOOL, "--verify-config"], cwd=ROOT, capture_output=True, text=True, check=False
)
print(done.stdout + done.stderr)
sys.exit(0 if done.returncode == 0 and "No config errors" in done.stdout + done.stderr else 1)
