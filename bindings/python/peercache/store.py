"""`PeerCacheStore`: SGLang HiCache's L3 storage backend over a PeerCache node.

Started by the `dynamic` path: --hicache-storage-backend dynamic with the extra config
{"backend_name": "peercache", "module_path": "peercache.store", "class_name": "PeerCacheStore",
"interface_v1": 1, ...}.

What SGLang's threads call never raises, returns exactly one answer per key, ends by its own
deadline, and leaves no one writing to the host pool when it returns.
"""

import logging
import threading
import time

from . import _native, hicache
from .config import Ranks, StoreConfig
from .host_pools import argument_error, ask_accessor, inspect_host_pool
from .node import Node

LOGGER = logging.getLogger("peercache")

_NOT_BUILT_YET = 8004  # Errc::kNotBuiltYet
_KV = "kv"
_TRAILING_PAGES = "trailing_pages"
_ALL_PAGES = "all_pages"
_QUIET_SECONDS = 10.0  # repeated failures of one kind are logged once in this time


def _text(name):
    """Returns the plain text of a pool name or policy, which may be a str enum."""
    return str(getattr(name, "value", name))


def _count(keys):
    """Returns the number of keys; 0 for what has none."""
    try:
        return len(keys)
    except TypeError:
        return 0


def _as_list(keys):
    """Returns keys as what the C++ side takes; a text alone is no list of keys."""
    return keys if isinstance(keys, (list, tuple, str, bytes)) else list(keys)


def _leading(flags):
    """Returns the length of the leading run of True."""
    return next((i for i, flag in enumerate(flags) if not flag), len(flags))


