from __future__ import annotations

import pytest

from connect_runtime.api import context
from mm2.core import java_left

FOR_S = 120.0
HOUR_MS = 3_600_000


def run(began_ms=HOUR_MS, **given):
    return context.OthersRun(worker_id="java", began_ms=began_ms, **given)


def left(number=0, **given):
    return java_left.left_by_java(context.LastRuns(**given), number, for_s=FOR_S)


OPEN = java_left.Left(worker_id="java", began_ms=HOUR_MS)


def test_a_group_that_java_was_never_in():
    assert left() is None
    assert left(ours=frozenset({0})) is None


def test_who_never_said_that_it_ended_is_waited_for():
    assert left(others={0: run()}) == OPEN


def test_who_ended_in_order_is_not():
    assert left(others={0: run(ended_ms=HOUR_MS + 1)}) is None


@pytest.mark.parametrize(("lasted_ms", "waits"), [(119_999, True), (120_000, False)])
def test_whoever_it_took_the_task_from_may_still_send(lasted_ms, waits):
    taken = run(ended_ms=HOUR_MS + lasted_ms, overlaps=True)
    assert left(others={0: taken}) == (OPEN if waits else None)


def test_a_task_of_ours_does_not_wait_for_those_that_java_has():
    assert left(ours=frozenset({0}), others={1: run()}) is None


def test_a_task_that_java_ended_does_not_wait_for_those_that_it_has():
    assert left(others={0: run(ended_ms=2 * HOUR_MS), 1: run()}) is None


def test_a_task_that_nobody_ran_waits_for_any_since_its_partitions_may_have_been_there():
    newer = run(began_ms=2 * HOUR_MS)
    found = left(5, ours=frozenset({2}), others={0: run(), 1: newer})
    assert found == java_left.Left(worker_id="java", began_ms=2 * HOUR_MS)
    assert left(5, others={0: run(ended_ms=2 * HOUR_MS)}) is None


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
    assert left(others={0: run()}, quiet=quiet) == (OPEN if waits else None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, 120.0), ("2147483647", 120.0), ("4000", 4.0), (" 600000 ", 600.0), ("soon", 120.0)],
)
def test_how_long_a_producer_tries(text, expected):
    props = {} if text is None else {java_left.DELIVERY_TIMEOUT: text}
    assert java_left.wait_s(props) == expected


def test_java_shares_the_work_while_a_run_has_not_ended():
    runs = context.LastRuns(others={2: run(), 0: run(), 1: run(ended_ms=2 * HOUR_MS)})
    assert java_left.shared_with(runs, 3) == (0, 2)
    assert java_left.shared_with(runs, 2) == (0,)
