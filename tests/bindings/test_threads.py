"""Calls from several threads at once, and what other Python threads may do meanwhile."""

import threading
import time

import numpy as np
from conftest import page_keys, small_options, small_pool

import peercache
from peercache import _native
from peercache.store import PeerCacheStore


def test_exists_get_and_set_run_at_the_same_time(runtime_dir):
    """As SGLang does: one thread each for exists, get, set, and exists from the scheduler too."""
    store = PeerCacheStore(None, small_options(runtime_dir, interface_v1=1))
    pool = small_pool(page_num=64)
    store.register_mem_pool_host(pool)
    rounds, failures = 60, []
    keys = [page_keys(16, 100 * i) for i in range(rounds)]
    written = threading.Semaphore(0)

    def page_value(i, j):
        return (17 * i + j) % 65521

    def run(body):
        try:
            body()
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(repr(error))

    def write():
        for i in range(rounds):
            for j in range(16):
                pool.kv_buffer[:, 4 * j : 4 * j + 4] = page_value(i, j)
            assert store.batch_set_v1(keys[i], pool.page_indices(range(16))) == [True] * 16
            written.release()

    def read():
        for i in range(rounds):
            assert written.acquire(timeout=30)
            pages = range(32, 48)
            assert store.batch_get_v1(keys[i], pool.page_indices(pages)) == [True] * 16
            for j in range(16):
                page = pool.get_data_page(4 * (32 + j))
                assert (page == page_value(i, j)).all(), (i, j)

    def ask():
        for i in range(rounds):
            assert 0 <= store.batch_exists(keys[i]) <= 16

    threads = [threading.Thread(target=run, args=(body,)) for body in (write, read, ask, ask)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    store.close()
    assert failures == []


def test_another_thread_runs_while_a_call_works(runtime_dir):
    """A counting thread goes on while large copies run: the GIL is not held for them."""
    size, count = 1 << 20, 24
    with peercache.Node(small_options(runtime_dir, pool_bytes=64 << 20)) as node:
        keys = ["k%d" % i for i in range(count)]
        target = np.zeros(size * count, dtype=np.uint8)
        assert node.put(keys, np.ones(size * count, dtype=np.uint8))
        stop, turns = threading.Event(), [0]

        def count_turns():
            while not stop.is_set():
                turns[0] += 1

        before = _native._call_totals()
        thread = threading.Thread(target=count_turns)
        thread.start()
        since = time.perf_counter()
        for _ in range(20):
            assert node.get(keys, target)
        spent = time.perf_counter() - since
        stop.set()
        thread.join()
        after = _native._call_totals()
    held = (after["held_ns"] - before["held_ns"]) / 1e9
    assert turns[0] > 0
    assert held < spent / 2, "%.4f s of %.4f s with the GIL" % (held, spent)
