"""What the C++ core needs from the process: where logs go, and word before the interpreter ends."""

import atexit
import logging
import os

from . import _native

LOGGER = logging.getLogger("peercache")

# A node leaves its cluster within 5 s even when peers are dead; then threads inside calls return.
_EXIT_SECONDS = 8.0

_installed_pid = None


def _handle(level, file, line, created, thread_id, text):
    """Passes one record of the C++ log on; runs on its log thread, nobody waits for it."""
    if not LOGGER.isEnabledFor(level):
        return
    record = LOGGER.makeRecord(LOGGER.name, level, file, line, text, (), None)
    record.created = created
    record.msecs = (created - int(created)) * 1000
    record.thread = thread_id
    record.threadName = "peercache"
    LOGGER.handle(record)


def _at_exit():
    if os.getpid() == _installed_pid:  # a forked child has neither our threads nor our nodes
        _native._shutdown(_EXIT_SECONDS)


def install():
    """Sends the C++ log to the logger `peercache`; closes all nodes before the interpreter ends.

    Threads: the log handler runs on a thread of its own, which alone waits for the GIL.
    Source: bindings/bind_process.cc.
    """
    global _installed_pid
    if _installed_pid is None:
        _installed_pid = os.getpid()
        _native._set_log_handler(_handle)
        atexit.register(_at_exit)


def set_log_level(level):
    """Sets the level of the logger `peercache` and of the C++ log.

    Args:
        level: "debug", "info", "warning", "error" or "off".

    Raises:
        ConfigError: another name.

    Source: set_log_level in dataplane/base/log.h.
    """
    _native._set_log_level(level)
    numbers = {"debug": 10, "info": 20, "warning": 30, "error": 40, "off": 60}
    LOGGER.setLevel(numbers[level])


def add_log_file(path):
    """Also appends the records of the logger `peercache` to a file, once per path.

    Args:
        path: file to append to; made if absent.

    Raises:
        OSError: it cannot be opened.
    """
    full = os.path.abspath(path)
    for handler in LOGGER.handlers:
        if isinstance(handler, logging.FileHandler) and handler.baseFilename == full:
            return
    handler = logging.FileHandler(full)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(filename)s:%(lineno)d %(message)s")
    )
    LOGGER.addHandler(handler)
