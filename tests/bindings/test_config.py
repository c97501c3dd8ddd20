"""The extra config: what is taken, what is refused, and with what words."""

import pathlib
import re
import types

import pytest
from conftest import ROOT

from peercache import ConfigError
from peercache.config import NODE_KEYS, Ranks, StoreConfig, is_true, parse_size, unknown_key_message


def config_of(extra, **ranks):
    return StoreConfig(extra, Ranks(types.SimpleNamespace(**ranks)))


def test_every_node_option_is_a_key():
    header = (ROOT / "controlplane" / "node" / "node_options.h").read_text()
    body = re.sub(r"//[^\n]*", "", header[header.index("struct NodeOptions {") :])
    names = re.findall(r"^  [\w:<>]+\s+(\w+)\s*(?:=[^;]+)?;", body, re.MULTILINE)
    assert sorted(names) == sorted(NODE_KEYS)


def test_what_sglang_leaves_in_means_nothing():
    extra = {
        "backend_name": "peercache",
        "module_path": "peercache.store",
        "class_name": "PeerCacheStore",
        "interface_v1": 1,
        "file_storage_path": None,
        "prefetch_timeout_max": 3,
        "allocator": "shm",
        "prefetch_threshold": 256,
    }
    config = config_of(extra)
    assert config.node_options == {} and config.interface_v1


@pytest.mark.parametrize(
    "key,nearest",
    [
        ("pool_byte", "pool_bytes"),
        ("global_segment_sise", "global_segment_size"),
        ("prefx", "prefix"),
        ("member", "members"),
        ("interface_v2", "interface_v1"),
    ],
)
def test_misspelt_keys_are_refused_with_the_nearest(key, nearest):
    with pytest.raises(ConfigError, match="did you mean %s" % nearest):
        config_of({key: 1})


def test_a_key_near_nothing_is_refused_without_advice():
    assert "did you mean" not in unknown_key_message("zzqqxxyy")


@pytest.mark.parametrize("value", [0, -1, True, None, 1.5, "4 gigabytes", "gb", ""])
def test_sizes_that_are_none_are_refused(value):
    with pytest.raises(ConfigError, match="positive number of bytes"):
        parse_size(value)


@pytest.mark.parametrize(
    "value,size",
    [(4096, 4096), ("4096", 4096), ("4kb", 4096), ("1.5 GB", 3 << 29), ("2TB", 2 << 40)],
)
def test_sizes_may_have_units(value, size):
    assert parse_size(value) == size


@pytest.mark.parametrize("value", [1, True, "1", "true", "yes", "on", "True"])
def test_flags_have_many_spellings(value):
    assert is_true(value)


@pytest.mark.parametrize("value", [0, False, None, "", "0", "false", "no", "off"])
def test_flags_are_off_in_many_spellings(value):
    assert not is_true(value)


def test_the_segment_is_shared_by_the_tp_ranks():
    config = config_of({"global_segment_size": "8gb"}, tp_rank=1, tp_size=4)
    assert config.node_options["pool_bytes"] == 2 << 30


def test_two_sizes_for_the_pool_are_refused():
    with pytest.raises(ConfigError, match="exclude each other"):
        config_of({"global_segment_size": "8gb", "pool_bytes": 1 << 30})


def test_ranks_get_ports_and_names_of_their_own():
    extra = {"control_port": 7000, "node_id": "a"}
    seen = set()
    for dp in range(2):
        for pp in range(2):
            for cp in range(2):
                for tp in range(3):
                    ranks = dict(tp_rank=tp, tp_size=3, pp_rank=pp, pp_size=2)
                    ranks.update(attn_cp_rank=cp, attn_cp_size=2, dp_rank=dp)
                    options = config_of(extra, **ranks).node_options
                    seen.add((options["control_port"], options["node_id"]))
    assert len(seen) == len({port for port, _ in seen}) == len({name for _, name in seen}) == 24


def test_a_server_of_one_rank_keeps_port_and_name():
    options = config_of({"control_port": 7000, "node_id": "a"}, tp_rank=0, tp_size=1).node_options
    assert options == {"control_port": 7000, "node_id": "a"}


@pytest.mark.parametrize("key", ["prefix", "tag", "kv_cache_dtype"])
def test_texts_must_be_texts(key):
    with pytest.raises(ConfigError, match="%s must be a text" % key):
        config_of({key: 5})


def test_this_file_lies_where_it_looks_from():
    assert pathlib.Path(ROOT, "pyproject.toml").exists()
