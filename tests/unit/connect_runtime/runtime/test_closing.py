"""Several things are closed, whatever each of them raises."""

from __future__ import annotations

import pytest

from connect_runtime.base import errors
from connect_runtime.runtime import closing


def raising(error: Exception):
    def step() -> None:
        raise error

    return step


def test_each_step_is_taken_and_the_first_failure_is_raised():
    steps, taken = closing.Steps("c"), []
    steps.take("one", raising(ValueError("first")))
    steps.take("two", raising(ValueError("second")), fails=False)
    steps.take("three", lambda: taken.append(3))
    with pytest.raises(ValueError, match="first"):
        steps.raise_first()
    assert taken == [3]


def test_of_what_is_no_fault_of_ours_no_trace_is_told(caplog):
    steps = closing.Steps("c")
    steps.take("committing", raising(errors.RetriableError("the cluster is away")))
    steps.take("closing", raising(ValueError("a fault")))
    known, unknown = caplog.records
    assert known.getMessage() == "committing of c failed: the cluster is away"
    assert not known.exc_info
    assert unknown.exc_info
