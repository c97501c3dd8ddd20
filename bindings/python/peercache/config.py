"""Configuration of the store: what SGLang's extra config may hold, and what each key means."""

import difflib
import re

from ._native import ConfigError

# Fields of NodeOptions (controlplane/node/node_options.h); values are checked by the C++ loader.
NODE_KEYS = (
    "client_count",
    "cluster_name",
    "connect_timeout_ms",
    "control_bind_host",
    "control_port",
    "copier_threads",
    "directory_objects_max",
    "directory_replicas",
    "exists_timeout_ms",
    "granule_bytes",
    "heartbeat_interval_ms",
    "host_id",
    "huge_pages",
    "member_ttl_ms",
    "members",
    "memory_headroom_bytes",
    "node_id",
    "operation_timeout_ms",
    "pool_bytes",
    "runtime_dir",
    "shm",
    "start_timeout_ms",
    "transfer_timeout_ms",
    "transfer_timeout_ms_per_MiB",
    "verify",
    "verify_sample_reads",
    "vnodes",
)

# Keys of the store itself: name -> default.
STORE_KEYS = {
    "global_segment_size": None,  # pool bytes of all TP ranks together: a number, or "64gb"
    "prefix": "",  # separates deployments that share a cluster
    "tag": "",  # weights revision, LoRA set, KV packing: whatever must not be mixed
    "kv_cache_dtype": "",  # e.g. "fp8_e4m3"; needed to tell fp8 formats apart
    "interface_v1": False,  # read by SGLang: zero-copy calls
    "log_level": None,
    "log_file": None,
}

# What SGLang leaves in the extra config, or reads from it, and what means nothing to us.
SGLANG_KEYS = (
    "allocator",
    "backend_name",
    "class_name",
    "file_storage_path",
    "hicache_storage_pass_prefix_keys",
    "module_path",
    "prefetch_threshold",
    "prefetch_timeout_base",
    "prefetch_timeout_max",
    "prefetch_timeout_per_ki_token",
    "tp_lcm_size",
)

_UNITS = {"": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_TEXT_KEYS = ("prefix", "tag", "kv_cache_dtype")
_FALSE_WORDS = ("", "0", "false", "no", "off")


def parse_size(value, key="size"):
    """Returns bytes from a number, or a text such as "512mb" or "1.5 GB" (powers of 1024).

    Raises:
        ConfigError: neither, or not positive.
    """
    if isinstance(value, bool):
        value = None
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(|kb|mb|gb|tb)\s*", value.lower())
        value = int(float(found.group(1)) * _UNITS[found.group(2)]) if found else None
    if not isinstance(value, int) or value <= 0:
        raise ConfigError(
            "%s must be a positive number of bytes, or a text with kb, mb, gb or tb" % key
        )
    return value


def is_true(value):
    """Returns whether a flag is set, in every spelling: true, 1, "1", "true", "yes", "on"."""
    if isinstance(value, str):
        return value.strip().lower() not in _FALSE_WORDS
    return bool(value)


def unknown_key_message(key):
    """Returns the text of the error for a key that nobody knows, with the nearest that exists."""
    known = list(NODE_KEYS) + list(STORE_KEYS) + list(SGLANG_KEYS)
    near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
    hint = "; did you mean %s?" % near[0] if near else ""
    return "unknown key %r in the extra config%s" % (key, hint)


class Ranks:
    """Where this process stands among its model's ranks, from SGLang's HiCacheStorageConfig.

    Attributes:
        tp_rank, tp_size, pp_rank, pp_size, cp_rank, cp_size, dp_rank: as SGLang counts them.
        replicated: every TP rank holds the same bytes (`is_mla_model`).
    """

    def __init__(self, storage_config):
        def read(name, default):
            value = getattr(storage_config, name, None)
            return default if value is None else value

        self.tp_rank, self.tp_size = int(read("tp_rank", 0)), int(read("tp_size", 1))
        self.pp_rank, self.pp_size = int(read("pp_rank", 0)), int(read("pp_size", 1))
        self.cp_rank, self.cp_size = int(read("attn_cp_rank", 0)), int(read("attn_cp_size", 1))
        self.dp_rank = int(read("dp_rank", 0))
        self.replicated = bool(read("is_mla_model", False))

    def index(self):
        """Returns a number that differs between all ranks of a server."""
        outer = (self.dp_rank * self.pp_size + self.pp_rank) * self.cp_size + self.cp_rank
        return outer * self.tp_size + self.tp_rank

    def label(self):
        """Returns a name for the rank: "dp0-pp0-cp0-tp1"."""
        return "dp%d-pp%d-cp%d-tp%d" % (self.dp_rank, self.pp_rank, self.cp_rank, self.tp_rank)

    def is_single(self):
        """Returns whether the server has this rank only, as far as can be seen."""
        return self.tp_size * self.pp_size * self.cp_size == 1 and self.dp_rank == 0


class StoreConfig:
    """The extra config, taken apart.

    Args:
        extra: dict, SGLang's extra config overlaid by the constructor's.
        ranks: Ranks of this process.

    Attributes:
        node_options: dict for `peercache.Node`, with what depends on the rank filled in.
        prefix, tag, kv_cache_dtype: texts for the namespace.
        interface_v1: whether SGLang was told to use the zero-copy calls.

    Raises:
        ConfigError: unknown key, wrong type, keys that contradict each other.
    """

    def __init__(self, extra, ranks):
        own = dict(STORE_KEYS)
        node = {}
        for key, value in extra.items():
            if key in own:
                own[key] = value
            elif key in NODE_KEYS:
                node[key] = value
            elif key not in SGLANG_KEYS:
                raise ConfigError(unknown_key_message(key))
        for key in _TEXT_KEYS:
            if not isinstance(own[key], str):
                raise ConfigError("%s must be a text, not %r" % (key, own[key]))
        self.prefix, self.tag = own["prefix"], own["tag"]
        self.kv_cache_dtype = own["kv_cache_dtype"]
        self.interface_v1 = is_true(own["interface_v1"])
        for key in ("log_level", "log_file"):
            if own[key] is not None:
                node[key] = own[key]
        if own["global_segment_size"] is not None:
            if "pool_bytes" in node:
                raise ConfigError(
                    "global_segment_size (of all TP ranks) and pool_bytes (of one) exclude each other"
                )
            total = parse_size(own["global_segment_size"], "global_segment_size")
            node["pool_bytes"] = total // ranks.tp_size
        self._place(node, ranks)
        self.node_options = node

    @staticmethod
    def _place(node, ranks):
        """All ranks get the same extra config: makes what must differ between them differ."""
        if ranks.is_single():
            return
        port = node.get("control_port", 0)
        if isinstance(port, int) and port > 0:
            node["control_port"] = port + ranks.index()
        if node.get("node_id"):
            node["node_id"] = "%s-%s" % (node["node_id"], ranks.label())
