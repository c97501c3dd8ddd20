"""Which hits were possible, sums, percentiles, and what is held against a deadline."""

import collections

from demo_lib.accounting import NodeTally, Published, Tally, percentile
from demo_lib.trace import Request
from demo_lib.work_queue import THINK_S, WorkQueue


def _request(index, keys, after=-1):
    return Request(index, 0, 0, after, 0, 64 * len(keys) + 10, tuple(keys))


def _report(hit=0, own=0, exists_at=100, **more):
    times = collections.Counter(exists=1000, get=4000)
    report = dict(
        hit=hit,
        own=own,
        exists_at=exists_at,
        wrong=0,
        checked=hit,
        not_written=0,
        calls=2,
        pool_pages=9,
        transports=["shm"],
        times=times,
        outlived=[],
        reads=[[exists_at + 1, exists_at + 5]],
    )
    return dict(report, **more)


def test_percentile_is_the_nearest_rank():
    assert percentile([], 0.5) == 0.0
    assert percentile([7], 0.99) == 7
    assert percentile(list(range(1, 101)), 0.5) == 50
    assert percentile(list(range(1, 101)), 0.99) == 99


def test_possible_is_a_leading_run_of_what_was_set_before():
    published = Published()
    published.note(0, "abd", "111", 10)
    published.note(1, "c", "1", 30)
    assert published.possible("abcd", 20) == 2  # c came later, so d does not count
    assert published.possible("abcd", 31) == 4
    assert published.possible("abcd", 10) == 0  # returned in the very moment: not before
    assert published.possible("xab", 99) == 0


def test_a_page_that_was_not_stored_is_not_possible():
    published = Published()
    published.note(0, "ab", "10", 10)
    assert published.possible("ab", 20) == 1


def test_the_first_set_of_a_page_counts_whatever_order_reports_come_in():
    published = Published()
    published.note(0, "a", "1", 50)
    published.note(1, "a", "1", 40)
    published.note(2, "a", "1", 60)
    assert published.possible("a", 45) == 1
    assert published.held_by(1, "a") == 1 and published.held_by(0, "a") == 0


def test_requests_are_judged_when_all_earlier_sets_are_known():
    tally = Tally(2, 1000)
    tally.done(1, _request(0, "abc"), _report(hit=2, exists_at=100), 1.0, None)
    tally.judge(100)
    assert tally.possible == 0
    tally.published.note(0, "abc", "111", 90)
    tally.judge(101)
    assert (tally.possible, tally.hits_of_possible) == (3, 2)
    tally.judge(float("inf"))
    assert tally.possible == 3


def test_hits_add_up_to_what_was_asked():
    tally = NodeTally(1000)
    tally.add(_request(0, "abcdefgh"), _report(hit=5, own=2), 1.0, True)
    assert (tally.requested, tally.own, tally.peer, tally.missed) == (8, 2, 3, 3)
    assert tally.hit_bytes == 5000 and tally.checked_bytes == 5000
    assert tally.prefetch_us == [5.0]
    assert tally.gb_per_s() == 5000 / 4000


def test_a_call_that_outlived_its_deadline_is_told_with_how_late_it_was():
    tally = Tally(1, 1000)
    late = [["get", 0, 3_000_000_000, 1_000_000_000]]
    tally.done(0, _request(0, "a"), _report(outlived=late), 1.0, None)
    assert tally.outlived == [(0, "get", 2000.0)]


def test_a_frozen_nodes_own_clock_is_not_held_against_it():
    late = [["get", 100, 3_000_000_000, 1_000_000_000]]
    report = _report(hit=1, outlived=late, reads=[[100, 3_000_000_000]])
    tally = Tally(1, 1000)
    tally.done(0, _request(0, "a"), report, 1.0, (1_000, 2_900_000_000))
    assert tally.outlived == [] and tally.nodes[0].prefetch_us == []
    tally.done(0, _request(1, "a"), report, 1.0, (4_000_000_000, 5_000_000_000))
    assert len(tally.outlived) == 1


class _ByIndex:
    """Routes request i to node i % 2."""

    def assign(self, request):
        return request.index % 2


def _queue(*afters, clock=lambda: 0.0):
    source = (_request(i, str(i), after) for i, after in enumerate(afters))
    return WorkQueue(source, _ByIndex(), 2, clock)


def test_a_request_waits_for_the_one_it_follows():
    now = [5.0]
    queue = _queue(-1, 0, -1, -1, clock=lambda: now[0])
    assert queue.next_for(1).index == 3
    assert queue.next_for(1) is None
    first = queue.next_for(0)
    assert first.index == 0
    queue.note_over(first)
    assert queue.next_for(1) is None
    now[0] += THINK_S + 0.001
    assert queue.next_for(1).index == 1


def test_a_request_that_begins_like_one_under_way_waits_for_it():
    now = [5.0]
    source = (_request(i, keys) for i, keys in enumerate(["ab", "ac", "xy", "ad"]))
    queue = WorkQueue(source, _ByIndex(), 2, lambda: now[0])
    first = queue.next_for(0)
    assert first.index == 0 and queue.next_for(1) is None and queue.next_for(0).index == 2
    queue.put_back([first], 0)  # its node was lost
    assert queue.next_for(0) is first
    queue.note_over(first)
    assert queue.next_for(1) is None
    now[0] += THINK_S + 0.001
    assert [queue.next_for(1).index, queue.next_for(1).index] == [1, 3]  # at the same time


def test_requests_of_a_lost_node_go_to_the_others_in_order():
    queue = _queue(*[-1] * 6)
    lost = queue.next_for(0)
    queue.put_back([lost], 0)
    queue.move_away(0, [1])
    assert [queue.next_for(1).index for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    assert queue.moved == 3 and queue.next_for(0) is None and queue.exhausted
