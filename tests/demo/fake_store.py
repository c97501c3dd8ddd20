"""A stand-in for `peercache.store.PeerCacheStore` that shares pages through files.

The demo never uses it. The folder comes from FAKE_STORE_DIR. FAKE_STORE_FLAW plants a fault in the
last node, so that tests see the demo notice it: "flip" (a wrong byte), "late" (a get that outlives
its deadline), "short" (a list with too few entries), "crash" (the process dies).
"""

import ctypes
import os
import time

_NODE_BYTES = 4


class FakeStore:
    def __init__(self, storage_config, extra=None):
        options = dict(storage_config.extra_config, **(extra or {}))
        self._folder = os.environ["FAKE_STORE_DIR"]
        self._me = options["node_id"].rpartition("-")[2]
        last = int(self._me) == len(options["members"]) - 1
        self._flaw = os.environ.get("FAKE_STORE_FLAW", "") if last else ""
        self._gets = 0
        self._stats = dict.fromkeys(
            ("get_hits_own_count", "get_hits_peer_count", "pool_objects_count", "put_stored_count"),
            0,
        )

    def stats(self):
        peers = [{"transport": "files", "objects_count": self._stats["get_hits_peer_count"]}]
        return dict(self._stats, peers=peers, members_up_count=1, huge_pages="4 KiB")

    def register_mem_pool_host(self, pool):
        self._pool = pool

    def _path(self, key):
        return os.path.join(self._folder, key)

    def batch_exists(self, keys, extra_info=None):
        return next((i for i, k in enumerate(keys) if not os.path.exists(self._path(k))), len(keys))

    def _pages(self, keys, indices):
        addresses, lengths = self._pool.get_page_buffer_meta(indices)
        each = len(addresses) // len(keys)
        for i, key in enumerate(keys):
            yield key, list(zip(addresses, lengths))[i * each : (i + 1) * each]

    def batch_get_v1(self, keys, host_indices, extra_info=None):
        results = []
        for key, pieces in self._pages(keys, host_indices):
            try:
                with open(self._path(key), "rb") as file:
                    owner, data = file.read(_NODE_BYTES), file.read()
            except FileNotFoundError:
                results.append(False)
                continue
            at = 0
            for address, length in pieces:
                ctypes.memmove(address, data[at : at + length], length)
                at += length
            own = int.from_bytes(owner, "little") == int(self._me)
            self._stats["get_hits_own_count" if own else "get_hits_peer_count"] += 1
            results.append(True)
        self._gets += 1
        return self._spoil(results, pieces) if self._flaw and self._gets == 2 else results

    def _spoil(self, results, pieces):
        if self._flaw == "flip":
            byte = ctypes.c_ubyte.from_address(pieces[-1][0] + 77)
            byte.value ^= 0x10
        elif self._flaw == "late":
            time.sleep(1.7)
        elif self._flaw == "crash":
            os.abort()
        return results[:-1] if self._flaw == "short" else results

    def batch_set_v1(self, keys, host_indices, extra_info=None):
        for key, pieces in self._pages(keys, host_indices):
            if os.path.exists(self._path(key)):
                continue
            partial = f"{self._path(key)}.{self._me}"
            with open(partial, "wb") as file:
                file.write(int(self._me).to_bytes(_NODE_BYTES, "little"))
                for address, length in pieces:
                    file.write(ctypes.string_at(address, length))
            os.rename(partial, self._path(key))
            self._stats["pool_objects_count"] += 1
            self._stats["put_stored_count"] += 1
        return [True] * len(keys)

    def close(self):
        pass
