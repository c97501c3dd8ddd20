"""What a run's figures are made of: hits, the hits that were possible, latencies, bytes and time.

Own: read from the node's own pool. Peer: from any other. Possible: pages whose set had returned,
at any node, before this request's exists began, counted as a leading run (a prompt is only reused
from its start).
"""

import bisect
import collections
import math


def percentile(ordered, share):
    """Returns the value below which `share` of a sorted list lies (nearest rank); 0 of none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


class Published:
    """When each page was first published anywhere, and by whom."""

    def __init__(self):
        self._at = {}
        self._holder = {}

    def note(self, node, keys, ok, at_ns):
        """Takes the result of a set call: `ok` has "1" per key that is held now."""
        for key, good in zip(keys, ok):
            if good == "1" and at_ns < self._at.get(key, at_ns + 1):
                self._at[key] = at_ns
                self._holder[key] = node

    def possible(self, keys, before_ns):
        """Returns how many leading keys had been published before a moment."""
        for i, key in enumerate(keys):
            if self._at.get(key, before_ns) >= before_ns:
                return i
        return len(keys)

    def held_by(self, node, keys):
        """Returns how many of the keys a node published first."""
        return sum(self._holder.get(key) == node for key in keys)


class NodeTally:
    """Figures of one node, from the reports of its requests."""

    def __init__(self, page_bytes):
        self._page_bytes = page_bytes
        self.requests = 0
        self.requested = self.own = self.peer = self.missed = 0
        self.tokens_hit = 0
        self.wrong_bytes = self.checked_bytes = 0
        self.not_written = 0
        self.calls = 0
        self.read_ns = 0  # in batch_get_v1 ...
        self.read_bytes = 0  # ... and what that brought
        self.times = collections.Counter()
        self.prefetch_us = []  # sorted; of requests that read something
        self.pool_pages = 0
        self.transports = set()
        self._recent = collections.deque()  # (when_s, bytes, ns)

    def add(self, request, report, now_s, steady):
        """Takes a finished request; not `steady`: under way while its node was frozen."""
        count = len(request.keys)
        hit = report["hit"]
        self.requests += 1
        self.requested += count
        self.own += report["own"]
        self.peer += hit - report["own"]
        self.missed += count - hit
        self.tokens_hit += min(request.tokens, hit * request.tokens // count) if count else 0
        self.wrong_bytes += report["wrong"]
        self.checked_bytes += report["checked"] * self._page_bytes
        self.not_written += report["not_written"]
        self.calls += report["calls"]
        self.pool_pages = report["pool_pages"]
        self.transports.update(report["transports"])
        self.times.update(report["times"])
        if hit and steady:
            read_ns = report["times"]["get"]
            self.read_ns += read_ns
            self.read_bytes += hit * self._page_bytes
            bisect.insort(self.prefetch_us, (read_ns + report["times"]["exists"]) / 1000)
            self._recent.append((now_s, hit * self._page_bytes, read_ns))

    @property
    def hit_bytes(self):
        """Bytes of all hits."""
        return (self.own + self.peer) * self._page_bytes

    def gb_per_s(self):
        """Returns the speed of all reads so far, in GB/s (10^9 bytes per second)."""
        return self.read_bytes / self.read_ns if self.read_ns else 0.0

    def recent_gb_per_s(self, now_s, window_s=2.0):
        """Returns the speed of the latest reads (of the last one, if it is long ago), in GB/s."""
        while len(self._recent) > 1 and self._recent[0][0] < now_s - window_s:
            self._recent.popleft()
        spent = sum(ns for _, _, ns in self._recent)
        return sum(count for _, count, _ in self._recent) / spent if spent else 0.0


class Tally:
    """Figures of a run."""

    def __init__(self, nodes, page_bytes):
        self.nodes = [NodeTally(page_bytes) for _ in range(nodes)]
        self.published = Published()
        self.page_bytes = page_bytes
        self.possible = 0
        self.hits_of_possible = 0
        self.outlived = []  # (node, call, milliseconds late)
        self.wrong_where = ""
        self._unjudged = []  # (exists_at, keys, hit), until all earlier sets are known

    def done(self, node, request, report, now_s, frozen_span):
        """Takes a finished request.

        Args:
            frozen_span: (begin, end) in ns while this node was stopped by us, or None. Its calls'
                clocks went on meanwhile, so calls under way then are not held against the
                deadlines.
        """
        steady = not _overlaps(frozen_span, report["exists_at"], report["reads"])
        self.nodes[node].add(request, report, now_s, steady)
        self._unjudged.append((report["exists_at"], request.keys, report["hit"]))
        self.wrong_where = self.wrong_where or report.get("wrong_where", "")
        for name, begin, end, allowed in report["outlived"]:
            if not (frozen_span and begin < frozen_span[1] and end > frozen_span[0]):
                self.outlived.append((node, name, (end - begin - allowed) / 1e6))

    def judge(self, horizon_ns):
        """Counts possible hits of the requests whose exists began before a moment.

        Args:
            horizon_ns: all set calls that returned before this have been noted.
        """
        later = []
        for item in self._unjudged:
            began, keys, hit = item
            if began >= horizon_ns:
                later.append(item)
                continue
            possible = self.published.possible(keys, began)
            self.possible += possible
            self.hits_of_possible += min(hit, possible)
        self._unjudged = later

    def total(self, name):
        """Returns the sum of a count over all nodes."""
        return sum(getattr(node, name) for node in self.nodes)

    def transport(self):
        """Returns what moved the pages between nodes: one name, several joined by +, or "none"."""
        return "+".join(sorted(set().union(*(node.transports for node in self.nodes)))) or "none"

    def prefetch_us(self):
        """Returns the sorted prefetch times of all nodes, in microseconds."""
        return sorted(us for node in self.nodes for us in node.prefetch_us)

    def read_gb_per_s(self):
        """Returns bytes of hits per second spent in read calls, in GB/s."""
        spent = self.total("read_ns")
        return self.total("read_bytes") / spent if spent else 0.0


def _overlaps(span, begin, reads):
    """Returns whether a span and the time from `begin` to the last read have a moment in common."""
    if span is None:
        return False
    end = reads[-1][1] if reads else begin
    return begin < span[1] and end > span[0]
