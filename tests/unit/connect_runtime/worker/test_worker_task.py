"""Several things are closed, whatever each of them raises."""

from __future__ import annotations

import logging

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.worker import worker_task
from connect_runtime.worker.worker_task import CloseSteps

LOG = logging.getLogger("traces")


def test_what_went_wrong_comes_first():
    error = ValueError("no topic in the configuration")
    error.__cause__ = KeyError("topic")
    told = worker_task.format_exception_trace(error, hide=str).splitlines()
    assert told[0] == "ValueError: no topic in the configuration"
    assert "KeyError: 'topic'" in told
    assert told[-1] == told[0]


@pytest.mark.parametrize(
    ("error", "traced"), [(FatalError("wrong password"), False), (KeyError("topic"), True)]
)
def test_an_error_that_explains_itself_is_logged_in_a_line(caplog, error, traced):
    with caplog.at_level(logging.INFO):
        worker_task.log_connector_or_task_failure(LOG, "task a-0", error, hide=str)
    (record,) = caplog.records
    assert (record.levelname, record.exc_info is not None) == ("ERROR", traced)
    assert "task a-0" in caplog.text
    assert str(error) in caplog.text


def test_where_it_failed_is_there_for_who_looks_closely(caplog):
    with caplog.at_level(logging.DEBUG):
        worker_task.log_connector_or_task_failure(
            LOG, "task a-0", FatalError("wrong password"), hide=str
        )
    assert [each.levelname for each in caplog.records] == ["ERROR", "DEBUG"]
    assert caplog.records[1].exc_info is not None


@pytest.mark.parametrize("error", [ConnectError("no topic HUSH"), KeyError("HUSH")])
def test_what_a_provider_gave_is_neither_logged_nor_in_a_trace(caplog, error):
    def hide(text: str) -> str:
        return text.replace("HUSH", "${p:k}")

    with caplog.at_level(logging.DEBUG):
        worker_task.log_connector_or_task_failure(LOG, "task a-0", error, hide=hide)
    told = caplog.text + worker_task.format_exception_trace(error, hide=hide)
    assert "HUSH" not in told
    assert told.count("${p:k}") >= 3
    assert type(error).__name__ in caplog.text


def raising(error: Exception):
    def step() -> None:
        raise error

    return step


def test_each_step_is_taken_and_the_first_failure_is_raised():
    steps, taken = CloseSteps("c"), []
    steps.run_shutdown_step("one", raising(ValueError("first")))
    steps.run_shutdown_step("two", raising(ValueError("second")), is_fatal=False)
    steps.run_shutdown_step("three", lambda: taken.append(3))
    with pytest.raises(ValueError, match="first"):
        steps.raise_first_error()
    assert taken == [3]


def test_of_what_is_no_fault_of_ours_no_trace_is_told(caplog):
    steps = CloseSteps("c")
    steps.run_shutdown_step("committing", raising(RetriableError("the cluster is away")))
    steps.run_shutdown_step("closing", raising(ValueError("a fault")))
    known, unknown = caplog.records
    assert known.getMessage() == "committing of c failed: the cluster is away"
    assert not known.exc_info
    assert unknown.exc_info
