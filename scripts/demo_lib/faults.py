"""The planned accident: one node killed, or stopped for a while, at a share of the work."""

import time

# The moment: a read from the victim begins. At first it must be of so many pages, then any will
# do, at last nothing is waited for. Each step ends by time or by the share of what was left,
# whichever comes first.
_STEPS = ((16, 3.0, 0.2), (1, 10.0, 0.5))


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
        self._reading = {}  # (node, request index) -> pages it takes from each other node
        self._fresh = []  # of those, the ones that begin to read just now

    @property
    def happened(self):
        """Whether it has begun."""
        return self.victim is not None

    def frozen_span(self, engine):
        """Returns when an engine was stopped, or None."""
        return self.span_ns if self.kind == "freeze" and engine is self.victim else None

    def reading(self, engine, request, pages, published, fleet):
        """Notes that a request begins to read the first `pages` of its keys."""
        held = {
            other.node: published.held_by(other.node, request.keys[:pages])
            for other in fleet.up()
            if other is not engine
        }
        self._reading[engine.node, request.index] = held
        self._fresh.append(held)

    def over(self, engine, request, report):
        """Notes that a request is over; counts it if the accident came while it read."""
        held = self._reading.pop((engine.node, request.index), {})
        if self.happened and held.get(self.victim.node):
            before, after = self._moment_ns
            self.reads_running += any(b <= after and e > before for b, e in report["reads"])

    def step(self, progress, tally, fleet):
        """Lets the accident begin or end when it is time. Returns the victim when it just began."""
        fresh, self._fresh = self._fresh, []
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
        needed = next((n for n, wait_s, more in _STEPS if waited < wait_s and over < more), 0)
        if needed and max((held.get(victim.node, 0) for held in fresh), default=0) < needed:
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
