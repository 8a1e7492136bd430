"""Whom a task waits for: by its partitions, whatever number they were under."""

from __future__ import annotations

import pytest

from connect_runtime.api import context
from connect_runtime.base import ids
from mm2.core import java_left

FOR_S = 120.0
HOUR_MS = 3_600_000
NOW_MS = 10 * HOUR_MS


def run(began_ms=HOUR_MS, **given):
    return context.OthersRun(**{"worker_id": "java", "began_ms": began_ms, **given})


def given(*commits):
    """What tasks were configured with: (when, partitions of task 0, of task 1, …)."""
    found: dict[int, list[context.TaskGiven]] = {}
    for at_ms, *shares in commits:
        for number, share in enumerate(shares):
            each = context.TaskGiven(
                config={"task.assigned.partitions": share, "null": None}, at_ms=at_ms
            )
            found.setdefault(number, []).append(each)
    return found


BEGINNING = given((0, "a-0", "b-0"))
"""Task 0 has a-0, task 1 has b-0, since ever."""


def left(partitions="a-0", **told):
    runs = context.LastRuns(**{"given": BEGINNING, **told})
    topics = [each.rpartition("-") for each in partitions.split(",")]
    asks = java_left.Asks(
        partitions=[ids.TopicPartition(topic, int(number)) for topic, _, number in topics],
        for_s=FOR_S,
        wall_ms=NOW_MS,
    )
    return java_left.left_by_java(runs, asks)


def open_run(began_ms=HOUR_MS, **told):
    return {java_left.Left(**{"worker_id": "java", "began_ms": began_ms, **told})}


def test_a_group_that_java_was_never_in():
    assert left() == set()
    assert left(ours={0: HOUR_MS}) == set()


def test_who_never_said_that_it_ended_is_waited_for():
    assert left(others={0: run()}) == open_run()


def test_who_ended_in_order_is_not():
    assert left(others={0: run(ended_ms=HOUR_MS + 1)}) == set()


@pytest.mark.parametrize(("lasted_ms", "waits"), [(119_999, True), (120_000, False)])
def test_whoever_it_took_the_task_from_may_still_send(lasted_ms, waits):
    ended_ms = NOW_MS - 60_000
    taken = run(ended_ms - lasted_ms, ended_ms=ended_ms, overlaps=True)
    assert left(others={0: taken}) == (open_run(ended_ms - lasted_ms) if waits else set())


def test_what_ended_long_ago_left_nothing_of_whoever_it_took_the_task_from():
    assert left(others={0: run(ended_ms=HOUR_MS + 1, overlaps=True)}) == set()


def test_tasks_that_java_has_are_not_waited_for_by_those_with_other_partitions():
    assert left(ours={0: 2 * HOUR_MS}, others={1: run()}) == set()
    assert left(others={0: run(ended_ms=2 * HOUR_MS), 1: run()}) == set()
    assert left("c-0", others={0: run(), 1: run()}) == set()


MOVED = given((0, "a-0", "b-0"), (3 * HOUR_MS, "a-0,b-0", "c-0"))
"""Then b-0 moves from task 1 to task 0."""


@pytest.mark.parametrize(
    "told",
    [
        {"ours": {0: 2 * HOUR_MS}},
        {"others": {0: run(ended_ms=2 * HOUR_MS)}},
        {},
    ],
    ids=["ran by ours", "ended in order", "nobody ran it"],
)
def test_a_partition_from_another_task_is_waited_for_however_its_new_task_was_run(told):
    others = {1: run(), **told.get("others", {})}
    both = {**told, "others": others, "given": MOVED}
    assert left("a-0,b-0", **both) == open_run()
    assert left("a-0", **both) == set(), "its own is not"


def test_what_a_task_of_ours_has_waited_for_is_ours():
    settled = {"given": MOVED, "others": {1: run()}, "ours": {0: 4 * HOUR_MS}}
    assert left("a-0,b-0", **settled) == set()


