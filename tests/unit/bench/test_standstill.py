from __future__ import annotations

import pytest

from tests.bench import standstill
from tests.bench.standstill import Standstill

KILLED_S = 100.0


def seen(*heard: tuple[int, int, float], partitions: int = 2) -> Standstill:
    """Both partitions moved until the kill; then (partition, stamp, seconds since the kill)."""
    found = Standstill(partitions)
    for partition in range(partitions):
        found.hear(partition, 1, KILLED_S - 0.1)
    found.killed_s = KILLED_S
    for partition, stamp, after_s in heard:
        found.hear(partition, stamp, KILLED_S + after_s)
    return found


def steady(partition: int, *, until_s: float, since_s: float = 0.0) -> list[tuple[int, int, float]]:
    times = [since_s + step * 0.5 for step in range(round((until_s - since_s) * 2) + 1)]
    return [(partition, 1_000 + round(each * 10), each) for each in times]


def test_what_goes_on_does_not_count_and_what_stood_still_counts_until_it_moves():
    found = seen(*steady(0, until_s=30.0), *steady(1, since_s=12.5, until_s=30.0))
    assert found.again_s == {1: 12.5}
    assert not found.over(KILLED_S + 22.0)
    assert found.over(KILLED_S + 30.0)


def test_a_second_standstill_counts_to_its_end():
    found = seen(
        *steady(0, until_s=40.0),
        *steady(1, since_s=10.0, until_s=12.0),
        *steady(1, since_s=20.0, until_s=40.0),
    )
    assert found.again_s == {1: 20.0}


def test_a_record_that_comes_once_more_moves_nothing():
    found = seen(*steady(0, until_s=30.0), *((1, 1, each / 2) for each in range(60)))
    assert found.again_s == {}
    assert found.still(KILLED_S + 30.0) == [1]
    assert not found.over(KILLED_S + 30.0)


def test_it_is_not_over_while_nothing_has_stood_still_nor_while_something_does():
    assert not seen(*steady(0, until_s=30.0), *steady(1, until_s=30.0)).over(KILLED_S + 30.0)
    found = seen(*steady(0, until_s=8.0), *steady(1, since_s=5.0, until_s=30.0))
    assert found.still(KILLED_S + 30.0) == [0]
    assert not found.over(KILLED_S + 30.0)


def test_before_anything_has_come_all_stand_still():
    assert Standstill(3).still(0.0) == [0, 1, 2]


SENT = {0: [b"1", b"2"], 1: [b"1"]}


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (SENT, ""),
        ({0: [b"1", b"2"]}, "1 records lost"),
        ({0: [b"1", b"2", b"1"], 1: [b"1"]}, "1 records doubled"),
        ({0: [b"1", b"2", b"9"], 1: [b"1"]}, "1 records that the source has not"),
        ({0: [b"1"], 1: [b"1", b"2"]}, "1 records lost, 1 records that the source has not"),
    ],
)
def test_logs_are_compared_record_by_record(there, said):
    assert standstill.judge(SENT, there).fault(doubles_allowed=False) == said


def test_doubles_may_be_allowed_and_are_counted_all_the_same():
    found = standstill.judge(SENT, {0: [b"1", b"1", b"2", b"1"], 1: [b"1"]})
    assert (found.doubled, found.fault(doubles_allowed=True)) == (2, "")


TASKS = ["task-0", "task-1"]


@pytest.mark.parametrize(
    ("placed", "is_spread"),
    [
        ({"task-0": "one", "task-1": "two"}, True),
        ({"task-0": "one", "task-1": "one"}, False),
        ({"task-0": "one"}, False),
        ({"task-0": "one", "task-1": "two", "other": "three"}, True),
    ],
)
def test_tasks_are_spread_when_each_node_has_one(placed, is_spread):
    assert standstill.spread_over(placed, TASKS, 2) is is_spread
