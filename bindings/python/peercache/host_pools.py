"""Recognises serving-engine host pools, so that page addresses are computed in C++.

A pool is known by its layout and the shape of its buffer, whatever its class is called: the C++
side then computes what the pool's own accessor `get_page_buffer_meta` says, and both are compared
on two pages before it is used. A pool that is not recognised is served through its accessor.
"""

import array
import logging
import sys

from . import _native

LOGGER = logging.getLogger("peercache")

LAYOUTS = ("layer_first", "page_first", "page_first_direct", "page_head")

_UNKNOWN_LAYOUT = 9003  # Errc::kUnknownLayout
_BAD_BUFFER = 9001
_NOT_BUILT_YET = 8004


def argument_error(code, message):
    """Returns an ArgumentError with a number of base/errc.h."""
    error = _native.ArgumentError(message)
    error.code = code
    return error


def dtype_name(dtype):
    """Returns "bfloat16" for torch.bfloat16, and what a dtype calls itself otherwise."""
    text = str(dtype)
    return text[len("torch.") :] if text.startswith("torch.") else text


class HostPoolView:
    """What the store needs to know of a host pool.

    Attributes:
        pool: the pool itself.
        layout: one of LAYOUTS.
        page_size: tokens per page.
        slot_count: tokens the pool holds.
        dtype: name of the element type as the pool tells it ("uint8" for every fp8 cache).
        page_bytes: bytes of one page, K and V, all layers.
        geometry: dict for the C++ side, or None when the accessor must be asked.
    """

    def __init__(self, pool, layout, page_size, slot_count, dtype, page_bytes, geometry):
        self.pool = pool
        self.layout = layout
        self.page_size = page_size
        self.slot_count = slot_count
        self.dtype = dtype
        self.page_bytes = page_bytes
        self.geometry = geometry


def _tensor_bytes(tensor):
    return int(tensor.numel()) * int(tensor.element_size())


def _base(tensor):
    return int(tensor.data_ptr())


def _mha_shape(layout, pages, page_size, layers, heads, dim):
    slots = pages * page_size
    return {
        "layer_first": (layers, slots, heads, dim),
        "page_first": (slots, layers, heads, dim),
        "page_first_direct": (pages, layers, page_size, heads, dim),
        "page_head": (pages, heads, page_size, layers, dim),
    }[layout]


def _mla_shape(layout, pages, page_size, layers, dim):
    slots = pages * page_size
    return {
        "layer_first": (layers, slots, 1, dim),
        "page_first": (slots, layers, 1, dim),
        "page_first_direct": (pages, layers, page_size, 1, dim),
    }.get(layout)


def _geometry_of(pool, layout):
    """Returns the fields of HostPoolShape for a pool of a shape we know, else None."""
    if getattr(pool, "shared_allocation_domain", None) is not None:
        return None  # its pages move between calls: only the accessor knows where they are
    buffer = pool.kv_buffer
    layers, page_size, slots = int(pool.layer_num), int(pool.page_size), int(pool.size)
    if page_size <= 0 or slots <= 0 or slots % page_size:
        return None
    pages = slots // page_size
    itemsize = int(pool.dtype.itemsize)
    shape = {
        "layout": layout,
        "slot_count": slots,
        "page_slot_count": page_size,
        "layer_count": layers,
        "v_base_address": 0,
        "v_row_bytes": 0,
    }
    heads, dim = getattr(pool, "head_num", None), getattr(pool, "head_dim", None)
    if isinstance(buffer, (tuple, list)):  # K and V apart, with rows of different length
        if len(buffer) != 2 or not heads or not dim:
            return None
        v_dim = int(getattr(pool, "v_head_dim", dim))
        want = [_mha_shape(layout, pages, page_size, layers, heads, d) for d in (dim, v_dim)]
        if [tuple(part.shape) for part in buffer] != want:
            return None
        shape["k_base_address"], shape["v_base_address"] = _base(buffer[0]), _base(buffer[1])
        shape["k_row_bytes"], shape["v_row_bytes"] = (
            heads * dim * itemsize,
            heads * v_dim * itemsize,
        )
        return shape
    if not buffer.is_contiguous():
        return None
    if heads and dim:
        want = (2,) + _mha_shape(layout, pages, page_size, layers, heads, dim)
        if tuple(buffer.shape) != want:
            return None
        shape["k_base_address"] = _base(buffer)
        shape["v_base_address"] = _base(buffer) + _tensor_bytes(buffer) // 2
        shape["k_row_bytes"] = shape["v_row_bytes"] = heads * dim * itemsize
        return shape
    row = getattr(pool, "kv_cache_dim", None)
    if row and tuple(buffer.shape) == _mla_shape(layout, pages, page_size, layers, row):
        shape["k_base_address"] = _base(buffer)
        shape["k_row_bytes"] = row * itemsize
        return shape
    return None