def test_what_java_took_back_since_is_waited_for_again():
    back = given((0, "a-0", "b-0"), (3 * HOUR_MS, "", "a-0,b-0"), (5 * HOUR_MS, "a-0", "b-0"))
    told = {"given": back, "ours": {0: 2 * HOUR_MS}, "others": {1: run(4 * HOUR_MS)}}
    assert left("a-0", **told) == open_run(4 * HOUR_MS)


def test_a_worker_of_java_that_began_with_what_is_configured_now_has_nothing_of_ours():
    """However often it begins again."""
    told = {"given": MOVED, "ours": {0: 2 * HOUR_MS}}
    assert left("a-0,b-0", others={1: run(3 * HOUR_MS)}, **told) == set()


def test_whom_a_run_overlaps_may_have_had_what_its_task_had_before():
    told = {"given": MOVED, "others": {1: run(3 * HOUR_MS, overlaps=True)}}
    assert left("a-0,b-0", **told) == open_run(3 * HOUR_MS)


@pytest.mark.parametrize(
    "lost",
    [
        {},
        given((2 * HOUR_MS, "x-0", "x-1")),
        given((-1, "x-0", "x-1")),
        given((0, "no partition", "none")),
    ],
    ids=["nothing", "compacted away", "no time", "unreadable"],
)
def test_what_a_run_had_may_not_be_known_any_more(lost):
    found = left("a-0", given=lost, others={1: run()}, ours={0: 2 * HOUR_MS})
    assert found == open_run()
    assert [each.sure for each in found] == [False]
    assert [each.sure for each in left("b-0", others={1: run()})] == [True]


def test_where_it_is_not_known_what_is_ours_since_is_ours():
    told = {0: BEGINNING[0]}
    assert left(given=told, others={1: run()}, ours={0: 2 * HOUR_MS}) == set()


def test_all_are_waited_for():
    found = left("a-0,b-0", others={0: run(), 1: run(2 * HOUR_MS)})
    assert found == open_run() | open_run(2 * HOUR_MS)


@pytest.mark.parametrize(("ago_s", "waits"), [(719, True), (720, False)])
def test_a_task_that_is_removed_is_waited_for_until_that_is_long_ago(ago_s, waits):
    removed = run(removed_ms=NOW_MS - ago_s * 1000)
    assert left("b-0", others={1: removed}) == (open_run() if waits else set())


@pytest.mark.parametrize(
    ("from_h", "to_h", "waits"),
    [
        (2, 50, False),  # days later
        (2, 2.1, True),  # clocks may differ
        (1, 50, True),  # it began after the last leader that is known of
    ],
)
def test_a_group_without_a_leader_for_long_is_gone(from_h, to_h, waits):
    quiet = context.Quiet(from_ms=from_h * HOUR_MS, to_ms=round(to_h * HOUR_MS))
    assert left(others={0: run()}, quiet=quiet) == (open_run() if waits else set())


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, 120.0), ("2147483647", 120.0), ("4000", 4.0), (" 600000 ", 600.0), ("soon", 120.0)],
)
def test_how_long_a_producer_tries(text, expected):
    props = {} if text is None else {java_left.DELIVERY_TIMEOUT: text}
    assert java_left.wait_s(props) == expected


def test_java_shares_the_work_while_a_run_has_not_ended():
    others = {2: run(), 0: run(), 1: run(ended_ms=2 * HOUR_MS), 4: run(removed_ms=NOW_MS)}

    def shared(number, quiet=None):
        runs = context.LastRuns(others=others, quiet=quiet)
        return java_left.shared_with(runs, number, for_s=FOR_S, wall_ms=NOW_MS)

    assert shared(3) == (0, 2)
    assert shared(2) == (0,)
    days = context.Quiet(from_ms=2 * HOUR_MS, to_ms=50 * HOUR_MS)
    assert shared(3, days) == (), "nobody was in the group before ours"
