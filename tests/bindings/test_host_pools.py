"""Which host pools are taken, by which way, and which are refused with what words."""

import logging
import types

import numpy as np
import pytest
from conftest import small_pool
from demo_lib.host_pool import HostPool, HostTensor

import peercache
from peercache.host_pools import dtype_name, inspect_host_pool


class Shifted(HostPool):
    """A pool of a known shape that keeps its pages elsewhere than that shape says."""

    def get_page_buffer_meta(self, indices):
        addresses, lengths = super().get_page_buffer_meta(indices)
        return addresses[::-1], lengths[::-1]


class Unequal:
    """K and V in two tensors with rows of different length, as for models with another V head."""

    def __init__(self, layout="page_first"):
        self.layout, self.page_size, self.page_num, self.size = layout, 4, 6, 24
        self.layer_num, self.head_num, self.head_dim, self.v_head_dim = 3, 2, 32, 16
        self.dtype = np.dtype("uint16")
        self.kv_buffer = tuple(
            np.zeros((24, 3, 2, dim), dtype=self.dtype).view(HostTensor) for dim in (32, 16)
        )

    def get_page_buffer_meta(self, indices):
        addresses, lengths = [], []
        for slot in indices.tolist()[:: self.page_size]:
            for part, dim in zip(self.kv_buffer, (32, 16)):
                addresses.append(part.data_ptr() + slot * 3 * 2 * dim * 2)
                lengths.append(4 * 3 * 2 * dim * 2)
        return addresses, lengths


def test_a_pool_that_disagrees_with_its_shape_is_served_by_its_accessor(caplog):
    with caplog.at_level(logging.WARNING, "peercache"):
        view = inspect_host_pool(
            Shifted("mha", "page_first", page_size=4, page_num=6, layer_num=3, head_dim=32)
        )
    assert view.geometry is None
    assert "its own, slower accessor" in caplog.text and "differ from piece 0" in caplog.text


def test_a_pool_of_unknown_shape_is_served_by_its_accessor(caplog):
    pool = small_pool()
    pool.kv_buffer = pool.kv_buffer.reshape(-1)
    with caplog.at_level(logging.WARNING, "peercache"):
        view = inspect_host_pool(pool)
    assert view.geometry is None and view.page_bytes == pool.page_bytes
    assert "shape is not known" in caplog.text


def test_a_pool_whose_pages_move_is_served_by_its_accessor():
    pool = small_pool()
    pool.shared_allocation_domain = object()
    assert inspect_host_pool(pool).geometry is None


def test_k_and_v_with_rows_of_different_length_are_known():
    view = inspect_host_pool(Unequal())
    assert view.geometry is not None
    assert view.page_bytes == 4 * 3 * 2 * (32 + 16) * 2


def test_a_group_is_taken_by_its_anchor():
    pool = small_pool()
    group = types.SimpleNamespace(anchor_entry=types.SimpleNamespace(host_pool=pool))
    assert inspect_host_pool(group).pool is pool


@pytest.mark.parametrize("layout", ["page_unified", "page_first_kv_split", "", None, 3])
def test_unknown_layouts_are_refused_by_name(layout):
    pool = small_pool()
    pool.layout = layout
    with pytest.raises(peercache.ArgumentError, match="supported are layer_first") as caught:
        inspect_host_pool(pool)
    assert repr(layout) in str(caught.value)


def test_decode_context_parallelism_is_refused():
    pool = small_pool()
    pool.dcp_size = 2
    with pytest.raises(peercache.ArgumentError, match="--dcp-size 1"):
        inspect_host_pool(pool)


def test_a_logical_anchor_is_refused():
    pool = small_pool()
    pool.kv_buffer = None
    with pytest.raises(peercache.ArgumentError, match="logical anchor"):
        inspect_host_pool(pool)


def test_a_pool_without_shape_and_accessor_is_refused():
    pool = types.SimpleNamespace(
        layout="page_first",
        page_size=4,
        size=24,
        layer_num=3,
        dtype=np.dtype("uint16"),
        kv_buffer=np.zeros(7, dtype=np.uint16).view(HostTensor),
    )
    with pytest.raises(peercache.ArgumentError, match="no get_page_buffer_meta"):
        inspect_host_pool(pool)


def test_layers_apart_beyond_the_limit_of_pieces_are_refused(runtime_dir):
    from conftest import small_options
    from peercache.store import PeerCacheStore

    store = PeerCacheStore(None, small_options(runtime_dir))
    try:
        with pytest.raises(peercache.PeerCacheError, match="page-major layout"):
            store.register_mem_pool_host(small_pool("mha", "layer_first", layer_num=129))
    finally:
        store.close()


def test_dtype_names_are_short():
    assert dtype_name("torch.bfloat16") == "bfloat16"
    assert dtype_name(np.dtype("uint16")) == "uint16"