def page_indices(pool, pages):
    """Returns host indices of page numbers in the form that the pool's accessor takes."""
    size = int(pool.page_size)
    slots = [page * size + i for page in pages for i in range(size)]
    torch = sys.modules.get("torch")
    if torch is not None:
        return torch.tensor(slots, dtype=torch.int64)
    try:
        import numpy
    except ImportError:
        return array.array("q", slots)
    return numpy.array(slots, dtype=numpy.int64)


def ask_accessor(pool, host_indices):
    """Returns (addresses, lengths in bytes) as lists of int from the pool's own accessor."""
    addresses, lengths = pool.get_page_buffer_meta(host_indices)
    return [int(address) for address in addresses], [int(length) for length in lengths]


def _check_against_accessor(pool, geometry, pages):
    """Returns None if the accessor says the same about two pages, else what differs."""
    sample = sorted({0, pages - 1})
    indices = page_indices(pool, sample)
    want = ask_accessor(pool, indices)
    got = _native.page_pieces(geometry, indices)
    for name, a, b in zip(("addresses", "lengths"), got, want):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            return "%s differ from piece %d on: computed %s, the pool says %s" % (
                name,
                at,
                a[at : at + 1],
                b[at : at + 1],
            )
    return None


def inspect_host_pool(pool):
    """Looks at a host pool and says how its pages are reached.

    Args:
        pool: the serving engine's host pool, or a group whose anchor it is.

    Returns:
        HostPoolView.

    Raises:
        ArgumentError: unknown layout, no buffer, decode context parallelism, or neither a known
            shape nor an accessor.
    """
    anchor = getattr(pool, "anchor_entry", None)
    if anchor is not None:
        pool = anchor.host_pool
    name = type(pool).__name__
    layout = getattr(pool, "layout", None)
    if layout not in LAYOUTS:
        raise argument_error(
            _UNKNOWN_LAYOUT,
            "host pool %s has layout %r; supported are %s (server argument --hicache-mem-layout)"
            % (name, layout, ", ".join(LAYOUTS)),
        )
    if int(getattr(pool, "dcp_size", 1) or 1) != 1:
        raise argument_error(
            _NOT_BUILT_YET,
            "host pool %s is sharded over %s ranks of decode context parallelism, which is not "
            "supported: set --dcp-size 1" % (name, pool.dcp_size),
        )
    if getattr(pool, "kv_buffer", None) is None:
        raise argument_error(
            _NOT_BUILT_YET,
            "host pool %s has no buffer of its own (a logical anchor, as of DeepSeek V4), which is "
            "not supported yet" % name,
        )
    reason = None
    try:
        geometry = _geometry_of(pool, layout)
    except Exception as error:  # pylint: disable=broad-except
        geometry, reason = None, "%s: %s" % (type(error).__name__, error)
    accessor = getattr(pool, "get_page_buffer_meta", None)
    page_size, slots = int(pool.page_size), int(pool.size)
    if geometry is not None and accessor is not None:
        reason = _check_against_accessor(pool, geometry, slots // page_size)
        geometry = None if reason else geometry
    if geometry is None:
        if accessor is None:
            raise argument_error(
                _BAD_BUFFER,
                "host pool %s is not known and has no get_page_buffer_meta: %s"
                % (name, reason or "its buffer has another shape than layout %s has" % layout),
            )
        LOGGER.warning(
            "host pool %s, layout %s: page addresses come from its own, slower accessor (%s)",
            name,
            layout,
            reason or "its shape is not known",
        )
    page_bytes = sum(
        (
            ask_accessor(pool, page_indices(pool, [0]))
            if geometry is None
            else _native.page_pieces(geometry, page_indices(pool, [0]))
        )[1]
    )
    return HostPoolView(
        pool, layout, page_size, slots, dtype_name(pool.dtype), page_bytes, geometry
    )
