"""peercache.Node: keys, buffers, statuses, errors."""

import array
import logging
import time

import numpy as np
import pytest
from conftest import small_options

import peercache
from peercache import KeyStatus, _native


def test_one_key_is_put_found_and_read(node):
    data = bytes(range(256)) * 32
    assert not node.exists("k")
    assert list(node.put("k", data)) == [KeyStatus.STORED]
    assert node.exists("k")
    out = bytearray(len(data))
    assert list(node.get("k", out)) == [KeyStatus.HIT_OWN]
    assert bytes(out) == data


def test_a_second_put_of_a_key_copies_nothing(node):
    assert node.put("k", b"a" * 4096)[0] == KeyStatus.STORED
    assert node.put("k", b"b" * 4096)[0] == KeyStatus.HELD
    out = bytearray(4096)
    assert node.get("k", out) and out == b"a" * 4096


def test_str_and_bytes_name_the_same_key(node):
    node.put("kä", b"x" * 64)
    assert node.exists("kä".encode())


def test_batches_answer_in_order(node):
    keys = ["k%d" % i for i in range(7)]
    node.put(keys[:3] + keys[5:], [bytes([i]) * 4096 for i in range(5)])
    found = node.exists(keys)
    assert found.ok() == [True, True, True, False, False, True, True]
    assert found.leading == 3 and len(found) == 7 and not found
    assert found[-1] == KeyStatus.HIT_OWN and found[3] == KeyStatus.MISS
    assert np.frombuffer(found, dtype=np.uint8).tolist() == [1, 1, 1, 3, 3, 1, 1]
    with pytest.raises(IndexError):
        found[7]


def test_no_keys_is_no_work(node):
    assert len(node.exists([])) == 0 and node.exists([]).leading == 0
    assert len(node.put([], [])) == 0 and len(node.get([], [])) == 0


def test_an_object_may_lie_in_pieces(node):
    pieces = [bytes([7]) * 100, np.arange(50, dtype=np.uint16), array.array("I", range(9)), b""]
    assert node.put(["k"], [pieces])
    parts = [bytearray(36), np.zeros(200, dtype=np.uint8)]
    assert node.get(["k"], [tuple(parts)])
    joined = bytes([7]) * 100 + pieces[1].tobytes() + pieces[2].tobytes()
    assert bytes(parts[0]) + parts[1].tobytes() == joined


def test_addresses_with_lengths_are_buffers(node):
    source, target = np.arange(1024, dtype=np.uint8), np.zeros(1024, dtype=np.uint8)
    assert node.put("k", (source.ctypes.data, 1024))
    halves = [(target.ctypes.data, 512), (target.ctypes.data + 512, 512)]
    assert node.get(["k"], [halves])
    assert (source == target).all()


def test_one_buffer_is_cut_evenly_for_many_keys(node):
    source, target = np.arange(4096, dtype=np.uint16), np.zeros(4096, dtype=np.uint16)
    keys = ["a", "b", "c", "d"]
    assert node.put(keys, source) and node.get(keys, target)
    assert (source == target).all()
    with pytest.raises(peercache.ArgumentError, match="8192 bytes cannot be cut evenly for 3"):
        node.put(["a", "b", "c"], source)


class Tensor:
    """What a torch tensor shows of itself."""

    def __init__(self, memory, device="cpu", contiguous=True):
        self.memory, self.device, self.contiguous = memory, device, contiguous

    def data_ptr(self):
        return self.memory.ctypes.data

    def numel(self):
        return self.memory.size

    def element_size(self):
        return self.memory.itemsize

    def is_contiguous(self):
        return self.contiguous


def test_cpu_tensors_are_buffers(node):
    source, target = np.arange(512, dtype=np.uint16), np.zeros(512, dtype=np.uint16)
    assert node.put("k", Tensor(source)) and node.get("k", Tensor(target))
    assert (source == target).all()


@pytest.mark.parametrize(
    "buffer,words",
    [
        (Tensor(np.zeros(4), device="cuda:0"), "not in the host's memory"),
        (Tensor(np.zeros(4), contiguous=False), "not contiguous"),
        (b"read only", "bytes"),
        (np.zeros((4, 4))[:, 1], "contiguous"),
        (5, "int is no buffer"),
        (None, "NoneType is no buffer"),
        ((0, 16), "address 0"),
        ((-5, 16), "two integers"),
        ((16, 1 << 32), "4 GiB"),
        ([bytearray(), "x"], "str is no buffer"),
    ],
)
def test_what_is_no_buffer_is_refused(node, buffer, words):
    with pytest.raises(peercache.ArgumentError, match=words) as caught:
        node.get(["k"], [buffer])
    assert caught.value.code == 9001 and isinstance(caught.value, ValueError)


