"""The engine processes: started, talked to, killed, frozen, thawed and always ended."""

import collections
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

_ENGINE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "engine.py")
START_S = 60.0  # a node itself waits at most 30 s for the others
CLOSE_S = 8.0  # a store closes within 5 s


class FleetError(RuntimeError):
    """Engines that do not start or end when nobody asked them to; the text says which and why."""


class Engine:
    """One engine process as its parent sees it.

    Attributes:
        state: "starting", "up", "frozen", "killed", "ended" or "failed".
        inflight: requests sent and not reported done, by index, oldest first.
    """

    def __init__(self, node, process, log_path):
        self.node = node
        self.process = process
        self.log_path = log_path
        self.state = "starting"
        self.inflight = collections.OrderedDict()
        self.incoming = b""
        self.outgoing = b""
        self.error = ""
        self.ready = {}
        self.bye = None
        self.gone = False  # the process ended and all it wrote was read

    def log_tail(self, lines=12):
        """Returns the last lines the engine wrote."""
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as file:
                return "".join(file.readlines()[-lines:]).rstrip()
        except OSError:
            return ""


def free_ports(count):
    """Returns loopback ports that nobody listens on now."""
    holders = []
    try:
        for _ in range(count):
            holder = socket.socket()
            holders.append(holder)
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]
    finally:
        for holder in holders:
            holder.close()


class Fleet:
    """All engines of a run. Use as a context manager: leaving it ends every process.

    Args:
        configs: one configuration (engine.py) per engine.
    """

    def __init__(self, configs):
        self._configs = configs
        self._selector = selectors.DefaultSelector()
        self._log_dir = None
        self.engines = []

    def __enter__(self):
        self._log_dir = tempfile.mkdtemp(prefix="peercache-demo-")
        return self

    def __exit__(self, *_):
        self.close()

    def launch(self):
        """Starts the processes; they report "ready" in `poll`."""
        for node, config in enumerate(self._configs):
            log_path = os.path.join(self._log_dir, f"engine-{node}.log")
            with open(log_path, "wb") as log:
                process = subprocess.Popen(
                    [sys.executable, _ENGINE, str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,  # a terminal's Ctrl-C is for the parent alone
                )
            engine = Engine(node, process, log_path)
            self.engines.append(engine)
            os.set_blocking(process.stdin.fileno(), False)
            os.set_blocking(process.stdout.fileno(), False)
            self._selector.register(process.stdout, selectors.EVENT_READ, engine)
            self.send(engine, config)

    def send(self, engine, message):
        """Queues one object for an engine; never blocks, even when the engine is frozen."""
        engine.outgoing += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self._write(engine)

    def _write(self, engine):
        pipe = engine.process.stdin
        try:
            while engine.outgoing:
                sent = os.write(pipe.fileno(), engine.outgoing)
                engine.outgoing = engine.outgoing[sent:]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            engine.outgoing = b""  # its end is seen on the other pipe
        wanted = bool(engine.outgoing)
        if wanted != (pipe in self._selector.get_map()):
            if wanted:
                self._selector.register(pipe, selectors.EVENT_WRITE, engine)
            else:
                self._selector.unregister(pipe)

    def poll(self, timeout_s):
        """Returns [(engine, message)] that arrived; waits at most `timeout_s` for the first.

        A process that ended gives a last message {"t": "end"}, after all it wrote.
        """
        messages = []
        for key, _ in self._selector.select(timeout_s):
            engine = key.data
            if key.fileobj is engine.process.stdin:
                self._write(engine)
            else:
                self._read(engine, messages)
        return messages

    def _read(self, engine, messages):
        try:
            data = os.read(engine.process.stdout.fileno(), 1 << 20)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(engine.process.stdout)
            if engine.process.stdin in self._selector.get_map():
                self._selector.unregister(engine.process.stdin)
            engine.process.wait()
            engine.gone = True
            self._note_end(engine)
            messages.append((engine, {"t": "end"}))
            return
        *lines, engine.incoming = (engine.incoming + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["t"] == "error":
                engine.error = message["text"]
            elif message["t"] == "ready":
                engine.ready = message
                engine.state = "up"
            elif message["t"] == "bye":
                engine.bye = message["stats"]
            messages.append((engine, message))

    @staticmethod
    def _note_end(engine):
        if engine.state == "killed":
            return
        engine.state = "ended" if engine.bye is not None else "failed"
        if engine.state == "failed" and not engine.error:
            code = engine.process.returncode
            engine.error = f"ended by signal {-code}" if code < 0 else f"ended with status {code}"

    def up(self):
        """Returns the engines that take requests."""
        return [engine for engine in self.engines if engine.state == "up"]

    def kill(self, engine):
        """Ends an engine at once, as a crash does."""
        engine.state = "killed"
        engine.process.kill()

    def freeze(self, engine):
        """Stops an engine where it is (SIGSTOP)."""
        engine.state = "frozen"
        engine.process.send_signal(signal.SIGSTOP)

    def thaw(self, engine):
        """Lets a frozen engine go on."""
        engine.process.send_signal(signal.SIGCONT)
        engine.state = "up"

    def finish(self):
        """Asks all engines to stop and waits for their last words; kills those that do not."""
        for engine in self.engines:
            if engine.state == "frozen":
                self.thaw(engine)
            if engine.state in ("up", "starting"):
                self.send(engine, {"t": "stop"})
        end = time.monotonic() + CLOSE_S
        messages = []
        while time.monotonic() < end and not all(engine.gone for engine in self.engines):
            messages += self.poll(0.1)
        return messages

    def close(self):
        """Ends whatever still runs, now. Idempotent."""
        for engine in self.engines:
            if engine.process.poll() is None:
                engine.process.kill()  # works on a stopped process too
        for engine in self.engines:
            engine.process.wait()
            engine.process.stdin.close()
            engine.process.stdout.close()
        self._selector.close()
        if self._log_dir:
            shutil.rmtree(self._log_dir, ignore_errors=True)
            self._log_dir = None
