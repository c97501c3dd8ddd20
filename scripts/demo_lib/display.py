"""The live view: a line per node and a bar; redrawn in place on a terminal, else now and then."""

import shutil
import time

from .accounting import percentile

REDRAW_S = 0.2
PLAIN_S = 3.0
_STATES = {"up": "", "starting": "starts", "frozen": "FROZEN", "killed": "KILLED", "ended": "ended"}


def format_us(us):
    """Returns a time in microseconds with a unit, three digits or so."""
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    if us >= 1e3:
        return f"{us / 1e3:.1f} ms" if us < 1e5 else f"{us / 1e3:.0f} ms"
    return f"{us:.0f} us"


def share(part, whole):
    """Returns part of whole in percent, 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


def node_line(node, state, tally, speed):
    """Returns the figures of one node, aligned with `HEAD`; `speed` of its reads in GB/s."""
    own, peer, missed = (share(n, tally.requested) for n in (tally.own, tally.peer, tally.missed))
    transport = "+".join(sorted(tally.transports)) or "-"
    times = (percentile(tally.prefetch_us, p) for p in (0.5, 0.99))
    p50, p99 = (format_us(us) if tally.prefetch_us else "-" for us in times)
    return (
        f"node {node:<2}{tally.requests:>8}{own:>6.1f} %{peer:>6.1f} %{missed:>6.1f} %{speed:>6.1f}"
        f"  {transport:<6}{p50:>9}{p99:>9}  {_STATES.get(state, state)}"
    ).rstrip()


HEAD = (
    "       requests     own   peers    miss  GB/s  via   fetch p50      p99"  # 80 columns with all
)


def bar(progress, text, width=24):
    """Returns a progress bar."""
    full = int(progress * width)
    return f"[{'#' * full}{'.' * (width - full)}] {progress * 100:3.0f} %  {text}"


class Display:
    """Writes to a stream; draws only where the stream is a terminal."""

    def __init__(self, stream):
        self._stream = stream
        self._terminal = stream.isatty()
        self._drawn = 0  # lines of the last picture
        self._next_s = 0.0

    def say(self, text=""):
        """Prints lines that stay."""
        self._erase()
        self._stream.write(text + "\n")
        self._stream.flush()
        self._next_s = 0.0

    def _erase(self):
        if self._drawn:
            self._stream.write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0

    def update(self, fleet, tally, progress, text):
        """Shows the present state, if enough time has passed."""
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + (REDRAW_S if self._terminal else PLAIN_S)
        lines = [HEAD] + [
            node_line(engine.node, engine.state, node, node.recent_gb_per_s(now))
            for engine, node in zip(fleet.engines, tally.nodes)
        ]
        if not self._terminal:
            self._stream.write("\n".join([bar(progress, text, 20)] + lines) + "\n")
            self._stream.flush()
            return
        lines.append(bar(progress, text))
        columns = shutil.get_terminal_size().columns
        self._erase()
        self._stream.write("".join(line[: columns - 1] + "\n" for line in lines))
        self._stream.flush()
        self._drawn = len(lines)
