"""One engine of the demo: a process with a host pool and a real storage backend, driven over pipes.

It does to the backend what a serving engine does, in the same order and on as many threads:

    prefetch thread   exists over all pages of the prompt, reads of up to 128 pages, then checks
                      every byte
    backup thread     "computes" the missing pages (fills them), writes them, up to 128 a call

so a read and a write are under way at the same time, for different requests. Started by fleet.py:
`python engine.py PARENT_PID`; one JSON object a line, configuration first, on standard input;
reports on standard output. It ends when its input ends, and the kernel kills it when its parent
dies.
"""

import collections
import ctypes
import importlib
import json
import os
import queue
import random
import signal
import sys
import threading
import time
import types

_PR_SET_PDEATHSIG = 1
BATCH_PAGES = 128  # a serving engine's limit for one read or write call
GRACE_NS = 250_000_000  # a call has outlived its deadline when it returns later than this after it


def die_with_parent(parent_pid):
    """Makes the kernel kill this process when its parent dies; exits if that happened already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


class HostPages:
    """The pages of the host pool: who has them, and what was in them last.

    Pages are handed out oldest first from a shuffled start, so a batch is scattered over the pool
    as in a serving engine. Threads: any.
    """

    def __init__(self, pool, seed):
        self.pool = pool
        self._pieces = [
            [piece.view("uint64") for piece in pool.page_pieces(page)]
            for page in range(pool.page_num)
        ]
        order = list(range(pool.page_num))
        random.Random(seed).shuffle(order)
        self._free = collections.deque(order)
        self._last_key = [None] * pool.page_num
        self._changed = threading.Condition()

    def take(self, keys):
        """Returns one page per key. No page comes with the bytes of the key it is taken for."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._free) >= len(keys))
            pages = [self._free.popleft() for _ in keys]
        for page, key in zip(pages, keys):
            if self._last_key[page] == key:  # else a read that copies nothing would look right
                for piece in self._pieces[page]:
                    piece.fill(0)
            self._last_key[page] = key
        return pages

    def give(self, pages):
        """Takes pages back; what they hold is lost."""
        with self._changed:
            self._free.extend(pages)
            self._changed.notify_all()

    def pieces(self, page):
        """Returns the page's pieces as uint64 arrays, in their order."""
        return self._pieces[page]


class Engine:
    """Runs requests against a store and reports what happened to each."""

    def __init__(self, config, store, pool, patterns, report):
        self._store = store
        self._host = HostPages(pool, config["seed"])
        self._pool = pool
        self._read_pattern, self._write_pattern = patterns
        self._report = report
        self._deadlines_ms = config["deadlines_ms"]
        self._to_read = queue.SimpleQueue()
        self._to_write = queue.SimpleQueue()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._serve, args=(self._to_read, self._prefetch)),
            threading.Thread(target=self._serve, args=(self._to_write, self._backup)),
        ]

    def start(self):
        for thread in self._threads:
            thread.start()

    def submit(self, index, keys):
        """Queues a request."""
        request = {"index": index, "keys": keys, "calls": 0, "outlived": []}
        request["times"] = collections.Counter()
        self._to_read.put(request)

    def stop(self):
        """Ends both threads; what is queued is dropped, calls under way come to their end."""
        self._stopping = True
        for line, thread in zip((self._to_read, self._to_write), self._threads):
            line.put(None)
            thread.join()

    def _serve(self, line, work):
        """Loops over a queue; an exception breaks the backend's contract and ends the process."""
        while True:
            item = line.get()
            if item is None or self._stopping:
                return
            try:
                work(item)
            except Exception as error:  # reported to the parent, which prints it and fails the run
                self._report({"t": "error", "text": f"{type(error).__name__}: {error}"})
                os._exit(3)

    def _timed(self, request, name, mebibytes, call, *args):
        """Calls the backend; adds up the time and notes a call that outlived its deadline."""
        begin = time.monotonic_ns()
        result = call(*args)
        end = time.monotonic_ns()
        request["times"][name] += end - begin
        request["calls"] += 1
        base, per_mebibyte = self._deadlines_ms[name]
        allowed = int((base + per_mebibyte * mebibytes) * 1e6)
        if end - begin > allowed + GRACE_NS:
            request["outlived"].append([name, begin, end, allowed])
        return result, begin, end

    @staticmethod
    def _context(keys, first):
        """Returns the extra_info of a call whose pages start at `first` of the prompt."""
        return types.SimpleNamespace(prefix_keys=keys[:first], extra_info=None)

    def _transfer(self, request, name, call, first, batch, pages):
        """Reads or writes one batch; returns (one bool per page, begin, end)."""
        mebibytes = len(batch) * self._pool.page_bytes / 2**20
        indices = self._pool.page_indices(pages)
        results, begin, end = self._timed(
            request, name, mebibytes, call, batch, indices, self._context(request["keys"], first)
        )
        if not isinstance(results, list) or len(results) != len(batch):
            raise TypeError(f"{name} of {len(batch)} pages returned {results!r:.200}")
        return results, begin, end

    def _reads_so_far(self):
        """Returns (pages read from the own pool, from peers) since the node's start."""
        stats = self._store.stats()
        return stats["get_hits_own_count"], stats["get_hits_peer_count"]

    def _prefetch(self, request):
        keys = request["keys"]
        started = time.monotonic_ns()
        found, begin, _ = self._timed(request, "exists", 0, self._store.batch_exists, keys)
        if not isinstance(found, int) or not 0 <= found <= len(keys):
            raise TypeError(f"exists of {len(keys)} pages returned {found!r}")
        request["exists_at"] = begin
        request["reads"] = []
        own_before, peer_before = self._reads_so_far()
        hit = wrong = checked = 0
        while hit < found and not self._stopping:
            batch = keys[hit : min(found, hit + BATCH_PAGES)]
            pages = self._host.take(batch)
            span = {"request": request["index"], "first": hit, "pages": len(batch)}
            self._report({"t": "reading", **span})
            results, began, ended = self._transfer(
                request, "get", self._store.batch_get_v1, hit, batch, pages
            )
            self._report({"t": "read", **span})
            request["reads"].append([began, ended])
            wrong += self._check(request, keys, hit, pages, results)
            checked += sum(map(bool, results))
            self._host.give(pages)
            run = next((i for i, good in enumerate(results) if not good), len(results))
            hit += run
            if run < len(results):
                break  # a serving engine reads no further and computes the rest
        own_after, peer_after = self._reads_so_far()
        own = own_after - own_before
        total = own + peer_after - peer_before
        if total != hit:  # pages behind a miss were read and not used: share them out
            own = own * hit // total if total else 0
        request.update(found=found, hit=hit, own=own, wrong=wrong, checked=checked)
        request["times"]["reading"] = time.monotonic_ns() - started
        self._to_write.put(request)

    def _check(self, request, keys, first, pages, results):
        """Compares every byte of the pages that were read; returns how many are wrong."""
        begin = time.monotonic_ns()
        wrong = 0
        for i, (page, good) in enumerate(zip(pages, results)):
            if good:
                bad = self._read_pattern.wrong_bytes(keys[first + i], self._host.pieces(page))
                if bad and "wrong_where" not in request:
                    request["wrong_where"] = f"page {first + i} of request {request['index']}"
                wrong += bad
        request["times"]["verify"] += time.monotonic_ns() - begin
        return wrong

    def _backup(self, request):
        keys = request["keys"]
        started = time.monotonic_ns()
        first = request["hit"]
        not_written = 0
        while first < len(keys) and not self._stopping:
            batch = keys[first : first + BATCH_PAGES]
            begin = time.monotonic_ns()
            pages = self._host.take(batch)
            for key, page in zip(batch, pages):
                self._write_pattern.fill(key, self._host.pieces(page))
            request["times"]["compute"] += time.monotonic_ns() - begin
            results, _, ended = self._transfer(
                request, "set", self._store.batch_set_v1, first, batch, pages
            )
            self._host.give(pages)
            bits = "".join("1" if good else "0" for good in results)
            self._report(
                {"t": "set", "request": request["index"], "at": ended, "first": first, "ok": bits}
            )
            first += len(batch)
            if "0" in bits:  # a serving engine writes no more of this prompt
                not_written = bits.count("0") + len(keys) - first
                break
        self._finish(request, not_written, started)

    def _finish(self, request, not_written, started):
        stats = self._store.stats()
        del request["keys"]
        request.update(
            t="done",
            not_written=not_written,
            pool_pages=stats["pool_objects_count"],
            transports=sorted({p["transport"] for p in stats["peers"] if p["objects_count"]}),
        )
        request["times"]["writing"] = time.monotonic_ns() - started
        self._report(request)


