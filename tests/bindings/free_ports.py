"""Ports of the loopback interface that nobody uses at the moment."""

import contextlib
import socket


def free_ports(count):
    """Returns that many different port numbers."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
