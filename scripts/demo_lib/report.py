"""What a run says at its end: a page for people, or one JSON object for programs."""

from . import models
from .accounting import percentile
from .display import HEAD, format_us, node_line, share
from .sizing import format_bytes

_READING = ("reading", "exists", "get", "verify")
_WRITING = ("writing", "compute", "set")


def _time_shares(result, names):
    """Returns {name: percent} of the time of one kind of thread.

    "other" is what it was busy with beside the named parts (the engine's own Python), "wait" the
    rest.
    """
    busy, *parts = (sum(node.times[name] for node in result.tally.nodes) for name in names)
    lived = sum(result.lived_ns)
    shares = {name: share(part, lived) for name, part in zip(names[1:], parts)}
    shares["other"] = max(0.0, share(busy - sum(parts), lived))
    shares["wait"] = max(0.0, 100.0 - share(busy, lived))
    return shares


def as_json(result):
    """Returns the run's figures as a dict that JSON can hold."""
    tally, options = result.tally, result.options
    hit_bytes = tally.total("hit_bytes")
    tokens = tally.total("tokens_hit")
    prefetch = tally.prefetch_us()
    figures = {
        "nodes": options.nodes,
        "transport": tally.transport(),
        "requests": tally.total("requests"),
        "pages_requested": tally.total("requested"),
        "pages_hit_own": tally.total("own"),
        "pages_hit_peer": tally.total("peer"),
        "pages_missed": tally.total("missed"),
        "pages_hit_possible": tally.possible,
        "wrong_bytes": tally.total("wrong_bytes"),
        "gigabytes_per_second": round(tally.read_gb_per_s(), 3),
        "prefetch_p50_us": round(percentile(prefetch, 0.50), 1),
        "prefetch_p99_us": round(percentile(prefetch, 0.99), 1),
        "deadline_misses": len(tally.outlived),
        "seconds": round(result.seconds, 3),
        "pages_hit_of_possible": tally.hits_of_possible,
        "pages_not_written": tally.total("not_written"),
        "checked_bytes": tally.total("checked_bytes"),
        "calls": tally.total("calls"),
        "gigabytes_per_second_of_run": round(hit_bytes / result.seconds / 1e9, 3),
        "tokens_not_recomputed": tokens,
        "bytes_not_recomputed": hit_bytes,
        "prefill_seconds_not_spent": round(models.prefill_seconds(result.model, tokens), 3),
        "prefill_assumption": _assumption(result.model),
        "model": result.model.name,
        "layout": options.layout,
        "layers": result.model.layers,
        "scale": result.plan.scale,
        "page_bytes": result.model.page_bytes,
        "pool_bytes": result.plan.pool_bytes,
        "route": options.route,
        "seed": options.seed,
        "trace": options.trace or "generated",
        "interrupted": result.interrupted,
        "failed_engines": result.failures,
        "requests_moved": result.moved,
        "time_percent_reading_thread": _rounded(_time_shares(result, _READING)),
        "time_percent_writing_thread": _rounded(_time_shares(result, _WRITING)),
        "node_counters": result.counters,
    }
    for accident in result.accidents:
        if accident.happened:
            figures["killed" if accident.kind == "kill" else "frozen"] = {
                "node": accident.victim.node,
                "pages": accident.pages,
                "reads_running": accident.reads_running,
            }
    return figures


def _rounded(shares):
    return {name: round(value, 1) for name, value in shares.items()}


def _assumption(model):
    gpus = f"{model.tp_size} GPUs" if model.tp_size > 1 else "one GPU"
    return (
        f"{gpus} at {models.GPU_FLOPS_PER_S / 1e12:.0f} TFLOP/s, "
        f"2 x {model.active_params / 1e9:.1f}e9 operations a token"
    )


def as_text(result):
    """Returns the run's figures for people."""
    figures = as_json(result)
    rows = [
        ("not recomputed", _saved(result, figures)),
        ("hits", _hits(figures)),
        ("wrong bytes", _wrong(result, figures)),
        ("deadlines", _deadlines(result, figures)),
        ("reads", _reads(figures)),
        ("time, reading threads", _shares_text(figures["time_percent_reading_thread"])),
        ("time, writing threads", _shares_text(figures["time_percent_writing_thread"])),
        *(("accident", _accident_text(a)) for a in result.accidents if a.happened),
        *(("failed", text) for text in result.failures),
        *(("log", text) for text in _telling_logs(result, figures)),
        *(("try next", text) for text in _hints(result, figures)),
    ]
    head = f"{figures['requests']:,} requests on {figures['nodes']} nodes in {result.seconds:.1f} s"
    lines = ["", *_nodes(result), "", head]
    last = ""
    for name, text in rows:
        for line in text.split("\n"):
            lines.append(f"  {name if name != last else '':<23}{line}")
            last = name
    return "\n".join(lines)


