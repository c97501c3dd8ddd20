"""Requests: generated and replayed, their keys, and where they are routed."""

import collections
import hashlib
import itertools
import json

import pytest

from demo_lib import routing, trace


def _take(count, seed=1):
    return list(itertools.islice(trace.generate(seed), count))


def _write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_generate_repeats_with_its_seed():
    assert _take(120) == _take(120)
    assert _take(60) == _take(120)[:60]
    assert [r.keys for r in _take(60, seed=2)] != [r.keys for r in _take(60)]


def test_generate_keys_are_chained_digests_of_whole_pages():
    for request in _take(50):
        assert len(request.keys) == request.tokens // 64
        assert all(len(key) == 64 and int(key, 16) >= 0 for key in request.keys)


def test_chain_hashes_like_a_serving_engine():
    tokens = trace.token_bytes("any", 150)
    chain = trace.Chain()
    chain.extend(tokens[:40])  # pieces of any length give the same keys
    chain.extend(tokens[40:])
    first = hashlib.sha256(tokens[:256])
    second = hashlib.sha256(first.digest() + tokens[256:512])
    assert chain.keys == [first.hexdigest(), second.hexdigest()]


def test_tokens_are_below_the_size_of_a_vocabulary():
    data = trace.token_bytes("any", 500)
    values = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    assert max(values) < 1 << 17 and len(set(values)) > 450


def test_generate_turns_extend_the_turn_before():
    requests = _take(200)
    follow = [r for r in requests if r.after >= 0]
    assert len(follow) > 80
    for request in follow:
        before = requests[request.after]
        assert before.conversation == request.conversation
        assert request.keys[: len(before.keys)] == before.keys


def test_generate_reuse_is_heavy_tailed():
    uses = collections.Counter(key for r in _take(400) for key in r.keys)
    counts = sorted(uses.values(), reverse=True)
    top = sum(counts[: len(counts) // 100])
    assert top > 0.1 * sum(counts)  # 1 % of the pages are a tenth of all reads and more
    assert sum(c == 1 for c in counts) > 0.1 * len(counts)


def test_replay_makes_eight_keys_of_a_block(tmp_path):
    path = _write(
        tmp_path / "t.jsonl",
        [
            {"timestamp": 0, "input_length": 1100, "output_length": 9, "hash_ids": [0, 1, 2]},
            {"timestamp": 7, "input_length": 1024, "output_length": 9, "hash_ids": [0, 1]},
            {"timestamp": 9, "input_length": 1024, "output_length": 9, "hash_ids": [3, 1]},
        ],
    )
    first, second, third = trace.replay(path)
    assert len(first.keys) == 24 and len(second.keys) == 16
    assert first.keys[:16] == second.keys
    assert not set(third.keys) & set(first.keys)  # the prefix is another one
    assert (first.tokens, second.tokens, second.timestamp_ms) == (1100, 1024, 7)
    tokens = trace.token_bytes("block 0", 512)
    assert first.keys[0] == hashlib.sha256(tokens[:256]).hexdigest()


def test_replay_finds_conversations(tmp_path):
    path = _write(
        tmp_path / "t.jsonl",
        [
            {"input_length": 2000, "hash_ids": [0, 1, 2, 3]},
            {"input_length": 2000, "hash_ids": [0, 8, 9, 10]},
            {"input_length": 3000, "hash_ids": [0, 1, 2, 4, 5, 6]},  # goes on where the first ended
            {"input_length": 4000, "hash_ids": [0, 1, 2, 4, 5, 7, 11, 12]},
        ],
    )
    requests = list(trace.replay(path))
    assert [(r.conversation, r.turn, r.after) for r in requests] == [
        (0, 0, -1),
        (1, 0, -1),
        (0, 1, 0),
        (0, 2, 2),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        "{}",
        '{"hash_ids": 3}',
        '{"hash_ids": []}',
        '{"hash_ids": ["a"]}',
        '{"hash_ids": [true]}',
        '{"hash_ids": [1], "input_length": "x"}',
        '{"hash_ids": [1], "input_length": -1}',
    ],
)
def test_replay_names_the_bad_line(tmp_path, line):
    path = tmp_path / "t.jsonl"
    path.write_text('{"hash_ids": [1], "input_length": 512}\n' + line + "\n")
    with pytest.raises(trace.TraceError, match=r"t\.jsonl:2: "):
        list(trace.replay(str(path)))


def test_replay_of_nothing_is_an_error(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("\n")
    with pytest.raises(trace.TraceError, match="no requests"):
        list(trace.replay(str(path)))


def _ideal_hits(requests, router):
    """Returns (own, peer) when each page is found where it was first assigned."""
    holder, own, peer = {}, 0, 0
    for request in requests:
        node = router.assign(request)
        for key in request.keys:
            if key in holder:
                own, peer = own + (holder[key] == node), peer + (holder[key] != node)
            holder.setdefault(key, node)
    return own, peer


@pytest.mark.parametrize("nodes", [2, 3, 4, 8])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_turns_takes_at_least_half_of_the_hits_from_peers(nodes, seed):
    own, peer = _ideal_hits(_take(400, seed), routing.Router("turns", nodes, seed))
    assert peer >= 0.6 * (own + peer)


def test_turns_changes_the_node_and_spreads_the_work():
    router = routing.Router("turns", 4, 1)
    last, work = {}, collections.Counter()
    for request in _take(400):
        node = router.assign(request)
        assert last.get(request.conversation) != node
        last[request.conversation] = node
        work[node] += len(request.keys)
    assert max(work.values()) < 1.5 * min(work.values())


def test_sticky_stays_and_round_robin_goes_round():
    sticky, turns = routing.Router("sticky", 3, 1), routing.Router("round-robin", 3, 1)
    nodes = {}
    for request in _take(100):
        assert nodes.setdefault(request.conversation, node := sticky.assign(request)) == node
        assert turns.assign(request) == request.index % 3


@pytest.mark.parametrize("policy", routing.POLICIES)
def test_routing_repeats(policy):
    requests = _take(100)
    first, second = (routing.Router(policy, 4, 7) for _ in range(2))
    assert [first.assign(r) for r in requests] == [second.assign(r) for r in requests]
    assert set(map(routing.Router(policy, 4, 7).assign, requests)) == {0, 1, 2, 3}


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="turns"):
        routing.Router("nearest", 4, 1)
