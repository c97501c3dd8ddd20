"""How much memory a demo run may take, and what page scale and pool size follow from it."""

import dataclasses
import os
import re

GiB = 1 << 30
MiB = 1 << 20
HOST_POOL_PAGES = 320  # a batch of 128 being read, one being written, and some to scatter over
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_bytes(text):
    """Returns the bytes that "1GiB", "512m", "1.5 GB" or "1048576" mean; powers of 1024 throughout.

    Raises:
        ValueError: the text is no size, or not above 0.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b)?\s*", text.lower())
    if not match or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is no size; write for instance 1GiB or 512MiB")
    return int(float(match[1]) * _UNITS[match[2]])


def format_bytes(count):
    """Returns a count of bytes with a binary unit, three digits or so."""
    for unit, size in (("TiB", 1 << 40), ("GiB", GiB), ("MiB", MiB), ("KiB", 1 << 10)):
        if count >= size:
            value = count / size
            digits = 0 if value >= 100 or value == int(value) else 1
            return f"{value:.{digits}f} {unit}"
    return f"{count} B"


def _read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def _cgroup_free(proc="/proc", root="/sys/fs/cgroup"):
    """Returns the bytes left below the tightest memory limit of this process's cgroups, or None."""
    left = []
    for line in _read(f"{proc}/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, limit, usage = root, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit = f"{root}/memory", "memory.limit_in_bytes"
            usage = "memory.usage_in_bytes"
        else:
            continue
        path = path.rstrip("/")
        while True:  # a limit anywhere above counts too
            limit_text = _read(f"{base}{path}/{limit}").strip()
            usage_text = _read(f"{base}{path}/{usage}").strip()
            if limit_text.isdigit() and usage_text.isdigit() and int(limit_text) < 1 << 60:
                stat = dict(row.split() for row in _read(f"{base}{path}/memory.stat").splitlines())
                cache = int(stat.get("inactive_file", 0))  # reclaimed before anything is killed
                left.append(max(0, int(limit_text) - int(usage_text) + cache))
            if not path:
                break
            path = path.rpartition("/")[0]
    return min(left) if left else None


def free_bytes(proc="/proc", root="/sys/fs/cgroup"):
    """Returns what this process and its children may still take: free memory and cgroup limit."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _read(f"{proc}/meminfo"), re.MULTILINE)
    available = (
        int(match[1]) * 1024
        if match
        else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    )
    limit = _cgroup_free(proc, root)
    return available if limit is None else min(available, limit)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run takes.

    Attributes:
        scale: divisor of the layers.
        pool_bytes: each node's published pool.
        host_bytes: each engine's host pool.
        reason: one line that says how these came about.
        fits: whether all distinct pages of the trace fit into the pools.
    """

    scale: int
    pool_bytes: int
    host_bytes: int
    reason: str
    fits: bool

    def total_bytes(self, nodes):
        """Returns the bytes of all pools together."""
        return nodes * (self.pool_bytes + self.host_bytes)


def plan(
    model, nodes, distinct_pages, requested_pages, available, cpus, scale=None, pool_bytes=None
):
    """Chooses scale and pool size.

    Takes at most 40 % of what is available and 8 GiB in all. The scale is the smallest power of
    two with which all distinct pages fit into three quarters of the pools (nodes do not fill
    evenly, and a page may be computed twice) and the run stays short: at most 16 GiB of requested
    pages per core, 64 GiB in all.

    Args:
        model: the unscaled Model.
        nodes: engines.
        distinct_pages, requested_pages: of the trace; of the part that is known if it has no end.
        available: bytes, from `free_bytes`.
        cpus: cores this process may use.
        scale, pool_bytes: given by the user, or None.

    Raises:
        ValueError: the pools that were asked for do not fit into the memory.
    """
    budget = min(8 * GiB, available * 2 // 5)
    traffic = min(64 * GiB, 16 * GiB * cpus)
    steps = [1]
    while steps[-1] < model.full_layers:
        steps.append(steps[-1] * 2)
    for step in [scale] if scale else steps:
        page = model.scaled(step).page_bytes
        host = HOST_POOL_PAGES * page
        room = pool_bytes or max(0, budget // nodes - host)
        need = distinct_pages * page
        fits = need <= nodes * room * 3 // 4
        if fits and (requested_pages * page <= traffic):
            break
    pool = pool_bytes or _round_pool(min(room, max(64 * page, need * 4 // 3 // nodes)))
    total = nodes * (pool + host)
    if total > available * 9 // 10:
        raise ValueError(
            f"{nodes} nodes with pools of {format_bytes(pool)} and host pools of "
            f"{format_bytes(host)} need {format_bytes(total)}, but only {format_bytes(available)} "
            "are free; take fewer --nodes, a smaller --pool or a larger --scale"
        )
    how = "as asked" if scale else "chosen to fit memory and a short run"
    reason = (
        f"scale {step} ({how}): {model.scaled(step).layers} of {model.full_layers} layers, "
        f"{format_bytes(page)} a page instead of {format_bytes(model.full_page_bytes)}; "
        f"{format_bytes(available)} free, {format_bytes(total)} taken"
    )
    return Plan(step, pool, host, reason, fits)


def _round_pool(count):
    """Returns the bytes rounded up to 64 MiB, so that the number reads well."""
    return max(64 * MiB, -(-count // (64 * MiB)) * 64 * MiB)
