"""`Node`: one PeerCache instance, without a word of any serving engine."""

import json

from . import _native, _process

# Options of the binding itself; all others are fields of NodeOptions (controlplane/node).
_OWN_OPTIONS = {"namespace": "", "log_level": None, "log_file": None}


class Node(_native.Node):
    """One PeerCache instance: publishes objects into its own pool, finds and reads those of others.

    Keys are str or bytes, one or a list of them. They are hashed under the option `namespace`, so
    nodes with different namespaces never see each other's objects.

    Buffers: one entry per key; an entry is a buffer or a list of buffers, its pieces in order. A
    buffer is an object with the buffer protocol in C order (bytes, bytearray, memoryview, numpy), a
    contiguous CPU tensor, or a pair (address, bytes) of integers, which must stay valid for the
    call. A single buffer for a list of keys is cut into equal parts.

    Threads: every method may be called from any thread, and gives the GIL away while it works.

    Source: Node in controlplane/node/node.h.
    """

    def __init__(self, options=None, **more):
        """Starts a node; waits up to `start_timeout_ms` for the members, then runs alone.

        Args:
            options: dict of options, by their names in controlplane/node/node_options.h; added are
                `namespace` (str, default ""), `log_level` ("debug", "info", "warning", "error",
                "off") and `log_file` (path).
            more: the same by keyword; a key in both is an error.

        Raises:
            ConfigError: unknown key, wrong type, value out of range.
            PeerCacheError: the node cannot start; the message says what to do.

        Threads: blocking, GIL released; Ctrl-C interrupts.
        Source: Node::open.
        """
        merged = dict(options or {})
        for name, value in more.items():
            if name in merged:
                raise _native.ConfigError("option %s is given twice" % name)
            merged[name] = value
        own = {name: merged.pop(name, default) for name, default in _OWN_OPTIONS.items()}
        if not isinstance(own["namespace"], str):
            raise _native.ConfigError("namespace must be a str, not %r" % (own["namespace"],))
        if own["log_level"] is not None:
            _process.set_log_level(own["log_level"])
        if own["log_file"] is not None:
            _process.add_log_file(own["log_file"])
        try:
            text = json.dumps(merged)
        except TypeError as error:
            raise _native.ConfigError("options must be JSON values: %s" % error) from None
        super().__init__(text, own["namespace"])

    def __enter__(self):
        """Returns the node; leaving the block closes it."""
        return self

    def __exit__(self, *exc_info):
        """Closes the node."""
        self.close()
