"""The demo's parent process: starts the engines, hands out requests, watches, counts and reports.

`scripts/demo` starts it in the project's virtual environment.
"""

import collections
import dataclasses
import itertools
import json
import os
import signal
import sys
import time

if __package__ in (None, ""):  # started as a script: the folder above is where demo_lib lies
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from demo_lib import fleet as fleets
from demo_lib import models, options as command_line, report, routing, sizing, trace
from demo_lib.accounting import Tally
from demo_lib.display import Display
from demo_lib.faults import Accident
from demo_lib.work_queue import WorkQueue

STORE = "peercache.store:PeerCacheStore"
INFLIGHT_PER_NODE = 2  # one being read and one being written
# The node's own defaults, given to it and used to judge it: base, and per MiB, in milliseconds.
DEADLINES_MS = {"exists": (250, 0), "get": (1000, 1), "set": (1000, 1)}
KNOWN_REQUESTS = 1000  # what sizes are chosen by; the rest of a trace is taken to be like it
# Between a call's return and its report, at most: an engine's other thread may report first.
REPORT_LAG_NS = 2_000_000_000


@dataclasses.dataclass
class Result:
    """Everything the final report is made of."""

    options: object
    model: models.Model
    plan: sizing.Plan
    tally: Tally
    engines: list
    accidents: list
    seconds: float = 1e-9  # nothing is divided by 0 when no engine started
    tokens_requested: int = 0
    moved: int = 0
    interrupted: bool = False
    failures: list = dataclasses.field(default_factory=list)
    lived_ns: list = dataclasses.field(default_factory=list)
    counters: dict = dataclasses.field(default_factory=dict)
    logs: list = dataclasses.field(default_factory=list)

    @property
    def exit_status(self):
        """0 when all was well, 1 when not, 130 when somebody ended it early."""
        if self.tally.total("wrong_bytes") or self.tally.outlived or self.failures:
            return 1
        return 130 if self.interrupted else 0


