"""A host pool (HiCache's L2) without SGLang: what a storage backend may use of one, on numpy.

The demo's engines and the tests of the bindings register it at `PeerCacheStore` where a serving
engine would register its own pool. Layouts and byte order are those of SGLang's
`MHATokenToKVPoolHost` and `MLATokenToKVPoolHost`:

    layout              MHA                                  MLA
    layer_first         [2, layer, slot, head, dim]          [layer, slot, 1, row]
    page_first          [2, slot, layer, head, dim]          [slot, layer, 1, row]
    page_first_direct   [2, page, layer, token, head, dim]   [page, layer, token, 1, row]
    page_head           [2, page, head, token, layer, dim]   not allowed
"""

import mmap

import numpy as np

LAYOUTS = ("layer_first", "page_first", "page_first_direct", "page_head")

_DTYPES = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
_MADV_POPULATE_WRITE = 23  # linux/mman.h; Python 3.11 has no name for it


class HostTensor(np.ndarray):
    """A numpy array that answers the three questions a storage backend asks a torch tensor."""

    def data_ptr(self):
        """Returns the address of the first element, in bytes."""
        return self.ctypes.data

    def numel(self):
        """Returns the number of elements."""
        return int(self.size)

    def element_size(self):
        """Returns the bytes of one element."""
        return int(self.itemsize)

    def is_contiguous(self):
        """Returns whether the elements lie in C order without gaps."""
        return bool(self.flags["C_CONTIGUOUS"])


def _shape(kind, layout, pages, page_size, layers, heads, dim):
    """Returns the shape of `kv_buffer`, as in the table above."""
    slots = pages * page_size
    if kind == "mla":
        shapes = {
            "layer_first": (layers, slots, 1, dim),
            "page_first": (slots, layers, 1, dim),
            "page_first_direct": (pages, layers, page_size, 1, dim),
        }
    else:
        shapes = {
            "layer_first": (2, layers, slots, heads, dim),
            "page_first": (2, slots, layers, heads, dim),
            "page_first_direct": (2, pages, layers, page_size, heads, dim),
            "page_head": (2, pages, heads, page_size, layers, dim),
        }
    if layout not in shapes:
        raise ValueError(
            f"layout {layout!r} is not possible for {kind}; possible: {', '.join(shapes)}"
        )
    return shapes[layout]


