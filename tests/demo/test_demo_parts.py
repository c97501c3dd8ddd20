"""The demo with a stand-in store: accidents, flaws noticed, output, no process left behind."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

_HERE = os.path.dirname(os.path.abspath(__file__))
_SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(_HERE)), "scripts")
_MAIN = (
    "import sys; from demo_lib import run;sys.exit(run.main(sys.argv[1:], 'fake_store:FakeStore'))"
)
_SMALL = ["--requests", "40", "--scale", "32", "--pool", "64MiB"]
KEYS = (
    "nodes transport requests pages_requested pages_hit_own pages_hit_peer pages_missed "
    "pages_hit_possible wrong_bytes gigabytes_per_second prefetch_p50_us prefetch_p99_us "
    "deadline_misses seconds"
).split()


def _start(tmp_path, *arguments, flaw=""):
    environment = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join([_SCRIPTS, _HERE]),
        FAKE_STORE_DIR=str(tmp_path),
        FAKE_STORE_FLAW=flaw,
    )
    return subprocess.Popen(
        [sys.executable, "-c", _MAIN, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(tmp_path, *arguments, flaw=""):
    process = _start(tmp_path, *arguments, flaw=flaw)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def _engines_of(pid):
    """Returns the engine processes that were started by a demo process."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{name}/stat", encoding="ascii") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:
            continue
        engine = any(word.endswith(b"engine.py") for word in words)
        if state != "Z" and engine and str(pid).encode() in words:
            found.append(int(name))
    return found


def _wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_json_is_one_object_with_the_promised_keys(tmp_path):
    status, out, err = _run(tmp_path, *_SMALL, "--json")
    assert status == 0, err
    assert out.count("\n") == 1
    figures = json.loads(out)
    assert set(KEYS) <= set(figures)
    assert figures["requests"] == 40 and figures["nodes"] == 4
    hits = figures["pages_hit_own"] + figures["pages_hit_peer"]
    assert hits + figures["pages_missed"] == figures["pages_requested"]
    assert figures["pages_hit_of_possible"] == figures["pages_hit_possible"] <= hits
    assert figures["pages_hit_peer"] * 2 >= hits > 0
    assert figures["wrong_bytes"] == figures["deadline_misses"] == 0
    assert figures["checked_bytes"] == hits * figures["page_bytes"]
    assert figures["transport"] == "files"
    assert "requests on 4 nodes" in err


def test_people_get_a_report(tmp_path):
    status, out, err = _run(tmp_path, *_SMALL)
    assert status == 0, err
    for text in (
        "scale 32",
        "not recomputed",
        "prefill",
        "wrong bytes",
        "possible",
        "try next",
        "verify",
    ):
        assert text in out
    assert "\x1b" not in out and not err


@pytest.mark.parametrize(
    "flaw,text",
    [
        ("flip", "1 of"),
        ("late", "after its deadline"),
        ("short", "TypeError"),
        ("crash", "signal 6"),
    ],
)
def test_a_flaw_of_the_store_is_noticed(tmp_path, flaw, text):
    status, out, _ = _run(tmp_path, *_SMALL, "--nodes", "2", flaw=flaw)
    assert status == 1
    assert text in out


def test_requests_of_a_killed_node_are_done_by_others(tmp_path):
    status, out, err = _run(tmp_path, *_SMALL, "--kill-one-at", "50%", "--json")
    figures = json.loads(out)
    assert status == 0, err
    assert figures["requests"] == 40 and figures["killed"]["pages"] > 0
    assert "KILLED" in err


def test_a_frozen_node_goes_on_and_is_not_blamed(tmp_path):
    arguments = ["--freeze-one-at", "30", "--freeze-for", "1.6", "--json"]
    status, out, err = _run(tmp_path, *_SMALL, *arguments)
    figures = json.loads(out)
    assert status == 0, err
    assert figures["requests"] == 40 and figures["seconds"] >= 1.6
    assert figures["deadline_misses"] == 0 and "frozen" in figures


def test_seconds_ends_a_run_without_end(tmp_path):
    status, out, err = _run(
        tmp_path, "--seconds", "1", "--scale", "32", "--pool", "64MiB", "--json"
    )
    figures = json.loads(out)
    assert status == 0, err
    assert 1 <= figures["seconds"] < 10 and not figures["interrupted"]


def test_every_layout_and_model_kind_runs(tmp_path):
    for model, layout in (("qwen3-32b-tp8", "layer_first"), ("deepseek-v3", "page_first_direct")):
        folder = tmp_path / model
        folder.mkdir()
        arguments = ["--requests", "12", "--nodes", "2", "--scale", "16", "--pool", "64MiB"]
        status, out, err = _run(folder, *arguments, "--model", model, "--layout", layout, "--json")
        assert status == 0, err
        assert json.loads(out)["checked_bytes"] > 0


def test_too_little_memory_is_said_before_anything_starts(tmp_path):
    status, out, err = _run(tmp_path, "--pool", "900TiB", "--json")
    assert status == 2 and "900 TiB" in err and not out


def test_a_trace_that_is_not_there_is_said(tmp_path):
    status, _, err = _run(tmp_path, "--trace", str(tmp_path / "none.jsonl"))
    assert status == 2 and "none.jsonl" in err


@pytest.mark.parametrize("number,status", [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_an_interrupt_ends_all_processes(tmp_path, number, status):
    process = _start(tmp_path, "--seconds", "60", "--scale", "32", "--pool", "64MiB", "--json")
    assert _wait_for(lambda: len(_engines_of(process.pid)) == 4)
    assert _wait_for(lambda: os.listdir(tmp_path))  # the first pages have been set
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == status
    assert json.loads(out)["interrupted"]
    assert not _engines_of(process.pid)


@pytest.mark.parametrize("frozen", [False, True])
def test_engines_die_with_their_parent(tmp_path, frozen):
    arguments = ["--freeze-one-at", "0", "--freeze-for", "60"] if frozen else []
    process = _start(tmp_path, "--seconds", "60", "--scale", "32", "--pool", "64MiB", *arguments)
    assert _wait_for(lambda: len(os.listdir(tmp_path)) > 50)
    engines = _engines_of(process.pid)
    assert len(engines) == 4
    process.kill()
    process.communicate()
    assert _wait_for(lambda: not _engines_of(process.pid), 5)