class Run:
    """One run from the first process to the last.

    Args:
        options: from options.py.
        display: where the live view goes.
        store: "module:class" of the storage backend.
    """

    def __init__(self, options, display, store=STORE):
        self._options = options
        self._display = display
        self._signals = 0
        source, known = self._requests()
        grow = max(1.0, (options.requests or 0) / max(1, len(known)))
        model = models.MODELS[options.model]
        plan = sizing.plan(
            model,
            options.nodes,
            int(grow * len({key for request in known for key in request.keys})),
            int(grow * sum(len(request.keys) for request in known)),
            sizing.free_bytes(),
            len(os.sched_getaffinity(0)),
            options.scale,
            options.pool,
        )
        model = model.scaled(plan.scale)
        tally = Tally(options.nodes, model.page_bytes)
        router = routing.Router(options.route, options.nodes, options.seed)
        self._queue = WorkQueue(source, router, options.nodes)
        self._fleet = fleets.Fleet(_configs(options, model, plan, store))
        self._started_s = 0.0
        self._progress = 0.0
        self._heard_ns = [0] * options.nodes
        self.result = Result(options, model, plan, tally, self._fleet.engines, _accidents(options))

    def _requests(self):
        """Returns (iterator of the requests, those that the sizes are chosen by)."""
        options = self._options
        if options.requests == "all":
            options.requests = trace.count_requests(options.trace)
        source = trace.replay(options.trace) if options.trace else trace.generate(options.seed)
        if options.requests is not None:
            source = itertools.islice(source, options.requests)
        known = list(itertools.islice(source, KNOWN_REQUESTS))
        if options.requests and len(known) < min(options.requests, KNOWN_REQUESTS):
            options.requests = len(known)  # the file has no more
        return itertools.chain(known, source), known

    def interrupt(self, *_):
        """Signal handler: the first asks for an orderly end, the second ends at once."""
        self._signals += 1
        if self._signals > 1:
            self._fleet.close()
            os._exit(130)

    def execute(self):
        """Runs to the end; returns the Result. No engine is left behind, whatever happens."""
        result = self.result
        with self._fleet:
            self._announce()
            self._fleet.launch()
            if self._wait_until_up():
                self._serve()
            if self._started_s:
                result.seconds = time.monotonic() - self._started_s
            result.interrupted = self._signals > 0
            result.lived_ns = list(self._lived_ns())
            self._handle(self._fleet.finish())
            result.tally.judge(float("inf"))
            result.moved = self._queue.moved
            self._collect_counters()
        return result

    def _announce(self):
        result, options = self.result, self._options
        what = options.trace or f"generated chats, seed {options.seed}"
        self._display.say(
            f"{options.nodes} engines, {result.model.name} pages ({options.layout}), {what}, "
            f"route {options.route}"
        )
        self._display.say(result.plan.reason)
        fits = "" if result.plan.fits else "; too small for this trace, so pages will be evicted"
        self._display.say(
            f"pools of {sizing.format_bytes(result.plan.pool_bytes)}, host pools of "
            f"{sizing.format_bytes(result.plan.host_bytes)} per node{fits}"
        )

    def _wait_until_up(self):
        """Returns whether all engines are ready (False: interrupted or failed)."""
        end = time.monotonic() + fleets.START_S
        while not self._signals and not self.result.failures:
            self._handle(self._fleet.poll(0.1))
            if all(engine.state == "up" for engine in self._fleet.engines):
                return True
            if time.monotonic() > end:
                for engine in self._fleet.engines:
                    if engine.state == "starting":
                        self._fail(engine, f"not ready after {fleets.START_S:.0f} s")
            self._display.update(self._fleet, self.result.tally, 0.0, "engines start")
        return False

    def _serve(self):
        """Hands out requests until there are no more, time is up, or somebody interrupts."""
        self._started_s = time.monotonic()
        tally = self.result.tally
        while not self._signals and not self.result.failures:
            self._dispatch()
            if not len(self._queue) and not any(
                engine.inflight or engine.state == "frozen" for engine in self._fleet.engines
            ):
                break
            self._handle(self._fleet.poll(0.02))
            self._update_progress()
            for accident in self.result.accidents:
                victim = accident.step(self._progress, tally, self._fleet)
                if victim:
                    self._tell(victim, accident)
            tally.judge(self._horizon())
            self._display.update(self._fleet, tally, self._progress, self._text())

    def _dispatch(self):
        for engine in self._fleet.up():
            while len(engine.inflight) < INFLIGHT_PER_NODE:
                request = self._queue.next_for(engine.node)
                if request is None:
                    break
                engine.inflight[request.index] = request
                self._fleet.send(
                    engine, {"t": "run", "request": request.index, "keys": list(request.keys)}
                )
        up = [engine.node for engine in self._fleet.up()]
        for engine in self._fleet.engines:
            if engine.node not in up:
                self._queue.move_away(engine.node, up)

    def _tell(self, engine, accident):
        """Says what happened to a node; its requests go elsewhere."""
        if accident.kind == "kill":
            what = "killed"
        else:
            what = f"stopped for {accident.freeze_s:g} s"
        self._display.say(
            f"{self._progress * 100:.0f} %: node {engine.node} {what} "
            f"with {accident.pages:,} pages in its pool"
        )

    def _handle(self, messages):
        for engine, message in messages:
            self._heard_ns[engine.node] = time.monotonic_ns()
            kind = message["t"]
            request = engine.inflight.get(message.get("request", message.get("index")))
            if kind in ("reading", "read") and request:
                keys = request.keys[message["first"] :][: message["pages"]]
                for accident in self.result.accidents:
                    if kind == "reading":
                        accident.reading(engine, request, keys, self._held_elsewhere)
                    else:
                        accident.read(engine, request)
            elif kind == "set" and request:
                first = message["first"]
                keys = request.keys[first : first + len(message["ok"])]
                self.result.tally.published.note(engine.node, keys, message["ok"], message["at"])
            elif kind == "done" and request:
                self._done(engine, request, message)
            elif kind == "end":
                self._ended(engine)

    def _held_elsewhere(self, engine, keys):
        """Returns {node: how many of the keys it published first} for the nodes that are up."""
        published = self.result.tally.published
        others = (other.node for other in self._fleet.up() if other is not engine)
        return {node: published.held_by(node, keys) for node in others}

    def _done(self, engine, request, message):
        del engine.inflight[request.index]
        self._queue.note_over(request)
        span = None
        for accident in self.result.accidents:
            accident.over(engine, request, message)
            span = span or accident.frozen_span(engine)
        self.result.tokens_requested += request.tokens
        self.result.tally.done(engine.node, request, message, time.monotonic(), span)

    def _ended(self, engine):
        """Takes the end of a process: planned, or a failure."""
        if engine.state == "failed":
            self._fail(engine, engine.error)
        if engine.inflight:
            self._queue.moved += len(engine.inflight)
            self._queue.put_back(list(engine.inflight.values()), engine.node)
            engine.inflight.clear()

    def _fail(self, engine, text):
        tail = engine.log_tail()
        self.result.failures.append(f"node {engine.node}: {text}" + (f"\n{tail}" if tail else ""))

    def _horizon(self):
        """Returns a moment before which every set that returned has been reported."""
        busy = [self._heard_ns[e.node] for e in self._fleet.engines if e.inflight]
        return min(busy, default=time.monotonic_ns()) - REPORT_LAG_NS

    def _update_progress(self):
        options, done = self._options, self.result.tally.total("requests")
        elapsed = time.monotonic() - self._started_s
        shares = [elapsed / options.seconds] if options.seconds else []
        if options.requests:
            shares.append(done / options.requests)
        elif not options.seconds:
            left = len(self._queue) + sum(len(e.inflight) for e in self._fleet.engines)
            shares.append(done / (done + left) if self._queue.exhausted else 0.0)
        self._progress = min(1.0, max(shares))
        if options.seconds and elapsed >= options.seconds:
            self._queue.drop()

    def _text(self):
        done = self.result.tally.total("requests")
        wrong = self.result.tally.total("wrong_bytes")
        total = f" of {self._options.requests:,}" if self._options.requests else ""
        elapsed = time.monotonic() - self._started_s
        return f"{done:,}{total} requests, {elapsed:.0f} s, {wrong} wrong bytes"

    def _lived_ns(self):
        """Yields how long each engine served, in ns."""
        for engine in self._fleet.engines:
            gone = [a for a in self.result.accidents if a.kind == "kill" and a.victim is engine]
            end = gone[0].span_ns[0] if gone else time.monotonic_ns()
            yield max(0, end - int(self._started_s * 1e9)) if self._started_s else 0

    def _collect_counters(self):
        """Sums the nodes' own counters (of those that lived to tell)."""
        total = collections.Counter()
        for engine in self._fleet.engines:
            if log := engine.log_tail(3):
                self.result.logs.append(f"node {engine.node}: {log}")
            for name, value in (engine.bye or {}).items():
                if name.endswith("_count") and name.startswith(_SUMMED):
                    total[name] += value
        self.result.counters = dict(total)


