"""Page addresses computed in C++ are those of the pool's own accessor, for every layout."""

import random

import numpy as np
import pytest
from conftest import POOL_SHAPES, small_pool

import peercache
from peercache import _native
from peercache.host_pools import inspect_host_pool


@pytest.mark.parametrize("kind,layout", POOL_SHAPES)
@pytest.mark.parametrize("dtype_bytes", [1, 2, 4])
def test_addresses_equal_those_of_the_accessor(kind, layout, dtype_bytes):
    pool = small_pool(kind, layout, dtype_bytes=dtype_bytes)
    view = inspect_host_pool(pool)
    assert view.geometry is not None
    assert view.page_bytes == pool.page_bytes
    pages = list(range(pool.page_num)) * 2
    random.Random(7).shuffle(pages)
    indices = pool.page_indices(pages)
    assert _native.page_pieces(view.geometry, indices) == pool.get_page_buffer_meta(indices)


@pytest.mark.parametrize("kind,layout", POOL_SHAPES)
@pytest.mark.parametrize("page_size", [1, 16])
def test_pages_of_any_size_are_known(kind, layout, page_size):
    pool = small_pool(kind, layout, page_size=page_size, page_num=3)
    view = inspect_host_pool(pool)
    indices = pool.page_indices([2, 0])
    assert _native.page_pieces(view.geometry, indices) == pool.get_page_buffer_meta(indices)


@pytest.mark.parametrize(
    "indices",
    [
        np.array([1, 2, 3, 4]),  # not at the start of a page
        np.array([0, 1, 2, 4]),  # a gap
        np.array([24, 25, 26, 27]),  # behind the pool
        np.array([-4, -3, -2, -1]),
        np.array([0, 1, 2, 3], dtype=np.int32),
        np.array([[0, 1, 2, 3]]),
        np.arange(8)[::2],  # not contiguous
        [0, 1, 2, 3],
        None,
        "0123",
    ],
)
def test_wrong_indices_are_refused(indices):
    geometry = inspect_host_pool(small_pool()).geometry
    with pytest.raises(peercache.ArgumentError) as caught:
        _native.page_pieces(geometry, indices)
        _native.check_indices(indices, 1, 4, 24)
    assert caught.value.code == 9002


def test_check_indices_counts_pages():
    indices = small_pool().page_indices([1, 2])
    _native.check_indices(indices, 2, 4, 24)
    with pytest.raises(peercache.ArgumentError, match="8 host indices for 3 pages of 4"):
        _native.check_indices(indices, 3, 4, 24)