@pytest.mark.parametrize("keys", [5, None, [5], ["a", None], {"a": 1}])
def test_what_is_no_key_is_refused(node, keys):
    with pytest.raises(peercache.CallError) as caught:
        node.exists(keys)
    assert caught.value.code == 1 and caught.value.reason == "invalid argument"


def test_counts_must_agree(node):
    with pytest.raises(peercache.ArgumentError, match="1 buffers for 2 keys"):
        node.put(["a", "b"], [b"x"])


def test_an_object_without_bytes_is_refused(node):
    with pytest.raises(peercache.PeerCacheError) as caught:
        node.put("k", b"")
    assert caught.value.code in (9001, 3004)
    assert not node.exists("k")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 1e9])
def test_time_outs_are_positive(node, seconds):
    with pytest.raises(peercache.CallError, match="positive number of seconds"):
        node.exists(["k"], timeout=seconds)
    with pytest.raises(TypeError):
        node.exists(["k"], timeout="soon")


def test_remove_and_clear_drop_objects(node):
    keys = ["a", "b", "c"]
    node.put(keys, [b"x" * 4096] * 3)
    node.remove("b")
    assert node.exists(keys).ok() == [True, False, True]
    node.clear()
    assert node.exists(keys).ok() == [False] * 3
    node.flush()


def test_an_object_of_another_size_is_a_miss(node):
    node.put("k", b"x" * 4096)
    assert node.get("k", bytearray(4095))[0] == KeyStatus.MISS


def test_stats_count_what_was_done(node):
    node.put(["a", "b"], [b"x" * 4096] * 2)
    node.get(["a", "c"], [bytearray(4096), bytearray(4096)])
    stats = node.stats()
    assert stats["put_stored_count"] == 2 and stats["put_bytes"] == 8192
    assert stats["get_hits_own_count"] == 1 and stats["get_misses_count"] == 1
    assert stats["node_id"] == node.node_id
    assert [peer for peer in stats["peers"] if peer["node_id"] != node.node_id] == []
    assert node.members_up >= 1 and ":" in node.control_address


def test_a_closed_node_says_so(node):
    node.close()
    node.close()
    for call in (
        lambda: node.exists("k"),
        lambda: node.put("k", b"x"),
        lambda: node.get("k", bytearray(1)),
        lambda: node.flush(),
    ):
        with pytest.raises(peercache.CallError) as caught:
            call()
        assert caught.value.reason == "closed"


def test_leaving_the_block_closes(runtime_dir):
    with peercache.Node(small_options(runtime_dir)) as node:
        pass
    with pytest.raises(peercache.CallError):
        node.exists("k")


@pytest.mark.parametrize(
    "options,words",
    [
        ({"pool_byte": 1}, "pool_bytes"),
        ({"pool_bytes": "many"}, "pool_bytes"),
        ({"vnodes": -1}, "vnodes"),
        ({"verify": "maybe"}, "verify"),
        ({"members": object()}, "JSON"),
        ({"log_level": "loud"}, "log_level"),
        ({"namespace": 3}, "namespace"),
    ],
)
def test_wrong_options_are_refused_by_name(options, words):
    with pytest.raises(peercache.ConfigError, match=words):
        peercache.Node(options)


def test_an_option_given_twice_is_refused():
    with pytest.raises(peercache.ConfigError, match="given twice"):
        peercache.Node({"vnodes": 1}, vnodes=2)


def test_a_pool_too_small_for_an_object_is_an_error(runtime_dir):
    with peercache.Node(small_options(runtime_dir, pool_bytes=1 << 20)) as node:
        with pytest.raises(peercache.PeerCacheError):
            node.put("k", bytes(4 << 20))
        assert not node.exists("k")


def test_every_class_of_error_has_the_base():
    for name in peercache.__all__:
        thing = getattr(peercache, name)
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert issubclass(thing, peercache.PeerCacheError), name


def test_logs_reach_the_logger(caplog):
    with caplog.at_level(logging.INFO, "peercache"):
        _native._write_log("a line of the core: ä")
        end = time.monotonic() + 5
        while not caplog.records and time.monotonic() < end:
            time.sleep(0.01)
    (record,) = caplog.records
    assert record.getMessage() == "a line of the core: ä"
    assert record.name == "peercache" and record.levelno == logging.INFO
    assert record.filename == "bind_process.cc" and record.lineno > 0
    assert abs(record.created - time.time()) < 60
