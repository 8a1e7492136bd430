"""A task's budget in its configuration."""

from __future__ import annotations

import pytest

from connect_runtime.api import errors
from mm2.core.topics import split, task_budgets


@pytest.mark.parametrize(
    "budget",
    [
        split.TaskBudget(flow=0, topics={}),
        split.TaskBudget(flow=1, topics={}),
        split.TaskBudget(flow=0, topics={"a.b-c": 5, "d": 1_000_000}),
    ],
)
def test_what_was_written_is_read(budget):
    assert task_budgets.read({"name": "x", **task_budgets.write(budget)}) == budget


def test_no_limits_leave_no_trace():
    assert task_budgets.write(split.TaskBudget(flow=0, topics={})) == {}


@pytest.mark.parametrize(
    "props",
    [
        {task_budgets.THROTTLE: "0"},
        {task_budgets.THROTTLE: "1MB"},
        {task_budgets.TOPIC_THROTTLES: "a"},
        {task_budgets.TOPIC_THROTTLES: "=5"},
        {task_budgets.TOPIC_THROTTLES: "a=-5"},
    ],
)
def test_anything_else_is_refused(props):
    with pytest.raises(errors.ConfigError):
        task_budgets.read(props)
