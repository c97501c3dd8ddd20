"""Which engine gets which request.

`turns` is there to make pages travel: a serving cluster whose router knows nothing of caches does
the same. All policies decide in the trace's order from the trace alone, so a run's routing repeats
with its seed.
"""

import random

POLICIES = {
    "turns": "a conversation's turns go to different engines, away from its own pages",
    "sticky": "a conversation stays with one engine",
    "random": "any engine, by the seed",
    "round-robin": "one after the other",
}


class Router:
    """Assigns requests to nodes.

    `turns` never gives a turn to the node of the turn before; of the others it takes the one that
    holds fewest of the prompt's pages, as long as that node has no more than its share of the
    work. With two nodes the first rule would bring every other turn back to the chat's own pages,
    so only the second one holds there.
    """

    def __init__(self, policy, nodes, seed):
        if policy not in POLICIES:
            raise ValueError(f"no routing policy {policy!r}; there are {', '.join(POLICIES)}")
        self._policy = policy
        self._nodes = nodes
        self._rng = random.Random(f"peercache route {seed}")
        self._holder = {}  # key -> node that computes it first, if all goes by the book
        self._last = {}  # conversation -> node of its latest turn
        self._work = [0] * nodes  # pages assigned

    def assign(self, request):
        """Returns the node of a request; call it once for each, in the trace's order."""
        if self._policy == "sticky":
            node = request.conversation % self._nodes
        elif self._policy == "round-robin":
            node = request.index % self._nodes
        elif self._policy == "random":
            node = self._rng.randrange(self._nodes)
        else:
            node = self._away_from_pages(request)
        return node

    def _away_from_pages(self, request):
        held = [0] * self._nodes
        for key in request.keys:
            holder = self._holder.get(key)
            if holder is not None:
                held[holder] += 1
        candidates = list(range(self._nodes))
        last = self._last.get(request.conversation)
        if self._nodes > 2 and last is not None:
            candidates.remove(last)
        share = sum(self._work) / self._nodes
        limit = share * 1.1 + 4 * len(request.keys)
        fit = [n for n in candidates if self._work[n] <= limit] or candidates
        node = min(fit, key=lambda n: (held[n], self._work[n], n))
        self._last[request.conversation] = node
        self._work[node] += len(request.keys)
        for key in request.keys:
            self._holder.setdefault(key, node)
        return node
