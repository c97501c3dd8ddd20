"""Requests that wait for an engine."""

import collections
import time

READ_AHEAD = 64  # requests per node that wait for their turn
# A chat's next turn comes no sooner than this after the one before it. People take seconds; without
# any pause many turns would be asked within a millisecond, before the directory hears of the last.
THINK_S = 0.1


class WorkQueue:
    """Requests in the trace's order, waiting at the node they were assigned to.

    A request that begins like one that is being worked on for the first time waits for it, as in
    schedulers that share prefixes: else all first turns of an assistant would compute its prompt.

    A request waits until the one it follows is over. Those of a node that is down go to the next
    that is up.
    """

    def __init__(self, source, router, nodes, clock=time.monotonic):
        self._source = source
        self._router = router
        self._waiting = [collections.deque() for _ in range(nodes)]
        self._over = {}  # request index -> when, in seconds
        self._begun = {}  # first key -> when its first request was over, or None: under way
        self._clock = clock
        self.exhausted = False
        self.moved = 0

    def __len__(self):
        return sum(map(len, self._waiting))

    def note_over(self, request):
        """Lets the requests that follow this one go."""
        now = self._clock()
        self._over[request.index] = now
        if self._begun.get(request.keys[0], now) is None:
            self._begun[request.keys[0]] = now

    def _fill(self):
        while not self.exhausted and len(self) < READ_AHEAD * len(self._waiting):
            request = next(self._source, None)
            if request is None:
                self.exhausted = True
            else:
                self._waiting[self._router.assign(request)].append(request)

    def next_for(self, node):
        """Returns a request that `node` may start now, or None."""
        self._fill()
        line = self._waiting[node]
        latest = self._clock() - THINK_S
        for i, request in enumerate(line):
            if self._is_ready(request, latest):
                del line[i]
                self._begun.setdefault(request.keys[0], None)
                return request
        return None

    def _is_ready(self, request, latest):
        """Returns whether what the request waits for was over at a moment."""
        over = [self._begun.get(request.keys[0], latest)]
        if request.after >= 0:
            over.append(self._over.get(request.after))
        return all(when is not None and when <= latest for when in over)

    def put_back(self, requests, node):
        """Takes requests that a node did not finish; they are the first of its line again."""
        for request in requests:
            if self._begun.get(request.keys[0], 0.0) is None:
                del self._begun[request.keys[0]]
        self._waiting[node].extendleft(reversed(requests))

    def move_away(self, node, up):
        """Spreads a node's line over the nodes that are up, each in the trace's order."""
        line = self._waiting[node]
        if not up or not line:
            return
        self.moved += len(line)
        targets = set()
        while line:
            request = line.popleft()
            target = up[request.index % len(up)]
            self._waiting[target].append(request)
            targets.add(target)
        for target in targets:
            self._waiting[target] = collections.deque(
                sorted(self._waiting[target], key=lambda request: request.index)
            )

    def drop(self):
        """Forgets all that has not been handed out."""
        self.exhausted = True
        for line in self._waiting:
            line.clear()
