"""The demo itself, with the real store: short runs, every byte checked.

`--demo-requests N` makes them longer (default 120 requests each).
"""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_HERE = os.path.dirname(os.path.abspath(__file__))
_RUN = os.path.join(os.path.dirname(os.path.dirname(_HERE)), "scripts", "demo_lib", "run.py")


@pytest.fixture
def demo(request):
    """Returns a function that runs the demo and gives its JSON; asserts that all was well."""
    count = request.config.getoption("--demo-requests", 120)

    def run(*arguments):
        given = ["--json", "--requests", str(count), "--scale", "16", *arguments]
        command = [sys.executable, _RUN, *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + count)
        assert done.returncode == 0, done.stderr + done.stdout
        figures = json.loads(done.stdout)
        assert figures["wrong_bytes"] == 0
        assert figures["deadline_misses"] == 0
        assert figures["requests"] == count
        assert figures["checked_bytes"] > 0
        return figures

    return run


def _assert_nearly_all_possible_hits(figures):
    hits = figures["pages_hit_own"] + figures["pages_hit_peer"]
    assert figures["pages_hit_possible"] > 0
    assert hits >= 0.98 * figures["pages_hit_possible"]
    assert figures["pages_hit_of_possible"] >= 0.98 * figures["pages_hit_possible"]
    assert figures["pages_hit_peer"] >= 0.5 * hits
    assert figures["transport"] == "shm"


def test_nodes_read_each_others_pages(demo):
    _assert_nearly_all_possible_hits(demo())


def test_rows_of_one_piece_and_another_layout(demo):
    figures = demo("--model", "deepseek-v3", "--layout", "page_first_direct", "--nodes", "2")
    _assert_nearly_all_possible_hits(figures)


def test_many_pieces_a_page(demo):
    figures = demo("--layout", "layer_first", "--scale", "8", "--nodes", "3")
    _assert_nearly_all_possible_hits(figures)


def test_a_node_is_killed_while_others_read_from_it(demo):
    figures = demo("--kill-one-at", "50%")
    assert figures["killed"]["pages"] > 0
    assert figures["pages_hit_peer"] > 0


def test_a_node_is_frozen_and_thawed(demo):
    figures = demo("--freeze-one-at", "40%", "--freeze-for", "2")
    assert figures["frozen"]["pages"] > 0
    assert figures["seconds"] >= 2


def test_small_pools_evict_and_nothing_is_wrong(demo):
    figures = demo("--pool", "64MiB")
    assert figures["node_counters"]["pool_evicted_count"] > 0
    assert figures["pages_hit_own"] + figures["pages_hit_peer"] > 0
