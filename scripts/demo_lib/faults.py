"""The planned accident: one node killed, or stopped for a while, at a share of the work."""

import time

# The moment: others read from the victim. At first two of them, and many pages (a few are read before
# the signal arrives); then less will do, at last nothing is waited for. Each step ends by time or by
# the share of what was left, whichever comes first: (readers, pages, seconds, share).
_STEPS = ((2, 64, 3.0, 0.2), (1, 64, 5.0, 0.4), (1, 1, 8.0, 0.6))


class Accident:
    """Kills or freezes the node with most pages, at a moment when another one reads from it.

    Args:
        kind: "kill" or "freeze".
        share: of the work, 0 to 1.
        freeze_s: how long a frozen node stays so.

    Attributes:
        victim: the engine, once it happened.
        span_ns: (begin, end) of it; the end of a kill is never.
        reads_running: reads of other nodes from the victim that were under way at that moment.
        pages: pages in the victim's pool.
    """

    def __init__(self, kind, share, freeze_s=0.0):
        self.kind = kind
        self.share = share
        self.freeze_s = freeze_s
        self.victim = None
        self.span_ns = None
        self.reads_running = 0
        self.pages = 0
        self._moment_ns = (0, 0)  # around the signal
        self._due_since = None
        self._taken = {}  # (node, request index) -> other nodes it has read from
        self._reading = {}  # (node, request index) -> pages it reads now, by other node

    @property
    def happened(self):
        """Whether it has begun."""
        return self.victim is not None

    def frozen_span(self, engine):
        """Returns when an engine was stopped, or None."""
        return self.span_ns if self.kind == "freeze" and engine is self.victim else None

    def reading(self, engine, request, keys, held_elsewhere):
        """Notes that a request begins to read these keys."""
        if not self.happened:
            held = held_elsewhere(engine, keys)
            self._reading[engine.node, request.index] = held
            self._taken.setdefault((engine.node, request.index), set()).update(
                node for node, count in held.items() if count
            )

    def read(self, engine, request):
        """Notes that a read is over."""
        self._reading.pop((engine.node, request.index), None)

    def over(self, engine, request, report):
        """Notes that a request is over; counts it if the accident came while it read."""
        taken = self._taken.pop((engine.node, request.index), ())
        if self.happened and self.victim.node in taken:
            before, after = self._moment_ns
            self.reads_running += any(b <= after and e > before for b, e in report["reads"])

    def step(self, progress, tally, fleet):
        """Lets the accident begin or end when it is time. Returns the victim when it just began."""
        now = time.monotonic()
        if self.happened:
            if self.victim.state == "frozen" and time.monotonic_ns() >= self.span_ns[1]:
                fleet.thaw(self.victim)
                self.span_ns = (self.span_ns[0], time.monotonic_ns())
            return None
        if progress < self.share or len(fleet.up()) < 2:
            return None
        self._due_since = self._due_since or now
        victim = max(fleet.up(), key=lambda engine: tally.nodes[engine.node].pool_pages)
        waited, over = now - self._due_since, (progress - self.share) / (1 - self.share)
        readers, pages = next(
            (step[:2] for step in _STEPS if waited < step[2] and over < step[3]), (0, 0)
        )
        taken = [held.get(victim.node, 0) for held in self._reading.values()]
        if sum(count > 0 for count in taken) < readers or sum(taken) < pages:
            return None
        return self._strike(victim, tally, fleet)

    def _strike(self, victim, tally, fleet):
        before = time.monotonic_ns()
        if self.kind == "kill":
            fleet.kill(victim)
        else:
            fleet.freeze(victim)
        self._moment_ns = (before, time.monotonic_ns())
        until = float("inf") if self.kind == "kill" else before + int(self.freeze_s * 1e9)
        self.span_ns = (before, until)
        self.victim = victim
        self.pages = tally.nodes[victim.node].pool_pages
        return victim
