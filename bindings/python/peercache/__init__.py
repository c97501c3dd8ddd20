"""PeerCache: a peer-to-peer KV cache for LLM inference.

`Node` is the cache itself; `peercache.store.PeerCacheStore` drives it from SGLang HiCache.
"""

from . import _process  # first: log handler and orderly exit
from ._native import (
    ArgumentError,
    CallError,
    ConfigError,
    DirectoryError,
    EngineError,
    HardwareError,
    KeyStatus,
    PeerCacheError,
    PoolError,
    Statuses,
    TierError,
    TransportError,
    WireError,
    __version__,
)
from .node import Node

__all__ = [
    "ArgumentError",
    "CallError",
    "ConfigError",
    "DirectoryError",
    "EngineError",
    "HardwareError",
    "KeyStatus",
    "Node",
    "PeerCacheError",
    "PoolError",
    "Statuses",
    "TierError",
    "TransportError",
    "WireError",
    "__version__",
]

_process.install()