def _nodes(result):
    """Returns the figures of each node over the whole run."""
    return [HEAD] + [
        node_line(engine.node, engine.state, node, node.gb_per_s())
        for engine, node in zip(result.engines, result.tally.nodes)
    ]


def _telling_logs(result, figures):
    """Returns what the engines logged, if something needs an explanation."""
    possible = figures["pages_hit_possible"]
    lost = figures["pages_hit_of_possible"] < 0.98 * possible or figures["pages_not_written"]
    accident = any(accident.happened for accident in result.accidents)
    known = accident or figures["node_counters"].get("pool_evicted_count", 0)
    return result.logs if (lost and not known) or result.exit_status == 1 else []


def _saved(result, figures):
    model = result.model
    tokens, moved = figures["tokens_not_recomputed"], figures["bytes_not_recomputed"]
    full = moved * model.full_layers // model.layers
    scaled = "" if full == moved else f" (at full depth {format_bytes(full)})"
    return (
        f"{tokens:,} tokens, {share(tokens, result.tokens_requested):.0f} % of those asked: "
        f"{format_bytes(moved)}{scaled}\n"
        f"some {figures['prefill_seconds_not_spent']:.1f} s of prefill; "
        f"assumed: {_assumption(model)}"
    )


def _hits(figures):
    asked = figures["pages_requested"]
    own, peer, missed = (figures[f"pages_{name}"] for name in ("hit_own", "hit_peer", "missed"))
    possible = figures["pages_hit_possible"]
    return (
        f"own pool {share(own, asked):.1f} %, peers {share(peer, asked):.1f} %, "
        f"missed {share(missed, asked):.1f} % of {asked:,} pages\n"
        f"{share(figures['pages_hit_of_possible'], possible):.1f} % of the {possible:,} that were "
        f"possible; "
        f"{share(peer, own + peer):.0f} % of the hits came from peers"
    )


def _wrong(result, figures):
    where = f", first in {result.tally.wrong_where}" if result.tally.wrong_where else ""
    return f"{figures['wrong_bytes']:,} of {figures['checked_bytes']:,} checked{where}"


def _deadlines(result, figures):
    text = f"{figures['deadline_misses']:,} of {figures['calls']:,} calls outlived theirs"
    for node, name, late_ms in result.tally.outlived[:3]:
        text += f"\nnode {node}: {name} returned {late_ms:.0f} ms after its deadline"
    return text


def _reads(figures):
    return (
        f"{figures['gigabytes_per_second']:.1f} GB/s per reading engine "
        f"over {figures['transport']}, "
        f"{figures['gigabytes_per_second_of_run']:.1f} GB/s over the whole run\n"
        f"prefetch of a prompt: p50 {format_us(figures['prefetch_p50_us'])}, "
        f"p99 {format_us(figures['prefetch_p99_us'])}"
    )


def _shares_text(shares):
    return ", ".join(f"{name} {value:.0f} %" for name, value in shares.items())


def _accident_text(accident):
    done = "killed" if accident.kind == "kill" else f"stopped for {accident.freeze_s:g} s"
    return (
        f"node {accident.victim.node} {done} with {accident.pages:,} pages, "
        f"reads from it under way: {accident.reads_running}"
    )


def _hints(result, figures):
    """Returns what is worth a try after this run, most telling first."""
    options = result.options
    hints = []
    evicted = figures["node_counters"].get("pool_evicted_count", 0)
    if evicted:
        pool = format_bytes(figures["pool_bytes"])
        hints.append(f"--pool with more than {pool}: {evicted:,} pages were evicted")
    if options.kill_one_at is None and options.freeze_one_at is None:
        hints.append("--kill-one-at 50%: the fullest node dies while others read from it")
    elif options.freeze_one_at is None:
        hints.append("--freeze-one-at 50%: it is stopped for a while instead")
    if options.route == "turns":
        hints.append("--route sticky: chats stay where their pages are")
    else:
        hints.append("--route turns: chats move, pages follow")
    if options.model != "deepseek-v3":
        hints.append("--model deepseek-v3: one row per token for all heads, so one piece per page")
    elif not options.trace:
        hints.append("--trace FILE: requests of your own service (docs/traces.md)")
    return hints[:3]