class HostPool:
    """Pages of KV cache in shared anonymous memory, laid out as a serving engine does.

    Args:
        kind: "mha" (K and V of `head_num` heads) or "mla" (one row of `head_dim` elements per token and layer).
        layout: one of LAYOUTS; "page_head" only for "mha".
        page_size: tokens per page.
        page_num: pages.
        layer_num: layers of this pool.
        head_num: heads of this rank; ignored for "mla".
        head_dim: elements per head, or per row for "mla".
        dtype_bytes: bytes per element: 1, 2, 4 or 8.
        dtype: numpy dtype of that size; default an unsigned integer.
        populate: take the memory now rather than at first use.
    """

    def __init__(
        self,
        kind="mha",
        layout="page_first",
        page_size=64,
        page_num=16,
        layer_num=4,
        head_num=8,
        head_dim=128,
        dtype_bytes=2,
        dtype=None,
        populate=True,
    ):
        if kind not in ("mha", "mla"):
            raise ValueError(f"kind must be 'mha' or 'mla', not {kind!r}")
        self.kind = kind
        self.layout = layout
        self.page_size = page_size
        self.page_num = page_num
        self.size = page_size * page_num
        self.layer_num = layer_num
        self.dtype = np.dtype(dtype if dtype is not None else _DTYPES[dtype_bytes])
        if kind == "mla":
            self.kv_cache_dim = head_dim
            self.size_per_token = layer_num * head_dim * self.dtype.itemsize
        else:
            self.head_num = head_num
            self.head_dim = head_dim
            self.v_head_dim = head_dim
            self.size_per_token = 2 * layer_num * head_num * head_dim * self.dtype.itemsize
        self.page_bytes = self.size_per_token * page_size
        self.pin_memory = False
        self.device = "cpu"
        self.allocator = None
        self.dcp_size = 1
        self.dcp_rank = 0
        self.storage_format_tag = None

        shape = _shape(kind, layout, page_num, page_size, layer_num, head_num, head_dim)
        self._memory = mmap.mmap(
            -1, self.page_bytes * page_num, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
        )
        if populate:
            try:
                self._memory.madvise(_MADV_POPULATE_WRITE)
            except OSError:
                pass  # older kernels: pages come at first use, which changes timing only
        flat = np.frombuffer(self._memory, dtype=self.dtype)
        self.kv_buffer = flat.reshape(shape).view(HostTensor)

    @property
    def k_buffer(self):
        """The K half (MHA)."""
        return self.kv_buffer[0]

    @property
    def v_buffer(self):
        """The V half (MHA)."""
        return self.kv_buffer[1]

    def get_size_per_token(self):
        """Returns the bytes of one token over all layers, K and V together."""
        return self.size_per_token

    def get_ksize_per_token(self):
        """Returns the bytes of K of one token over all layers (MLA: of the row)."""
        return self.size_per_token if self.kind == "mla" else self.size_per_token // 2

    def get_hybrid_pool_buffer(self):
        """Returns the tensors that hold the pages."""
        return [self.kv_buffer] if self.kind == "mla" else [self.k_buffer, self.v_buffer]

    def page_indices(self, pages):
        """Returns the host indices (1-D int64, `page_size` slots per page) of page numbers."""
        first = np.asarray(pages, dtype=np.int64)[:, None] * self.page_size
        return (first + np.arange(self.page_size, dtype=np.int64)).reshape(-1)

    def get_page_buffer_meta(self, indices):
        """Returns (addresses, lengths in bytes) of the pages' pieces: K then V, layer by layer.

        Args:
            indices: 1-D int64, `page_size` consecutive slots per page, the first a multiple of it.
        """
        if len(indices) % self.page_size:
            raise ValueError(f"{len(indices)} indices are no whole pages of {self.page_size}")
        starts = [int(slot) for slot in indices.tolist()[:: self.page_size]]
        base = self.kv_buffer.data_ptr()
        halves = 1 if self.kind == "mla" else 2
        half = self.page_bytes * self.page_num // halves
        layer_row = self.size_per_token // halves // self.layer_num
        if self.layout == "layer_first":
            offsets = [
                layer * layer_row * self.size + h * half
                for layer in range(self.layer_num)
                for h in range(halves)
            ]
            slot_bytes = layer_row
        else:
            offsets = [h * half for h in range(halves)]
            slot_bytes = layer_row * self.layer_num
        addresses = [base + slot * slot_bytes + offset for slot in starts for offset in offsets]
        return addresses, [slot_bytes * self.page_size] * len(addresses)

    def _page_view(self, index):
        """Returns the page that starts at slot `index` as a view, without copying."""
        lead = (slice(None),) if self.kind == "mha" else ()
        if self.layout == "layer_first":
            return self.kv_buffer[lead + (slice(None), slice(index, index + self.page_size))]
        if self.layout == "page_first":
            return self.kv_buffer[lead + (slice(index, index + self.page_size),)]
        page = index // self.page_size
        return self.kv_buffer[lead + (slice(page, page + 1),)]

    def get_data_page(self, index, flat=True):
        """Returns a copy (flat) or a view of the page that starts at slot `index`."""
        page = self._page_view(int(index))
        return page.flatten() if flat else page

    def get_dummy_flat_data_page(self):
        """Returns zeros of one page's size, to be filled and given to `set_from_flat_data_page`."""
        return np.zeros(self.page_bytes // self.dtype.itemsize, dtype=self.dtype).view(HostTensor)

    def set_from_flat_data_page(self, index, data_page):
        """Writes a flat page, in the order `get_data_page` gives, to the page that starts at slot `index`."""
        view = self._page_view(int(index))
        view[...] = np.asarray(data_page).reshape(view.shape)

    def page_pieces(self, page):
        """Returns the pieces of a page number as writable uint8 views, in their order."""
        memory = np.frombuffer(self._memory, dtype=np.uint8)
        base = self.kv_buffer.data_ptr()
        addresses, lengths = self.get_page_buffer_meta(self.page_indices([page]))
        return [memory[a - base : a - base + n] for a, n in zip(addresses, lengths)]

    def close(self):
        """Drops the pool's own references; the memory goes when the last view of it does."""
        self.kv_buffer = None
        self._memory = None
