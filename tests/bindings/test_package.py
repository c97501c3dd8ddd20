"""The package: imports alone, is typed, stands on SGLang's classes when they are there, ends well."""

import ast
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import ROOT, small_options

import peercache
from peercache import _native, store

PACKAGE = pathlib.Path(peercache.__file__).parent

SGLANG = """
    import abc, dataclasses, sys, types
    class HiCacheStorage(abc.ABC):
        get = abc.abstractmethod(lambda self: None)
        batch_get = abc.abstractmethod(lambda self: None)
        set = abc.abstractmethod(lambda self: None)
        batch_set = abc.abstractmethod(lambda self: None)
        exists = abc.abstractmethod(lambda self: None)
    @dataclasses.dataclass
    class StorageMetrics:
        prefetch_pgs: list
        backup_pgs: list
        prefetch_bandwidth: list
        backup_bandwidth: list
    class PoolTransferResult:
        def __init__(self, kv_hit_pages, extra_pool_hit_pages):
            self.kv_hit_pages, self.extra_pool_hit_pages = kv_hit_pages, extra_pool_hit_pages
    def module(name, **names):
        made = sys.modules[name] = types.ModuleType(name)
        made.__path__ = []
        made.__dict__.update(names)
    for name in ("sglang", "sglang.srt", "sglang.srt.mem_cache", "sglang.srt.observability"):
        module(name)
    module("sglang.srt.mem_cache.hicache_storage", HiCacheStorage=HiCacheStorage,
           PoolTransferResult=PoolTransferResult)
    module("sglang.srt.observability.metrics_collector", StorageMetrics=StorageMetrics)
"""


