"""Shared by the tests of the bindings: small nodes, and the demo's host pool."""

import itertools
import pathlib
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from demo_lib.host_pool import LAYOUTS, HostPool  # noqa: E402

#: Every layout that each kind of pool can have.
POOL_SHAPES = [
    (kind, layout)
    for kind, layout in itertools.product(("mha", "mla"), LAYOUTS)
    if (kind, layout) != ("mla", "page_head")
]


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: left out by scripts/test --quick")


def small_options(directory, **more):
    """Options of a node that needs little memory and no one else."""
    options = {
        "pool_bytes": 16 << 20,
        "memory_headroom_bytes": 0,
        "huge_pages": "off",
        "runtime_dir": str(directory),
        "start_timeout_ms": 5000,
    }
    options.update(more)
    return options


def small_pool(kind="mha", layout="page_first", **more):
    """A host pool of 6 pages of 4 tokens, 3 layers."""
    shape = {"page_size": 4, "page_num": 6, "layer_num": 3, "head_num": 2, "head_dim": 32}
    shape.update(more)
    return HostPool(kind, layout, **shape)


def page_keys(count, start=0):
    """Keys as SGLang makes them: 64 hexadecimal characters."""
    return ["%064x" % (0xABC000 + start + i) for i in range(count)]


@pytest.fixture
def runtime_dir():
    """A directory for sockets, with a path short enough for them."""
    with tempfile.TemporaryDirectory(prefix="pc-", dir="/tmp") as path:
        yield path


@pytest.fixture
def node(runtime_dir):
    """A node alone."""
    import peercache

    with peercache.Node(small_options(runtime_dir)) as opened:
        yield opened


@pytest.fixture
def store(runtime_dir):
    """A store alone, with a registered MHA pool."""
    from peercache.store import PeerCacheStore

    made = PeerCacheStore(None, small_options(runtime_dir, interface_v1=1))
    made.register_mem_pool_host(small_pool())
    yield made
    made.close()
