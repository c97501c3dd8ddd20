"""Page contents: every byte counts, and everything that identifies a page changes all of it."""

import random

import numpy as np
import pytest

from demo_lib.host_pool import HostPool
from demo_lib.pattern import BLOCK_WORDS, Pattern

KEY = "ab" * 32


def _page(*words):
    return [np.zeros(n, dtype=np.uint64) for n in words]


def test_a_filled_page_is_right_and_not_constant():
    pieces = _page(BLOCK_WORDS + 512, BLOCK_WORDS * 2)
    pattern = Pattern("model", 0)
    pattern.fill(KEY, pieces)
    assert pattern.wrong_bytes(KEY, pieces) == 0
    words = np.concatenate(pieces)
    assert len(np.unique(words)) == len(words)  # each 8 bytes depend on their offset


def test_a_flipped_bit_anywhere_shows():
    pieces = _page(1024, BLOCK_WORDS)
    pattern = Pattern("model", 0)
    pattern.fill(KEY, pieces)
    rng = random.Random(5)
    total = sum(piece.nbytes for piece in pieces)
    for at in [0, 8191, 8192, total - 1] + [rng.randrange(total) for _ in range(200)]:
        piece, offset = (pieces[0], at) if at < 8192 else (pieces[1], at - 8192)
        piece.view(np.uint8)[offset] ^= 1 << rng.randrange(8)
        assert pattern.wrong_bytes(KEY, pieces) == 1
        pattern.fill(KEY, pieces)


@pytest.mark.parametrize(
    "other",
    [("model", 0, "ac" + KEY[2:]), ("model 2", 0, KEY), ("model", 1, KEY)],
    ids=["key", "namespace", "rank"],
)
def test_key_namespace_and_rank_change_every_word(other):
    mine, theirs = _page(4096), _page(4096)
    Pattern("model", 0).fill(KEY, mine)
    namespace, rank, key = other
    Pattern(namespace, rank).fill(key, theirs)
    assert not np.any(mine[0] == theirs[0])


def test_pieces_in_the_wrong_order_show():
    pieces = _page(512, 512)
    pattern = Pattern("model", 0)
    pattern.fill(KEY, pieces)
    assert pattern.wrong_bytes(KEY, pieces[::-1]) > 8000


def test_a_torn_page_shows_where_it_is_torn():
    pieces, old = _page(4096), _page(4096)
    pattern = Pattern("model", 0)
    pattern.fill(KEY, pieces)
    pattern.fill("00" * 32, old)
    pieces[0][3000:] = old[0][3000:]
    assert 0.97 * 8 * 1096 < pattern.wrong_bytes(KEY, pieces) <= 8 * 1096


def test_contents_do_not_depend_on_how_a_page_is_cut():
    whole, cut = _page(BLOCK_WORDS * 2), _page(100, BLOCK_WORDS, BLOCK_WORDS - 100)
    pattern = Pattern("model", 0)
    pattern.fill(KEY, whole)
    pattern.fill(KEY, cut)
    assert np.array_equal(whole[0], np.concatenate(cut))


@pytest.mark.parametrize(
    "kind,layout", [("mha", "layer_first"), ("mha", "page_head"), ("mla", "page_first")]
)
def test_the_pages_of_a_host_pool_do_not_touch_each_other(kind, layout):
    pool = HostPool(kind, layout, page_size=16, page_num=3, layer_num=2, head_num=2, head_dim=32)
    pages = [[p.view("uint64") for p in pool.page_pieces(i)] for i in range(3)]
    pattern = Pattern("model", 0)
    for i, pieces in enumerate(pages):
        assert sum(piece.nbytes for piece in pieces) == pool.page_bytes
        pattern.fill(f"{i:064x}", pieces)
    assert [pattern.wrong_bytes(f"{i:064x}", p) for i, p in enumerate(pages)] == [0, 0, 0]
