"""Page contents that can be made and checked at memory speed, every 8 bytes of them.

Word w of a page is `table[w % 16384] ^ block(seed, w // 16384)`, where `seed` is a 64-bit hash of
key, namespace and rank, `table` holds mixed values and `block` mixes once more. So each 8 bytes
depend on key, namespace, rank and offset: another page's bytes, another rank's, a piece at the
wrong place, a torn page and a single flipped bit all show. Table and scratch (128 KiB each) stay
in the L2 cache: numpy makes 7 GB/s of it and checks as much on one core of the machine the numbers
in the README come from.
"""

import ctypes
import hashlib

import numpy as np

BLOCK_WORDS = 16384  # 128 KiB: at 32 KiB the calls' own cost took half of the speed
WORD_BYTES = 8

_MASK = (1 << 64) - 1
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcmp.restype = ctypes.c_int


def _mix(x):
    """Returns 64 well mixed bits of an integer (the finisher of SplitMix64)."""
    x &= _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _make_table():
    x = (np.arange(1, BLOCK_WORDS + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Pattern:
    """Writes and checks the contents of pages of one namespace and rank.

    Threads: one user at a time (it owns a scratch block); make one per thread.
    """

    def __init__(self, namespace, rank):
        self._prefix = f"{namespace}|{rank}|".encode()
        self._table = _make_table()
        self._scratch = np.empty(BLOCK_WORDS, dtype=np.uint64)
        self._scratch_address = self._scratch.ctypes.data

    def seed(self, key):
        """Returns the 64-bit seed of a key (a string)."""
        digest = hashlib.blake2b(self._prefix + key.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def _runs(self, seed, pieces):
        """Yields (piece, first word in it, words, first word in the table, block value)."""
        word = 0
        for piece in pieces:
            at = 0
            while at < piece.size:
                block, start = divmod(word, BLOCK_WORDS)
                count = min(piece.size - at, BLOCK_WORDS - start)
                value = np.uint64(_mix(seed + (block + 1) * 0x9E3779B97F4A7C15))
                yield piece, at, count, start, value
                at += count
                word += count

    def fill(self, key, pieces):
        """Writes the page of `key`.

        Args:
            pieces: contiguous uint64 arrays that concatenated are the page.
        """
        for piece, at, count, start, value in self._runs(self.seed(key), pieces):
            np.bitwise_xor(self._table[start : start + count], value, out=piece[at : at + count])

    def wrong_bytes(self, key, pieces):
        """Returns how many bytes of the page differ from what `fill` writes; 0 for a true page."""
        wrong = 0
        for piece, at, count, start, value in self._runs(self.seed(key), pieces):
            want = self._scratch[:count]
            np.bitwise_xor(self._table[start : start + count], value, out=want)
            address = piece.ctypes.data + at * WORD_BYTES
            if _memcmp(address, self._scratch_address, count * WORD_BYTES):
                got = piece[at : at + count]
                wrong += int(np.count_nonzero(got.view(np.uint8) != want.view(np.uint8)))
        return wrong
