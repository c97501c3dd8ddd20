"""The names of SGLang that the store stands on, or stand-ins for them where SGLang is absent.

Each name degrades on its own: releases differ in what they have. The base class is SGLang's
whenever it can be imported, since its loader accepts nothing else.
"""

import abc
import importlib
import logging

LOGGER = logging.getLogger("peercache")

_STORAGE_MODULE = "sglang.srt.mem_cache.hicache_storage"
_METRICS_MODULES = (
    "sglang.srt.observability.metrics_collector",
    "sglang.srt.metrics.collector",  # where earlier releases have it
)


def _find(module, name):
    """Returns module.name, or None if either is missing or fails to import."""
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        if not (error.name or "").split(".")[0] == "sglang":
            LOGGER.warning("%s cannot be imported: %s", module, error)
    except Exception as error:  # pylint: disable=broad-except
        LOGGER.warning("%s cannot be imported: %s", module, error)
    return None


class _LocalStorage(abc.ABC):
    """Stands for SGLang's HiCacheStorage where there is no SGLang."""

    @abc.abstractmethod
    def get(self, key, target_location=None, target_sizes=None):
        """See PeerCacheStore."""

    @abc.abstractmethod
    def batch_get(self, keys, target_locations=None, target_sizes=None):
        """See PeerCacheStore."""

    @abc.abstractmethod
    def set(self, key, value=None, target_location=None, target_sizes=None):
        """See PeerCacheStore."""

    @abc.abstractmethod
    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        """See PeerCacheStore."""

    @abc.abstractmethod
    def exists(self, key):
        """See PeerCacheStore."""


class _LocalTransferResult:
    """Stands for SGLang's PoolTransferResult where there is no SGLang."""

    def __init__(self, kv_hit_pages, extra_pool_hit_pages, restorable_prefix_pages=None):
        self.kv_hit_pages = kv_hit_pages
        self.extra_pool_hit_pages = extra_pool_hit_pages
        self.restorable_prefix_pages = restorable_prefix_pages


HiCacheStorage = _find(_STORAGE_MODULE, "HiCacheStorage") or _LocalStorage
HAS_SGLANG = HiCacheStorage is not _LocalStorage
PoolTransferResult = (
    _find(_STORAGE_MODULE, "PoolTransferResult") if HAS_SGLANG else None
) or _LocalTransferResult


def find_storage_metrics():
    """Returns SGLang's StorageMetrics class, or None where there is none."""
    if not HAS_SGLANG:
        return None
    for module in _METRICS_MODULES:
        found = _find(module, "StorageMetrics")
        if found is not None:
            return found
    return None


def make_transfer_result(kv_pages, pool_pages, restorable):
    """Returns a PoolTransferResult; releases before 0.5.23 have no `restorable_prefix_pages`."""
    try:
        return PoolTransferResult(kv_pages, pool_pages, restorable)
    except TypeError:
        return PoolTransferResult(kv_pages, pool_pages)
