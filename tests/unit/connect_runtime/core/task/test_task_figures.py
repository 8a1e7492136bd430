"""What is observed of a task, and what Java's attributes say of it then."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base import ids, sampled
from connect_runtime.core.state import status_records
from connect_runtime.core.task import metric_names, task_figures

SAMPLING = sampled.Sampling()
State = status_records.State
Trouble = task_figures.Trouble
P0, P1 = ids.TopicPartition("t", 0), ids.TopicPartition("t", 1)


def some(numbers, *names):
    return tuple(numbers[each] for each in names)


def test_all_attributes_of_their_groups_are_there_and_no_other():
    found = [
        (metric_names.TASK, task_figures.TaskFigures(SAMPLING, 0.0).numbers(1.0)),
        (metric_names.SOURCE_TASK, task_figures.SourceFigures(SAMPLING).numbers(1.0)),
        (metric_names.SINK_TASK, task_figures.SinkFigures(SAMPLING).numbers(1.0)),
        (metric_names.TASK_ERRORS, task_figures.ErrorFigures().numbers()),
    ]
    for group, numbers in found:
        assert numbers.keys() == group.numbers.keys(), group.name


def test_a_task_is_unassigned_until_it_says_otherwise():
    made = task_figures.TaskFigures(SAMPLING, 100.0)
    states = [made.state]
    made.entered(State.RUNNING, 101.0)
    assert [*states, made.state] == [State.UNASSIGNED, State.RUNNING]


def test_ratios_divide_the_time_since_the_task_was_made():
    made = task_figures.TaskFigures(SAMPLING, 100.0)
    made.entered(State.RUNNING, 102.0)
    made.entered(State.PAUSED, 106.0)
    assert some(made.numbers(110.0), "running-ratio", "pause-ratio") == (0.4, 0.4)


def test_only_commits_that_succeed_have_a_time():
    made = task_figures.TaskFigures(SAMPLING, 0.0)
    made.commit_ended(took_s=0.25, now_s=1.0)
    made.commit_ended(took_s=None, now_s=2.0)
    made.commit_ended(took_s=0.75, now_s=3.0)
    made.commit_ended(took_s=0.5, now_s=4.0)
    found = made.numbers(5.0)
    assert some(found, "offset-commit-max-time-ms", "offset-commit-avg-time-ms") == (750, 500)
    assert found["offset-commit-success-percentage"] == 0.75
    assert found["offset-commit-failure-percentage"] == 0.25


def test_batches():
    made = task_figures.TaskFigures(SAMPLING, 0.0)
    assert math.isnan(made.numbers(0.0)["batch-size-avg"])
    made.batch(4, 1.0)
    made.batch(8, 2.0)
    assert some(made.numbers(3.0), "batch-size-max", "batch-size-avg") == (8, 6)


def test_a_source_counts_what_it_polled_and_what_kafka_has():
    made = task_figures.SourceFigures(SAMPLING)
    made.polled(3, took_s=0.5, now_s=0.0)
    made.polled(0, took_s=0.1, now_s=1.0)
    made.written(2.0)
    made.left_out(3.0)
    found = made.numbers(10.0)
    totals = some(found, "source-record-poll-total", "source-record-write-total")
    assert totals == (3, 1)
    assert found["source-record-active-count"] == 1
    assert found["source-record-active-count-max"] == 3
    assert found["source-record-active-count-avg"] == (3 + 3 + 2 + 1) / 4
    assert some(found, "poll-batch-max-time-ms", "poll-batch-avg-time-ms") == (500, 300)
    rates = some(found, "source-record-poll-rate", "source-record-write-rate")
    assert rates == pytest.approx((3 / 40, 1 / 38))


def test_what_a_task_moves_itself_is_polled_and_written_at_once():
    made = task_figures.SourceFigures(SAMPLING)
    made.moved(700, 1.0)
    made.moved(50, 2.0)
    found = made.numbers(3.0)
    totals = some(found, "source-record-poll-total", "source-record-write-total")
    assert totals == (750, 750)
    assert found["source-record-active-count"] == 0


def test_a_source_never_has_less_than_nothing_on_its_way():
    made = task_figures.SourceFigures(SAMPLING)
    made.written(0.0)
    made.polled(2, took_s=0.0, now_s=1.0)
    assert made.numbers(1.0)["source-record-active-count"] == 2


def test_a_sink_counts_what_it_read_put_and_committed():
    made = task_figures.SinkFigures(SAMPLING)
    made.assigned({P0: 10, P1: 20}, 0.0)
    made.read(5, {P0: 13, P1: 22}, 1.0)
    made.put(4, took_s=0.2, now_s=1.0)
    made.commit_begun(1)
    made.commit_completed({P0: 12}, 2.0)
    made.commit_skipped(3.0)
    found = made.numbers(10.0)
    totals = some(found, "sink-record-read-total", "sink-record-send-total", "partition-count")
    assert totals == (5, 4, 2)
    assert some(found, "sink-record-active-count", "sink-record-lag-max") == (3, 2)
    assert found["sink-record-active-count-max"] == 5
    assert found["put-batch-max-time-ms"] == 200
    assert found["offset-commit-seq-no"] == 1
    commits = some(found, "offset-commit-completion-total", "offset-commit-skip-total")
    assert commits == (1, 1)
    made.check_invariants()


def test_of_partitions_that_are_gone_a_sink_keeps_nothing():
    made = task_figures.SinkFigures(SAMPLING)
    made.assigned({P0: 0}, 0.0)
    made.assigned({P1: 0}, 0.0)
    made.read(7, {P0: 3, P1: 4}, 1.0)
    made.gone(frozenset({P0}), 2.0)
    made.read(9, {P0: 9}, 3.0)
    made.commit_completed({P0: 9}, 3.0)
    found = made.numbers(4.0)
    assert some(found, "partition-count", "sink-record-active-count") == (1, 4)
    made.check_invariants()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["assigned", "gone", "read", "commit"]),
            st.sampled_from([P0, P1]),
            st.integers(0, 9),
        )
    )
)
def test_whatever_happens_a_sink_counts_what_is_behind(steps):
    made = task_figures.SinkFigures(SAMPLING)
    for what, place, offset in steps:
        match what:
            case "assigned":
                made.assigned({place: offset}, 0.0)
            case "gone":
                made.gone(frozenset({place}), 0.0)
            case "read":
                made.read(1, {place: offset}, 0.0)
            case _:
                made.commit_completed({place: offset}, 0.0)
        made.check_invariants()


def test_a_sink_that_rewinds_has_no_negative_backlog():
    made = task_figures.SinkFigures(SAMPLING)
    made.assigned({P0: 10, P1: 0}, 0.0)
    made.read(1, {P0: 4, P1: 1}, 1.0)
    assert made.numbers(1.0)["sink-record-active-count"] == 1


def test_troubles_are_counted_and_the_last_failure_has_a_time():
    made = task_figures.ErrorFigures()
    made.happened(Trouble.FAILURE, 1_000)
    made.happened(Trouble.FAILURE, 2_000)
    made.happened(Trouble.ERROR, 3_000)
    found = made.numbers()
    assert some(found, "total-record-failures", "total-record-errors", "total-retries") == (2, 1, 0)
    assert found["last-error-timestamp"] == 2_000