def run_python(code, *arguments, timeout=60):
    """Runs a program in a fresh interpreter; returns its exit status and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        cwd=str(ROOT / "tests" / "bindings"),
        env={"PYTHONPATH": str(PACKAGE.parent), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    return done.returncode, done.stdout


def test_it_imports_where_nothing_else_is_installed():
    status, text = run_python("""
        import sys
        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("numpy", "torch", "sglang"):
                    raise ModuleNotFoundError(name, name=name)
        sys.meta_path.insert(0, Absent())
        import peercache, peercache.store
        assert not {"numpy", "torch", "sglang"} & set(sys.modules)
        print(peercache.__version__)
        """)
    assert status == 0 and text.strip() == peercache.__version__


def test_it_needs_no_library_but_libc():
    status = subprocess.run(
        ["readelf", "-d", _native.__file__], stdout=subprocess.PIPE, text=True, check=True
    )
    needed = [
        line.split("[")[1].rstrip("]") for line in status.stdout.splitlines() if "NEEDED" in line
    ]
    assert {name.split(".")[0] for name in needed} <= {
        "libc",
        "libm",
        "libpthread",
        "ld-linux-x86-64",
    }


def test_the_source_keeps_to_python_3_9():
    for path in PACKAGE.glob("*.py*"):
        if path.suffix in (".py", ".pyi"):
            ast.parse(path.read_text(), str(path), feature_version=(3, 9))


def test_it_is_typed():
    assert (PACKAGE / "py.typed").exists()
    for module in (_native, store):
        stub = PACKAGE / (module.__name__.split(".")[-1] + ".pyi")
        tree = ast.parse(stub.read_text())
        stated = {}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                inner = (ast.FunctionDef, ast.AnnAssign)
                stated[node.name] = {
                    getattr(item, "name", None) or item.target.id
                    for item in node.body
                    if isinstance(item, inner)
                }
        for name, thing in vars(module).items():
            if isinstance(thing, type) and thing.__module__ in (module.__name__, "peercache"):
                assert name in stated, "%s has no %s" % (stub.name, name)
                public = {key for key in vars(thing) if not key.startswith("_")}
                assert public <= stated[name], (name, public - stated[name])


def test_every_public_thing_is_documented():
    for thing in (peercache, peercache.Node, store, store.PeerCacheStore):
        assert thing.__doc__
    for kind in (store.PeerCacheStore, peercache.Node, _native.Node):
        for name, method in vars(kind).items():
            if not name.startswith("_") and callable(method):
                assert "\n" in method.__doc__.strip() or method.__doc__.endswith("."), name


def test_without_sglang_the_store_stands_on_its_own_base():
    assert store.PeerCacheStore.__mro__[1].__name__ in ("_LocalStorage", "HiCacheStorage")


def test_with_sglang_the_store_is_its_storage(runtime_dir):
    status, text = run_python(
        SGLANG + """
    import json, types
    from conftest import page_keys, small_pool
    from peercache.store import PeerCacheStore
    assert issubclass(PeerCacheStore, HiCacheStorage)
    config = types.SimpleNamespace(extra_config=json.loads(sys.argv[1]), enable_storage_metrics=True)
    store = PeerCacheStore(config, {})
    pool = small_pool()
    store.register_mem_pool_host(pool)
    keys, indices = page_keys(3), pool.page_indices([0, 1, 2])
    assert store.get_stats() == StorageMetrics([], [], [], [])
    assert store.batch_set_v1(keys, indices) == [True] * 3
    assert store.batch_get_v1(keys[:2], indices[:8]) == [True] * 2
    stats = store.get_stats()
    assert isinstance(stats, StorageMetrics)
    assert stats.prefetch_pgs == [2] and stats.backup_pgs == [3]
    assert stats.prefetch_bandwidth[0] > 0 and stats.backup_bandwidth[0] > 0
    assert store.get_stats() == StorageMetrics([], [], [], [])
    result = store.batch_exists_v2(keys)
    assert isinstance(result, PoolTransferResult) and result.kv_hit_pages == 3
    store.close()
    print("done")
    """,
        __import__("json").dumps(small_options(runtime_dir)),
    )
    assert status == 0 and text.strip().endswith("done"), text


def test_logging_costs_no_call_its_time(runtime_dir):
    """A log handler that hangs holds up neither calls nor the end of the program."""
    status, text = run_python(
        """
        import logging, sys, threading, time
        import peercache
        from conftest import small_options
        entered = threading.Event()
        class Slow(logging.Handler):
            def emit(self, record):
                entered.set()
                time.sleep(2)
        logger = logging.getLogger("peercache")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(Slow())
        node = peercache.Node(small_options(sys.argv[1]), log_level="debug")
        peercache._native._write_log("a line")
        assert entered.wait(10)
        since = time.monotonic()
        node.put("k", b"x" * 4096)
        assert node.exists("k")
        assert time.monotonic() - since < 1
        print("done")
        """,
        str(runtime_dir),
    )
    assert status == 0 and text.strip().endswith("done"), text


def test_ctrl_c_ends_the_wait_for_the_cluster(runtime_dir):
    status, text = run_python(
        """
        import signal, sys, threading, time
        import peercache
        from conftest import small_options
        from free_ports import free_ports
        ports = free_ports(2)
        options = small_options(sys.argv[1], members=["127.0.0.1:%d" % port for port in ports])
        options.update(control_port=ports[0], start_timeout_ms=30000)
        main = threading.main_thread().ident
        threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT)).start()
        since = time.monotonic()
        try:
            peercache.Node(options)
        except KeyboardInterrupt:
            print("interrupted" if time.monotonic() - since < 5 else "late")
        """,
        str(runtime_dir),
    )
    assert status == 0 and text.strip().endswith("interrupted"), text


@pytest.mark.parametrize("close", [True, False])
def test_the_interpreter_ends_while_threads_are_in_calls(runtime_dir, close):
    status, text = run_python(
        """
        import sys, threading, time
        import peercache
        from conftest import small_options
        node = peercache.Node(small_options(sys.argv[1]))
        def work(number):
            data = bytearray(1 << 20)
            keys = ["%d-%d" % (number, i) for i in range(4)]
            while True:
                try:
                    node.put(keys, [data] * 4)
                    node.exists(keys)
                    node.get(keys, [data] * 4)
                except peercache.CallError:
                    pass
        for number in range(4):
            threading.Thread(target=work, args=(number,), daemon=True).start()
        time.sleep(0.3)
        if sys.argv[2] == "True":
            node.close()
        print("done")
        """,
        str(runtime_dir),
        str(close),
    )
    assert status == 0 and "done" in text, text


def test_a_forked_child_gets_errors_and_ends(runtime_dir):
    status, text = run_python(
        """
        import os, sys
        import peercache
        from conftest import small_options
        node = peercache.Node(small_options(sys.argv[1]))
        node.put("k", b"x" * 4096)
        child = os.fork()
        if child == 0:
            try:
                node.exists("k")
            except peercache.CallError as error:
                sys.exit(17 if error.reason == "used after fork" else 18)
            sys.exit(19)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 17, status
        assert node.exists("k")
        node.close()
        print("done")
        """,
        str(runtime_dir),
    )
    assert status == 0 and text.strip().endswith("done"), text
