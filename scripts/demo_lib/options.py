"""The demo's command line. Standard library only, so that --help needs nothing installed."""

import argparse

from . import models, routing, sizing

_ABOUT = """\
Runs several serving engines on this machine, without a model and without a GPU. Each
is a process with a host pool shaped like SGLang HiCache's and the real PeerCacheStore. They replay
chat-like requests: an engine looks the prompt's pages up, reads those that any node holds straight
into its host pool, checks every byte, makes up ("computes") the missing ones and publishes them
for the others.

Nothing needs to be prepared: on a fresh Debian 12, scripts/demo installs what is missing, builds,
and runs.
"""

_EXAMPLES = """\
what you see
  A line per node while it runs: requests, where their pages came from (own pool, other nodes'
  pools, nowhere), the speed of its reads and what carried them, and how long a prefetch (look-up
  and reads of a whole prompt) took. At the end: the work that was saved, hits against those that
  were possible, wrong bytes (there must be none), and where the time went.

examples
  scripts/demo                              four nodes, generated chats, under a minute
  scripts/demo --model deepseek-v3          one piece per page (MLA) instead of K and V
  scripts/demo --route sticky               each chat stays with its node: fewer hits from peers
  scripts/demo --kill-one-at 50%            the fullest node dies halfway, while others read from it
  scripts/demo --freeze-one-at 30%          ... or is stopped for some seconds and goes on
  scripts/demo --trace requests.jsonl       replays a file (form: docs/traces.md)
  scripts/demo --seconds 300 --pool 256MiB  small pools under load for five minutes: evictions
  scripts/demo --json > result.json         for programs; the live view goes to stderr

exit status
  0 all well   1 a wrong byte, a call that outlived its deadline, or an engine that failed
  2 bad arguments or too little memory   130 Ctrl-C
"""


def _percent(text):
    """Returns the share (0 to 1) that "50%" or "50" means."""
    try:
        value = float(text.rstrip("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no share of the run; write for instance 50%")
    return value / 100


def _size(text):
    try:
        return sizing.parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _whole(low):
    def parse(text):
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {low}")
        return value

    return parse


def _seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def _model_names():
    return ", ".join(models.MODELS)


def parser():
    """Returns the parser of the command line."""
    p = argparse.ArgumentParser(
        prog="scripts/demo",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    group = p.add_argument_group("engines")
    group.add_argument("--nodes", type=_whole(1), default=4, metavar="N", help="engines (4)")
    group.add_argument(
        "--model",
        choices=models.MODELS,
        default="llama3-8b",
        metavar="NAME",
        help=f"whose page geometry (llama3-8b); one of {_model_names()}",
    )
    group.add_argument(
        "--layout",
        choices=("page_first", "page_first_direct", "layer_first", "page_head"),
        default="page_first",
        metavar="NAME",
        help="of the host pools (page_first); or page_first_direct, layer_first, page_head",
    )
    group.add_argument(
        "--scale",
        type=_whole(1),
        metavar="N",
        help="divide the layers by this, so that pages fit this machine (chosen and shown)",
    )
    group.add_argument(
        "--pool", type=_size, metavar="SIZE", help="each node's pool, like 1GiB (chosen and shown)"
    )
    group = p.add_argument_group("requests")
    group.add_argument(
        "--requests",
        metavar="N",
        help="how many (1000; with --seconds no limit), or all for a whole trace file",
    )
    group.add_argument("--seconds", type=_seconds, metavar="S", help="stop after this time")
    group.add_argument("--trace", metavar="FILE", help="replay JSONL instead of generated chats")
    group.add_argument(
        "--route",
        choices=routing.POLICIES,
        default="turns",
        metavar="POLICY",
        help="; ".join(f"{name}: {what}" for name, what in routing.POLICIES.items()) + " (turns)",
    )
    group.add_argument(
        "--seed", type=_whole(0), default=1, metavar="N", help="of the chats and the routing (1)"
    )
    group = p.add_argument_group("accidents, to the node with most pages while others read from it")
    group.add_argument("--kill-one-at", type=_percent, metavar="P%", help="kill it (SIGKILL)")
    group.add_argument("--freeze-one-at", type=_percent, metavar="P%", help="stop it (SIGSTOP) ...")
    group.add_argument(
        "--freeze-for", type=_seconds, default=3.0, metavar="S", help="... and thaw it after (3)"
    )
    group = p.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    return p


def parse(arguments):
    """Returns the checked options; prints and exits with status 2 where they make no sense."""
    p = parser()
    options = p.parse_args(arguments)
    if options.requests is None:
        options.requests = None if options.seconds else 1000
    elif options.requests == "all":
        if not options.trace:
            p.error("--requests all: generated chats have no end; give a number or --seconds")
    else:
        try:
            options.requests = _whole(1)(options.requests)
        except argparse.ArgumentTypeError as error:
            p.error(f"argument --requests: {error}")
    accidents = (options.kill_one_at is not None) + (options.freeze_one_at is not None)
    if options.nodes <= accidents:
        p.error(f"--nodes {options.nodes}: an accident needs another node that goes on")
    layouts = models.MODELS[options.model].layouts()
    if options.layout not in layouts:
        possible = ", ".join(layouts)
        p.error(f"--layout {options.layout} is not possible for {options.model}: {possible}")
    return options
