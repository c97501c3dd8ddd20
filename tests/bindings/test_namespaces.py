"""Two pages with the same serving-engine key meet only if their bytes mean the same."""

import types

import pytest
from conftest import page_keys, small_options, small_pool

from peercache import _native
from peercache.store import PeerCacheStore


def config_of(**more):
    fields = dict(tp_rank=0, tp_size=2, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1)
    fields.update(is_mla_model=False, model_name="m", dp_rank=0, enable_storage_metrics=False)
    fields.update(more)
    return types.SimpleNamespace(extra_config=None, **fields)


@pytest.fixture
def text_of(runtime_dir):
    """Returns the namespace that a store builds."""

    def text(pool=None, extra=None, **config):
        options = small_options(runtime_dir, pool_bytes=4 << 20)
        options.update(extra or {})
        store = PeerCacheStore(config_of(**config), options)
        try:
            store.register_mem_pool_host(pool or small_pool())
            return store._pool.namespace_text
        finally:
            store.close()

    return text


def test_everything_that_changes_the_bytes_changes_the_namespace(text_of):
    texts = [
        text_of(),
        text_of(extra={"prefix": "x"}),
        text_of(extra={"tag": "x"}),
        text_of(extra={"kv_cache_dtype": "fp8_e4m3"}),
        text_of(model_name="n"),
        text_of(tp_rank=1),
        text_of(tp_rank=1, tp_size=4),
        text_of(pp_size=2),
        text_of(pp_size=2, pp_rank=1),
        text_of(attn_cp_size=2),
        text_of(attn_cp_size=2, attn_cp_rank=1),
        text_of(is_mla_model=True),
        text_of(small_pool(dtype="float16")),
        text_of(small_pool(dtype_bytes=1)),
        text_of(small_pool(layout="page_first_direct")),
        text_of(small_pool(layout="layer_first")),
        text_of(small_pool(page_size=8)),
        text_of(small_pool(layer_num=4)),
        text_of(small_pool(kind="mla")),
    ]
    assert len(set(texts)) == len(texts)


def test_what_does_not_change_the_bytes_does_not_change_the_namespace(text_of):
    want = text_of()
    assert text_of(small_pool(page_num=9)) == want
    assert text_of(dp_rank=3) == want


def test_ranks_of_a_replicated_cache_share_pages(text_of):
    pool = small_pool(kind="mla")
    assert text_of(pool, is_mla_model=True, tp_rank=0) == text_of(
        pool, is_mla_model=True, tp_rank=1
    )


def test_objects_of_different_namespaces_never_meet(node):
    """The same key under every namespace, all in one node: each gives back its own bytes."""
    fields = dict(prefix="", model="m", tag="", dtype="bfloat16", layout="page_first", pool="kv")
    fields.update(component="", page_size=64, object_bytes=4096, replicated=False)
    fields.update(tp_rank=0, tp_size=2, pp_rank=0, pp_size=2, cp_rank=0, cp_size=2)
    changes = [{}]
    for name, value in fields.items():
        changes.append({name: "other" if isinstance(value, str) else 1 + value})
    pools = [_native.PagePool(node, dict(fields, **change)) for change in changes]
    assert len({pool.namespace_text for pool in pools}) == len(pools)
    for i, pool in enumerate(pools):
        assert pool.exists(["k"]) == 0
        assert pool.put_flat(["k"], [bytes([i]) * 4096]) == [True]
    for i, pool in enumerate(pools):
        target = bytearray(4096)
        assert pool.get_flat(["k"], [target]) == [True]
        assert target == bytes([i]) * 4096


def test_the_generic_path_carries_the_rank(runtime_dir):
    texts = []
    for rank in (0, 1):
        store = PeerCacheStore(config_of(tp_rank=rank), small_options(runtime_dir))
        texts.append(store._flat_pool.namespace_text)
        store.register_mem_pool_host(small_pool())
        texts.append(store._flat_pool.namespace_text)
        store.close()
    assert len(set(texts)) == 4


def test_flat_pages_are_the_same_objects_as_those_of_the_pool(runtime_dir):
    for layout in ("layer_first", "page_first", "page_head"):
        pool = small_pool(layout=layout)
        pool.kv_buffer.reshape(-1)[:] = range(pool.kv_buffer.numel())
        store = PeerCacheStore(config_of(), small_options(runtime_dir, interface_v1=1))
        try:
            store.register_mem_pool_host(pool)
            keys = page_keys(2)
            assert store.batch_set(keys, [pool.get_data_page(4), pool.get_data_page(12)])
            assert store.batch_exists(keys) == 2
            assert store.batch_get_v1(keys, pool.page_indices([0, 2])) == [True, True]
            assert (pool.get_data_page(0) == pool.get_data_page(4)).all()
            assert (pool.get_data_page(8) == pool.get_data_page(12)).all()
            target = pool.get_dummy_flat_data_page()
            assert store.get(keys[0], target) is target
            assert (target == pool.get_data_page(4)).all()
        finally:
            store.close()
