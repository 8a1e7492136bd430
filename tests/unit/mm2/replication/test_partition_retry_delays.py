from __future__ import annotations

from mm2.replication import partition_retry_delays
from mm2.replication.partition_halt_messages import HaltCause
from mm2.replication.partition_retry_delays import RetryCounter

REFUSED, HANGING = HaltCause.REFUSED_BY_TARGET, HaltCause.HANGING_TRANSACTION


def test_what_comes_again_and_again_is_counted():
    found = RetryCounter()
    assert [found.count_problem_occurrence(REFUSED, now_s) for now_s in (1.0, 2.0, 62.0)] == [
        0,
        1,
        2,
    ]
    assert found.is_problem_repeated(REFUSED, 100.0)
    assert not found.is_problem_repeated(HANGING, 100.0)


def test_what_stayed_away_for_long_begins_anew():
    found = RetryCounter()
    found.count_problem_occurrence(REFUSED, 1.0)
    assert (
        found.count_problem_occurrence(REFUSED, 1.1 + partition_retry_delays.RETRY_COUNTER_RESET_S)
        == 0
    )


def test_while_nothing_is_tried_the_row_goes_on():
    found = RetryCounter()
    found.count_problem_occurrence(REFUSED, 1.0)
    found.keep_count_past_next_attempt(601.0)
    assert found.count_problem_occurrence(REFUSED, 650.0) == 1


def test_another_cause_begins_another_row():
    found = RetryCounter()
    found.count_problem_occurrence(REFUSED, 1.0)
    assert [
        found.count_problem_occurrence(HANGING, 2.0),
        found.count_problem_occurrence(REFUSED, 3.0),
    ] == [0, 0]


def test_a_row_can_be_ended():
    found = RetryCounter()
    found.count_problem_occurrence(REFUSED, 1.0)
    found.reset_problem_count()
    assert not found.is_problem_repeated(REFUSED, 1.0)
