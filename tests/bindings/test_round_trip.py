"""Two processes, two nodes, shared memory: what one writes the other reads, every byte of it."""

import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import POOL_SHAPES, ROOT, page_keys, small_options, small_pool
from free_ports import free_ports

from peercache.store import PeerCacheStore

PAGES = 6

PRODUCER = """
import json, sys
sys.path.insert(0, {tests!r})
from conftest import page_keys, small_pool
from test_round_trip import PAGES, fill
from peercache.store import PeerCacheStore
kind, layout, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
store = PeerCacheStore(None, options)
pool = small_pool(kind, layout, page_num=PAGES)
store.register_mem_pool_host(pool)
fill(pool)
flags = store.batch_set_v1(page_keys(PAGES), pool.page_indices(range(PAGES)))
assert flags == [True] * PAGES, flags
store._node.flush(timeout=10)
print("ready", flush=True)
sys.stdin.readline()
store.close()
"""


def fill(pool):
    """Every element depends on its page and its place in it."""
    for page in range(pool.page_num):
        at = 0
        for piece in pool.page_pieces(page):
            places = np.arange(at, at + piece.size, dtype=np.uint64)
            piece[:] = ((places * 2654435761 + page * 97) >> 7).astype(np.uint8)
            at += piece.size


def page_bytes(pool, page):
    return b"".join(piece.tobytes() for piece in pool.page_pieces(page))


class Producer:
    """A process that publishes PAGES pages and waits."""

    def __init__(self, kind, layout, options):
        import json

        code = PRODUCER.format(tests=str(ROOT / "tests" / "bindings"))
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, kind, layout, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_ready(self):
        assert self.process.stdout.readline() == "ready\n"

    def end(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.wait(15) == 0

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(15)
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def pair(runtime_dir):
    """Returns a function that starts a producer, and the options of the second node."""
    ports = free_ports(2)
    members = ["127.0.0.1:%d" % port for port in ports]
    made = []

    def start(kind, layout):
        common = small_options(runtime_dir, members=members, interface_v1=1)
        producer = Producer(kind, layout, dict(common, control_port=ports[0], node_id="one"))
        made.append(producer)
        return producer, dict(common, control_port=ports[1], node_id="two")

    yield start
    for producer in made:
        producer.kill()


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within %s s" % seconds
        time.sleep(0.01)


def read_from_one(store):
    """Returns transport and objects read, by the node called "one"."""
    peers = store.stats()["peers"]
    return [(p["transport"], p["objects_count"]) for p in peers if p["node_id"] == "one"]


@pytest.mark.parametrize("kind,layout", POOL_SHAPES)
def test_pages_of_another_process_are_read_whole(pair, kind, layout):
    producer, options = pair(kind, layout)
    store = PeerCacheStore(None, options)
    try:
        pool, want = (small_pool(kind, layout, page_num=PAGES) for _ in range(2))
        fill(want)
        store.register_mem_pool_host(pool)
        producer.wait_ready()
        keys = page_keys(PAGES)
        wait_for(lambda: store.batch_exists(keys) == PAGES)
        order = [3, 0, 5, 1, 4, 2]
        assert store.batch_get_v1(keys, pool.page_indices(order)) == [True] * PAGES
        for i, page in enumerate(order):
            assert page_bytes(pool, page) == page_bytes(want, i)
        stats = store.stats()
        assert stats["get_hits_peer_count"] == PAGES and stats["get_hits_own_count"] == 0
        wait_for(lambda: read_from_one(store) == [("shm", PAGES)])  # names follow a little later
        # What a live node holds is not stored again.
        assert store.batch_set_v1(keys, pool.page_indices(order)) == [True] * PAGES
        assert store.stats()["put_held_count"] == PAGES
        producer.end()
    finally:
        store.close()


def test_a_dead_producer_is_a_miss_within_the_deadline(pair):
    producer, options = pair("mha", "page_first")
    store = PeerCacheStore(None, options)
    try:
        pool = small_pool("mha", "page_first", page_num=PAGES)
        store.register_mem_pool_host(pool)
        producer.wait_ready()
        keys, indices = page_keys(PAGES), pool.page_indices(range(PAGES))
        wait_for(lambda: store.batch_exists(keys) == PAGES)
        producer.kill()
        since = time.monotonic()
        flags = store.batch_get_v1(keys, indices)
        assert len(flags) == PAGES and time.monotonic() - since < 2
        wait_for(lambda: store.batch_exists(keys) == 0)
        assert store.batch_get_v1(keys, indices) == [False] * PAGES
        # Anyone may publish them again.
        assert store.batch_set_v1(keys, indices) == [True] * PAGES
        assert store.batch_exists(keys) == PAGES
        since = time.monotonic()
    finally:
        store.close()
    assert time.monotonic() - since < 10