def _make_pool(config):
    """Returns the host pool of the configuration."""
    from demo_lib.host_pool import HostPool

    model = config["model"]
    return HostPool(
        kind=model["kind"],
        layout=config["layout"],
        page_size=config["page_tokens"],
        page_num=config["host_pages"],
        layer_num=model["layers"],
        head_num=model["heads"],
        head_dim=model["dim"],
        dtype_bytes=model["dtype_bytes"],
    )


def _make_store(config):
    """Returns the storage backend, constructed as a serving engine's `dynamic` backend is."""
    module, _, name = config["store"].partition(":")
    model = config["model"]
    storage_config = types.SimpleNamespace(
        tp_rank=0,
        tp_size=model["tp_size"],
        pp_rank=0,
        pp_size=1,
        attn_cp_rank=0,
        attn_cp_size=1,
        dp_rank=0,
        dcp_size=1,
        dcp_rank=0,
        is_mla_model=model["kind"] == "mla",
        enable_storage_metrics=False,
        is_page_first_layout=config["layout"] == "page_first",
        model_name=model["name"],
        tp_lcm_size=None,
        should_split_heads=False,
        logical_page_size=None,
        is_storage_writer=True,
        extra_config=dict(config["extra"], backend_name="peercache", interface_v1=1),
    )
    return getattr(importlib.import_module(module), name)(storage_config, {})


def _make_report():
    """Returns a function that sends an object to the parent; what others print goes to the log."""
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    lock = threading.Lock()

    def report(message):
        line = json.dumps(message, separators=(",", ":")) + "\n"
        with lock:
            try:
                out.write(line)
                out.flush()
            except BrokenPipeError:
                os._exit(1)  # nobody listens any more

    return report


def main():
    die_with_parent(int(sys.argv[1]))
    report = _make_report()
    config = json.loads(sys.stdin.readline() or "{}")
    if not config:
        return
    store = None
    try:
        from demo_lib.pattern import Pattern

        pool = _make_pool(config)
        store = _make_store(config)
        store.register_mem_pool_host(pool)
        stats = store.stats()
    except Exception as error:
        report({"t": "error", "text": f"{type(error).__name__}: {error}"})
        if store is not None:
            store.close()
        os._exit(3)
    patterns = [Pattern(config["namespace"], 0) for _ in range(2)]
    engine = Engine(config, store, pool, patterns, report)
    engine.start()
    report({"t": "ready", "members_up": stats["members_up_count"]})
    for line in sys.stdin:
        message = json.loads(line)
        if message["t"] == "stop":
            break
        engine.submit(message["request"], message["keys"])
    engine.stop()
    report({"t": "bye", "stats": store.stats()})
    store.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    main()
