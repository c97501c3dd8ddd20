"""What SGLang's threads call: nothing raised, no None, one bool per key, whatever happens."""

import types

import numpy as np
import pytest
from conftest import page_keys, small_options, small_pool

import peercache
from peercache.store import PeerCacheStore

BAD_INDICES = [
    None,
    "no",
    [0, 1, 2, 3],
    np.arange(4),  # too few
    np.arange(12),  # too many
    np.array([1, 2, 3, 4, 8, 9, 10, 11]),
    np.array([0, 1, 2, 3, 1 << 40, (1 << 40) + 1, (1 << 40) + 2, (1 << 40) + 3]),
    np.array([0, 1, 2, 3, -4, -3, -2, -1]),
    np.arange(8, dtype=np.float64),
    np.arange(8, dtype=np.int32),
]

BAD_KEYS = [[1, 2], ["a", None], ["a", "\ud800"], "ab", [b"a", ["b"]]]


def assert_bools(flags, count):
    assert isinstance(flags, list) and len(flags) == count
    assert all(flag is True or flag is False for flag in flags)


@pytest.mark.parametrize("indices", BAD_INDICES, ids=repr)
def test_wrong_indices_fail_every_key(store, indices):
    keys = page_keys(2)
    before = store.mem_pool_host.kv_buffer.copy()
    assert store.batch_get_v1(keys, indices) == [False, False]
    assert store.batch_set_v1(keys, indices) == [False, False]
    assert (store.mem_pool_host.kv_buffer == before).all()
    assert store.batch_exists(keys) == 0


@pytest.mark.parametrize("keys", BAD_KEYS, ids=repr)
def test_wrong_keys_fail_every_key(store, keys):
    indices = store.mem_pool_host.page_indices([0, 1])
    assert_bools(store.batch_get_v1(keys, indices), len(keys))
    assert store.batch_set_v1(keys, indices) == [False] * len(keys)
    assert store.batch_exists(keys) == 0


def test_no_keys_get_no_answers(store):
    none = np.zeros(0, dtype=np.int64)
    assert store.batch_get_v1([], none) == [] and store.batch_set_v1([], none) == []
    assert store.batch_exists([]) == 0 and store.batch_exists(None) == 0
    assert store.batch_get_v1(None, none) == []
    assert store.batch_get([], []) == [] and store.batch_set([], []) is True


def test_before_a_pool_is_registered_nothing_is_found(runtime_dir):
    store = PeerCacheStore(None, small_options(runtime_dir))
    keys = page_keys(3)
    assert store.batch_exists(keys) == 0
    assert store.batch_get_v1(keys, np.arange(12)) == [False] * 3
    assert store.batch_set_v1(keys, np.arange(12)) == [False] * 3
    store.close()


def test_a_closed_store_finds_nothing(store):
    keys, pool = page_keys(3), store.mem_pool_host
    indices = pool.page_indices([0, 1, 2])
    assert store.batch_set_v1(keys, indices) == [True] * 3
    store.close()
    store.close()
    assert store.batch_exists(keys) == 0 and store.exists(keys[0]) is False
    assert store.batch_get_v1(keys, indices) == [False] * 3
    assert store.batch_set_v1(keys, indices) == [False] * 3
    assert store.batch_get(keys, [pool.get_dummy_flat_data_page() for _ in keys]) == [None] * 3
    assert store.batch_set(keys, [pool.get_data_page(0)] * 3) is False
    assert store.get_stats() is None
    store.clear()


def test_a_missing_page_is_false_and_the_others_are_read(store):
    keys, pool = page_keys(4), store.mem_pool_host
    pool.kv_buffer.reshape(-1)[:] = np.arange(pool.kv_buffer.numel()) % 65521
    want = [pool.get_data_page(4 * page) for page in range(4)]
    assert store.batch_set_v1(keys[:1] + keys[2:3], pool.page_indices([0, 2])) == [True, True]
    assert store.batch_exists(keys) == 1
    pool.kv_buffer[...] = 0
    got = store.batch_get_v1(keys, pool.page_indices([3, 2, 1, 0]))
    assert got == [True, False, True, False]
    assert (pool.get_data_page(12) == want[0]).all() and (pool.get_data_page(4) == want[2]).all()


def test_a_pool_too_small_for_a_page_is_refused_at_registration(runtime_dir):
    store = PeerCacheStore(None, small_options(runtime_dir, pool_bytes=1 << 20))
    pool = small_pool(page_size=64, page_num=2, layer_num=8, head_num=8, head_dim=128)
    assert pool.page_bytes > 1 << 20
    with pytest.raises(peercache.PeerCacheError):
        store.register_mem_pool_host(pool)
    assert store.batch_set_v1(page_keys(1), pool.page_indices([0])) == [False]
    store.close()


def test_a_full_pool_evicts_and_answers_for_every_key(runtime_dir):
    """Four times what fits is written: old pages go, every call answers, what is found is right."""
    store = PeerCacheStore(None, small_options(runtime_dir, pool_bytes=2 << 20, interface_v1=1))
    pool = small_pool(page_size=16, page_num=16, layer_num=4, head_num=4, head_dim=64)
    store.register_mem_pool_host(pool)
    pages = 4 * (2 << 20) // pool.page_bytes
    for first in range(0, pages, 16):
        pool.kv_buffer[...] = first
        flags = store.batch_set_v1(page_keys(16, first), pool.page_indices(range(16)))
        assert_bools(flags, 16)
    read = 0
    for first in range(0, pages, 16):
        pool.kv_buffer[...] = 9999
        flags = store.batch_get_v1(page_keys(16, first), pool.page_indices(range(16)))
        assert_bools(flags, 16)
        for page, flag in enumerate(flags):
            if flag:
                read += 1
                assert (pool.get_data_page(16 * page) == first).all()
    assert 0 < read < pages
    store.close()


