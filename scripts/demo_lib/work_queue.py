"""Requests that wait for an engine."""

import collections

READ_AHEAD = 64  # requests per node that wait for their turn


class WorkQueue:
    """Requests in the trace's order, waiting at the node they were assigned to.

    A request waits until the one it follows is over. Those of a node that is down go to the next
    that is up.
    """

    def __init__(self, source, router, nodes):
        self._source = source
        self._router = router
        self._waiting = [collections.deque() for _ in range(nodes)]
        self._over = set()
        self.exhausted = False
        self.moved = 0

    def __len__(self):
        return sum(map(len, self._waiting))

    def note_over(self, request):
        """Lets the requests that follow this one go."""
        self._over.add(request.index)

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
        for i, request in enumerate(line):
            if request.after < 0 or request.after in self._over:
                del line[i]
                return request
        return None

    def put_back(self, requests, node):
        """Takes requests that a node did not finish; they are the first of its line again."""
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