_SUMMED = tuple("stale_ retried_ bad_ deadline_ outlived_ suspects_ primed_ put_ pool_".split())


def _configs(options, model, plan, store):
    """Returns the configuration of every engine (engine.py)."""
    members = [f"127.0.0.1:{port}" for port in fleets.free_ports(options.nodes)]
    shape = {
        name: getattr(model, name)
        for name in ("name", "kind", "layers", "heads", "dim", "dtype_bytes", "tp_size")
    }
    return [
        {
            "store": store,
            "model": shape,
            "layout": options.layout,
            "page_tokens": models.PAGE_TOKENS,
            "host_pages": sizing.HOST_POOL_PAGES,
            "seed": options.seed + node,
            "namespace": f"{model.name} {options.layout} {model.layers}",
            "deadlines_ms": DEADLINES_MS,
            "extra": {
                "node_id": f"demo-{os.getpid()}-{node}",
                "cluster_name": f"demo-{os.getpid()}",
                "members": members,
                "control_port": int(members[node].rpartition(":")[2]),
                "pool_bytes": plan.pool_bytes,
                "kv_cache_dtype": "bfloat16" if model.dtype_bytes == 2 else "fp8_e4m3",
                "exists_timeout_ms": DEADLINES_MS["exists"][0],
                "transfer_timeout_ms": DEADLINES_MS["get"][0],
                "transfer_timeout_ms_per_MiB": DEADLINES_MS["get"][1],
            },
        }
        for node in range(options.nodes)
    ]


def _accidents(options):
    """Returns the accidents that were asked for."""
    wanted = (("kill", options.kill_one_at), ("freeze", options.freeze_one_at))
    return [Accident(kind, at, options.freeze_for) for kind, at in wanted if at is not None]


def main(arguments, store=STORE):
    """Runs the demo; returns the exit status."""
    options = command_line.parse(arguments)
    display = Display(sys.stderr if options.json else sys.stdout)
    try:
        run = Run(options, display, store)
    except (ValueError, OSError) as error:
        print(f"scripts/demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, run.interrupt)
    try:
        result = run.execute()
        display.say(report.as_text(result))
        if options.json:
            print(json.dumps(report.as_json(result)), flush=True)
    except BrokenPipeError:  # the reader of our output has left; the engines have been ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return result.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