def test_a_pool_registered_twice_works(store):
    pool = store.mem_pool_host
    store.register_mem_pool_host(pool)
    store.register_mem_host_pool_v2(pool, "kv")
    store.on_host_pools_registered()
    assert store.batch_set_v1(page_keys(1), pool.page_indices([0])) == [True]


def test_side_pools_are_truthfully_absent(store):
    store.register_mem_host_pool_v2(object(), "mamba")
    store.register_mem_host_pool_v2(None, types.SimpleNamespace(value="swa"))
    keys, pool = page_keys(3), store.mem_pool_host

    def transfer(name, **more):
        fields = dict(name=name, keys=keys, host_indices=None, hit_policy="all_pages")
        fields.update(more)
        return types.SimpleNamespace(**fields)

    indices = pool.page_indices([0, 1, 2])
    kv = transfer("kv", host_indices=indices)
    assert store.batch_set_v2([kv, transfer("mamba")]) == {"kv": [True] * 3, "mamba": [False] * 3}
    assert store.batch_get_v2([kv]) == {"kv": [True] * 3}
    assert store.batch_get_v2([transfer("mamba", keys=None)]) == {"mamba": []}
    assert store.batch_get_v2([]) == {} and store.batch_set_v2([]) == {}

    alone = store.batch_exists_v2(keys + page_keys(1, 99))
    assert alone.kv_hit_pages == 3 and alone.restorable_prefix_pages == [1, 2, 3]
    assert alone.extra_pool_hit_pages == {"kv": 3}
    mixed = store.batch_exists_v2(keys, [transfer("mamba", hit_policy="trailing_pages")])
    assert mixed.kv_hit_pages == 0 and mixed.restorable_prefix_pages == []
    assert mixed.extra_pool_hit_pages == {"kv": 3, "mamba": 0}
    unknown = store.batch_exists_v2(keys, [transfer("new", hit_policy="block_groups")])
    assert unknown.kv_hit_pages == 3 and unknown.extra_pool_hit_pages == {"kv": 3}


def test_broken_transfers_do_not_raise(store):
    broken = types.SimpleNamespace(name="kv", keys=page_keys(2), host_indices=object())
    assert store.batch_get_v2([broken]) == {"kv": [False, False]}
    assert store.batch_exists_v2(page_keys(2), [object()]).kv_hit_pages == 0


def test_a_broken_accessor_is_a_failed_call(store, monkeypatch):
    pool = small_pool()
    pool.kv_buffer = pool.kv_buffer.reshape(-1)  # no known shape: its accessor is asked
    store.register_mem_pool_host(pool)
    keys, indices = page_keys(2), pool.page_indices([0, 1])
    assert store.batch_set_v1(keys, indices) == [True, True]
    for answer in (None, ([1], [2, 3]), (["x"], ["y"]), ([], [])):
        monkeypatch.setattr(pool, "get_page_buffer_meta", lambda _, a=answer: a)
        assert store.batch_get_v1(keys, indices) == [False, False]
        assert store.batch_set_v1(keys, indices) == [False, False]


def test_wrong_flat_pages_are_failed_calls(store):
    pool, keys = store.mem_pool_host, page_keys(2)
    page = pool.get_data_page(0)
    assert store.batch_set(keys, [page, page[:-1]]) is False
    assert store.batch_set(keys, [page]) is False
    assert store.batch_set(keys, None) is False
    assert store.set(keys[0], None) is False
    assert store.get(keys[0]) is None
    assert store.batch_get(keys) == [None, None]
    assert store.batch_get(keys, [page]) == [None, None]
    assert store.exists(keys[0]) is False


@pytest.mark.parametrize(
    "extra,words",
    [
        ({"pool_byte": 1}, "did you mean pool_bytes"),
        ({"pool_bytes": "x"}, "pool_bytes"),
        ({"global_segment_size": "4xb"}, "global_segment_size"),
    ],
)
def test_wrong_configuration_is_raised_by_the_constructor(extra, words):
    with pytest.raises(peercache.ConfigError, match=words):
        PeerCacheStore(None, extra)


def test_what_is_not_built_is_refused_by_the_constructor():
    with pytest.raises(peercache.ConfigError, match="--dcp-size 1"):
        PeerCacheStore(types.SimpleNamespace(dcp_size=2), {})
    with pytest.raises(peercache.ConfigError, match="tp_lcm_size"):
        PeerCacheStore(types.SimpleNamespace(tp_size=2, tp_lcm_size=4), {})


def test_failures_are_logged_once_in_a_while(store, caplog):
    for _ in range(50):
        store.batch_get_v1(page_keys(1), None)
    assert len([r for r in caplog.records if "batch_get_v1" in r.getMessage()]) == 1


def test_all_constructor_shapes_work(runtime_dir):
    config = types.SimpleNamespace(extra_config=small_options(runtime_dir))
    pool = small_pool()
    for arguments in ((config,), (config, {}), (config, None), (config, pool)):
        store = PeerCacheStore(*arguments)
        if pool in arguments:
            assert store.batch_set_v1(page_keys(1), pool.page_indices([0])) == [True]
        store.close()


def test_a_store_can_be_attached_again_in_the_same_process(runtime_dir):
    for _ in range(3):
        store = PeerCacheStore(None, small_options(runtime_dir, interface_v1=1))
        pool = small_pool()
        store.register_mem_pool_host(pool)
        assert store.batch_exists(page_keys(1)) == 0
        assert store.batch_set_v1(page_keys(1), pool.page_indices([0])) == [True]
        store.close()