class PeerCacheStore(hicache.HiCacheStorage):
    """L3 storage of one rank: its own node, publishing its pages and reading those of all others.

    Threads: SGLang calls exists, get and set from threads of its own at the same time; every call
    gives the GIL away while it works.

    Source: bindings/store_core.h.
    """

    def __init__(self, storage_config=None, extra=None, **_kwargs):
        """Opens the rank's node; waits up to `start_timeout_ms` for the other members.

        Args:
            storage_config: SGLang's HiCacheStorageConfig, or None.
            extra: dict that overlays `storage_config.extra_config`, or the host pool, or None.

        Raises:
            ConfigError: unknown or wrong key; decode context parallelism; unequal TP sizes.
            PeerCacheError: the node cannot start; the message says what to do.
        """
        self._node = None
        self._pool = None
        self._flat_pool = None
        self._view = None
        self._unsupported = set()
        self._said = {}
        self._pages_lock = threading.Lock()
        self._metrics_class = None
        self.mem_pool_host = None
        self.registered_pools = {}

        overlay = extra if isinstance(extra, dict) else {}
        config = dict(getattr(storage_config, "extra_config", None) or {})
        config.update(overlay)
        self._ranks = Ranks(storage_config)
        self._model = str(getattr(storage_config, "model_name", None) or "")
        self._refuse_unbuilt(storage_config)
        self._config = StoreConfig(config, self._ranks)
        if getattr(storage_config, "enable_storage_metrics", False):
            self._metrics_class = hicache.find_storage_metrics()
        self._metrics = ([], [], [], [])

        self._node = Node(self._config.node_options)
        try:
            self._flat_pool = _native.PagePool(self._node, self._namespace(None, "raw"))
            if extra is not None and not isinstance(extra, dict):
                self.register_mem_pool_host(extra)
        except Exception:
            self._node.close()
            raise

    def _refuse_unbuilt(self, storage_config):
        if int(getattr(storage_config, "dcp_size", 1) or 1) != 1:
            raise _native.ConfigError(
                "decode context parallelism is not supported: set --dcp-size 1"
            )
        lcm = getattr(storage_config, "tp_lcm_size", None)
        if lcm is not None and int(lcm) != self._ranks.tp_size:
            error = _native.ConfigError(
                "tp_lcm_size %s with TP size %d: sharing between TP sizes is not built yet; leave "
                "tp_lcm_size out" % (lcm, self._ranks.tp_size)
            )
            error.code = _NOT_BUILT_YET
            raise error

    def _namespace(self, view, component="", pool_name=_KV):
        """Returns the fields of PageNamespace (page_namespace.h) and the pool's geometry."""
        ranks = self._ranks
        fields = {
            "prefix": self._config.prefix,
            "model": self._model,
            "tag": self._config.tag,
            "dtype": self._config.kv_cache_dtype,
            "layout": "",
            "pool": pool_name,
            "component": component,
            "page_size": 0,
            "object_bytes": 0,
            "tp_rank": ranks.tp_rank,
            "tp_size": ranks.tp_size,
            "pp_rank": ranks.pp_rank,
            "pp_size": ranks.pp_size,
            "cp_rank": ranks.cp_rank,
            "cp_size": ranks.cp_size,
            "replicated": ranks.replicated,
            "geometry": None,
        }
        if view is not None:
            fields["dtype"] = self._config.kv_cache_dtype or view.dtype
            fields["layout"] = view.layout
            fields["page_size"] = view.page_size
            fields["object_bytes"] = view.page_bytes
            fields["geometry"] = view.geometry
        return fields

    # Registration: may raise.

    def register_mem_pool_host(self, mem_pool_host):
        """Takes the host pool whose pages are to be stored, and builds the namespace from it.

        Args:
            mem_pool_host: SGLang's host pool (MHA or MLA; layouts layer_first, page_first,
                page_first_direct, page_head), or an object with the same attributes.

        Raises:
            ArgumentError: unknown layout, logical anchor, decode context parallelism, or no way to
                find the addresses of pages.
            PoolError: the node's pool is too small for one page.
        """
        view = inspect_host_pool(mem_pool_host)
        self._node.prepare_length(view.page_bytes)
        pool = _native.PagePool(self._node, self._namespace(view))
        self.mem_pool_host = mem_pool_host
        self.registered_pools[_KV] = mem_pool_host
        if view.geometry is not None:
            self._flat_pool = pool  # its flat pages become the same objects
        else:
            self._flat_pool = _native.PagePool(self._node, self._namespace(view, "flat"))
        self._view, self._pool = view, pool
        if view.dtype == "uint8" and not self._config.kv_cache_dtype:
            LOGGER.warning(
                "the host pool says dtype uint8, as it does for every fp8 format: set the key "
                "kv_cache_dtype, so that different formats never share pages"
            )
        LOGGER.info(
            "host pool registered: %d pages of %d bytes, layout %s, %s, namespace %s",
            view.slot_count // view.page_size,
            view.page_bytes,
            view.layout,
            "addresses computed" if view.geometry else "addresses from its accessor",
            pool.namespace_text,
        )

    # An error in the next two would leave SGLang half attached: they remember instead.

    def register_mem_host_pool_v2(self, host_pool, host_pool_name):
        """Notes a pool by name. Never raises: pools other than "kv" are answered with False."""
        name = _text(host_pool_name)
        try:
            self.registered_pools[name] = host_pool
            if name == _KV:
                if self._pool is None:
                    self.register_mem_pool_host(host_pool)
                return
            if name not in self._unsupported:
                self._unsupported.add(name)
                LOGGER.warning("host pool %s is not supported yet: its pages are never found", name)
        except Exception as error:  # pylint: disable=broad-except
            self._unsupported.add(name)
            self._failed("register_mem_host_pool_v2", error)

    def on_host_pools_registered(self):
        """All pools are known. Nothing to do, and nothing that could fail."""

    # Calls of SGLang's threads: never raise.

    def _failed(self, name, error):
        """Notes a failed call: one log line per kind and time, with a count of those left out."""
        try:
            kind = (name, type(error).__name__)
            now = time.monotonic()
            since, left_out = self._said.get(kind, (-_QUIET_SECONDS, 0))
            if now - since < _QUIET_SECONDS:
                self._said[kind] = (since, left_out + 1)
                return
            self._said[kind] = (now, 0)
            more = " (%d more like it)" % left_out if left_out else ""
            LOGGER.warning("%s: %s%s", name, error, more)
        except Exception:  # pylint: disable=broad-except
            pass  # not even a broken log handler may reach the caller

    def _place(self, extra_info):
        """Returns (key of the page before, position of the first page) of a set."""
        before = getattr(extra_info, "prefix_keys", None)
        return (before[-1], len(before)) if before else (None, 0)

    def _pages(self, call, keys, host_indices, write, extra_info=None):
        """Reads or writes pages of the registered pool; returns one bool per key."""
        count = _count(keys)
        try:
            pool, view = self._pool, self._view
            if pool is None:
                raise _native.CallError("no host pool is registered")
            if count == 0:
                return []
            keys = _as_list(keys)
            since = time.perf_counter()
            place = self._place(extra_info) if write else ()
            if view.geometry is not None:
                flags = (pool.put if write else pool.get)(keys, host_indices, *place)
            else:
                _native.check_indices(host_indices, count, view.page_size, view.slot_count)
                pieces = ask_accessor(view.pool, host_indices)
                flags = (pool.put_pieces if write else pool.get_pieces)(keys, *pieces, *place)
            self._measure(write, flags, view.page_bytes, time.perf_counter() - since)
            return flags
        except Exception as error:  # pylint: disable=broad-except
            self._failed(call, error)
            return [False] * count

    def batch_exists(self, keys, extra_info=None):
        """Returns how many keys from the first on are held by any node without a gap.

        Args:
            keys: list of page keys of any length.
            extra_info: ignored.

        Returns:
            int in [0, len(keys)]; 0 on any failure.

        Threads: any, at the same time; GIL released.
        Source: PageStore::exists.
        """
        try:
            count = _count(keys)
            if count == 0:
                return 0
            pool = self._pool if self._config.interface_v1 else self._flat_pool
            pool = pool or self._flat_pool
            return max(0, min(count, int(pool.exists(_as_list(keys)))))
        except Exception as error:  # pylint: disable=broad-except
            self._failed("batch_exists", error)
            return 0

    def batch_get_v1(self, keys, host_indices, extra_info=None):
        """Reads pages into the host pool.

        Args:
            keys: list of page keys, normally at most 128.
            host_indices: 1-D int64 CPU tensor or array, `page_size` slots per key.
            extra_info: ignored.

        Returns:
            list of bool, one per key: whether the page was read whole and validated. Nobody writes
            to any of the pages after the return; pages with False have undefined bytes.

        Threads: any; GIL released; ends by the node's transfer deadline.
        Source: PageStore::get.
        """
        return self._pages("batch_get_v1", keys, host_indices, False)

    def batch_set_v1(self, keys, host_indices, extra_info=None):
        """Publishes pages of the host pool; those that a live node holds are skipped.

        Args:
            keys: list of page keys in the order of their prefix, normally at most 128.
            host_indices: 1-D int64 CPU tensor or array, `page_size` slots per key.
            extra_info: its `prefix_keys`, if any, says where in a prefix the keys stand.

        Returns:
            list of bool, one per key: whether the page is held now. The source has been copied.

        Threads: any; GIL released; ends by the node's transfer deadline.
        Source: PageStore::put.
        """
        return self._pages("batch_set_v1", keys, host_indices, True, extra_info)

    # Interface v2: "kv" works, other pools are truthfully absent.

    def batch_exists_v2(self, keys, pool_transfers=None, extra_info=None):
        """Returns which prefixes can be restored with all their pools.

        Args:
            keys: list of page keys of any length.
            pool_transfers: PoolTransfer objects that name side pools and their policies, or None.
            extra_info: ignored.

        Returns:
            PoolTransferResult: the longest prefix that every asked pool allows, each pool's own
            boundary, and all lengths that can be restored.
        """
        found = {}
        try:
            pages = self.batch_exists(keys)
            found[_KV] = pages
            for transfer in pool_transfers or ():
                name, policy = _text(transfer.name), _text(getattr(transfer, "hit_policy", ""))
                if name == _KV or policy not in (_ALL_PAGES, _TRAILING_PAGES):
                    continue  # a policy we do not know gets no verdict
                found[transfer.name] = 0
                pages = 0
            return hicache.make_transfer_result(pages, found, list(range(1, pages + 1)))
        except Exception as error:  # pylint: disable=broad-except
            self._failed("batch_exists_v2", error)
            found[_KV] = 0
            return hicache.make_transfer_result(0, found, [])

    def _transfers(self, call, transfers, write, extra_info):
        """Runs the transfers of one v2 call; returns one list of bool per pool that was asked."""
        results = {}
        try:
            for transfer in transfers or ():
                keys = transfer.keys or []
                if _text(transfer.name) == _KV:
                    flags = self._pages(call, keys, transfer.host_indices, write, extra_info)
                else:
                    flags = [False] * _count(keys)
                results.setdefault(transfer.name, []).extend(flags)
        except Exception as error:  # pylint: disable=broad-except
            self._failed(call, error)
            for transfer in transfers or ():
                name = getattr(transfer, "name", None)
                results.setdefault(name, [False] * _count(getattr(transfer, "keys", None)))
        return results

    def batch_get_v2(self, transfers, extra_info=None):
        """Reads pages of several pools; returns a dict from pool name to one bool per key."""
        return self._transfers("batch_get_v2", transfers, False, extra_info)

    def batch_set_v2(self, transfers, extra_info=None):
        """Publishes pages of several pools; returns a dict from pool name to one bool per key."""
        return self._transfers("batch_set_v2", transfers, True, extra_info)

    # The generic path: pages arrive as flat tensors, copied by SGLang.

    def _flat(self, call, keys, items, sizes, write):
        """Reads or writes pages from flat buffers, one per key; returns one bool per key."""
        count = _count(keys)
        try:
            if count == 0:
                return []
            if "generic" not in self._said:
                self._said["generic"] = (time.monotonic(), 0)
                LOGGER.warning(
                    'the slow path with copied pages is used: add "interface_v1": 1 to '
                    "--hicache-storage-backend-extra-config"
                )
            if sizes is not None:
                items = [(i, int(n)) if isinstance(i, int) else i for i, n in zip(items, sizes)]
            pool = self._flat_pool
            since = time.perf_counter()
            flags = (pool.put_flat if write else pool.get_flat)(_as_list(keys), list(items))
            if self._view is not None:
                self._measure(write, flags, self._view.page_bytes, time.perf_counter() - since)
            return flags
        except Exception as error:  # pylint: disable=broad-except
            self._failed(call, error)
            return [False] * count

    def batch_get(self, keys, target_locations=None, target_sizes=None):
        """Reads pages into flat buffers.

        Args:
            keys: list of page keys.
            target_locations: one contiguous CPU tensor or writable buffer per key (or an address,
                with its bytes in `target_sizes`).
            target_sizes: bytes per key, needed for addresses only.

        Returns:
            list with the target of each key that was read and None for the others.
        """
        targets = target_locations if target_locations is not None else []
        flags = self._flat("batch_get", keys, targets, target_sizes, False)
        return [target if flag else None for flag, target in zip(flags, targets)] + [None] * (
            len(flags) - _count(targets)
        )

    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        """Publishes flat pages; returns whether all of them are held now.

        Args:
            keys: list of page keys.
            values: one contiguous CPU tensor or buffer per key.
            target_locations: used instead of `values` if given; addresses need `target_sizes`.
            target_sizes: bytes per key.
        """
        items = target_locations if target_locations is not None else values
        if items is None:
            return False
        flags = self._flat("batch_set", keys, items, target_sizes, True)
        return _count(flags) == _count(keys) and all(flags)

    def get(self, key, target_location=None, target_sizes=None):
        """Reads one page into a flat buffer; returns the buffer, or None."""
        if target_location is None:
            return None
        sizes = None if target_sizes is None else [target_sizes]
        return self.batch_get([key], [target_location], sizes)[0]

    def set(self, key, value=None, target_location=None, target_sizes=None):
        """Publishes one flat page; returns whether it is held now."""
        item = target_location if target_location is not None else value
        if item is None:
            return False
        sizes = None if target_sizes is None else [target_sizes]
        return self.batch_set([key], [item], None, sizes)

    def exists(self, key):
        """Returns whether any node holds the page."""
        return self.batch_exists([key]) == 1

    # The rest.

    def _measure(self, write, flags, page_bytes, seconds):
        if self._metrics_class is None:
            return
        pages = sum(flags)
        if pages == 0 or seconds <= 0:
            return
        with self._pages_lock:
            at = 1 if write else 0
            self._metrics[at].append(pages)
            self._metrics[at + 2].append(pages * page_bytes / seconds / 1e9)

    def get_stats(self):
        """Returns SGLang's StorageMetrics of the time since the last call, or None without SGLang.

        Threads: the scheduler's, every step; never blocks, never raises.
        """
        try:
            if self._metrics_class is None:
                return None
            with self._pages_lock:
                taken, self._metrics = self._metrics, ([], [], [], [])
            return self._metrics_class(
                prefetch_pgs=taken[0],
                backup_pgs=taken[1],
                prefetch_bandwidth=taken[2],
                backup_bandwidth=taken[3],
            )
        except Exception as error:  # pylint: disable=broad-except
            self._failed("get_stats", error)
            return None

    def stats(self):
        """Returns the node's counters as a dict; see NodeStats in controlplane/node."""
        return self._node.stats()

    def clear(self):
        """Drops all pages of this rank's node; pages of other nodes stay. Never raises."""
        try:
            self._node.clear()
        except Exception as error:  # pylint: disable=broad-except
            self._failed("clear", error)

    def close(self):
        """Leaves the cluster and frees the pool, within 10 s. Later calls find nothing."""
        try:
            if self._node is not None:
                self._node.close()
        except Exception as error:  # pylint: disable=broad-except
            self._failed("close", error)
