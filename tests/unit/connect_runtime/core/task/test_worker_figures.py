from __future__ import annotations

import pytest

from connect_runtime.base import sampled
from connect_runtime.core.state import status_records
from connect_runtime.core.task import metric_names, worker_figures

State = status_records.State


def test_starts_are_counted_by_how_they_ended():
    made = worker_figures.Startups("task", sampled.Sampling())
    for well in (True, False, True, True):
        made.ended(1.0, well=well)
    expected = {
        "task-startup-attempts-total": 4,
        "task-startup-success-total": 3,
        "task-startup-success-percentage": 0.75,
        "task-startup-failure-total": 1,
        "task-startup-failure-percentage": 0.25,
    }
    assert made.numbers(2.0) == expected
    assert expected.keys() <= metric_names.WORKER.numbers.keys()
    later = made.numbers(1000.0)
    assert (later["task-startup-failure-total"], later["task-startup-failure-percentage"]) == (1, 0)


def test_before_any_start_shares_are_zero():
    assert set(worker_figures.Startups("connector", sampled.Sampling()).numbers(0.0).values()) == {
        0.0
    }


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([State.RUNNING, State.FAILED], [True, None]),
        ([State.FAILED, State.RUNNING], [False, None]),
        ([State.PAUSED, State.RUNNING, State.RUNNING], [None, True, None]),
        ([State.UNASSIGNED, State.RUNNING], [None, True]),
        ([State.PAUSED, State.UNASSIGNED], [None, None]),
    ],
)
def test_a_start_ends_once_with_what_is_said_first(said, expected):
    first = worker_figures.FirstSaid()
    assert [first.well(each) for each in said] == expected


def test_tasks_of_a_connector_are_counted_by_state():
    found = worker_figures.task_counts([State.RUNNING, State.FAILED, State.RUNNING])
    assert found.keys() == metric_names.TASKS_OF_CONNECTOR.numbers.keys()
    assert {name: value for name, value in found.items() if value} == {
        "connector-total-task-count": 3,
        "connector-running-task-count": 2,
        "connector-failed-task-count": 1,
    }
