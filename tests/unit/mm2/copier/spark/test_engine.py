"""The handle of a Spark copy, with a driver that answers as it is told."""

from __future__ import annotations

import pytest

from mm2.copier import copy_engine
from mm2.copier.copy_engine import CopyJob, CopyState
from mm2.copier.spark import executor_job, spark_errors
from mm2.copier.spark.engine import SparkCopy
from mm2.copier.spark.spark_errors import SparkJobError, SparkUnavailableError

COPY = CopyJob(flow="east->west", index=3, address="unix:/x", token=b"t")


class Driver:
    def __init__(self, *, rows=(), error=None, stage=7, active=()):
        self.rows, self.error, self.stage, self.active = rows, error, stage, list(active)
        self.ran = []

    def run_job(self, ticket, *, group, description):
        self.ran.append((ticket, group, description))
        if self.error is not None:
            raise self.error
        return list(self.rows)

    def find_stage_id(self, group):
        assert group == "g"
        return self.stage

    def count_active_tasks(self, stage):
        assert stage == 7
        return self.active.pop(0)


def state_of(handle) -> CopyState:
    """Asked anew each time, which the type checker does not expect of a property."""
    state: CopyState = handle.state
    return state


@pytest.fixture
def copy():
    return SparkCopy(COPY, group="g")


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([(executor_job.OUTCOME_ENDED, "")], None),
        ([(executor_job.OUTCOME_UNFIT_NODE, "node-1 lacks kio")], "node-1 lacks kio"),
        (
            [(executor_job.OUTCOME_SECOND_ATTEMPT, "attempt 1 on node-2")],
            f"{spark_errors.TASK_LOST} (attempt 1 on node-2 did nothing)",
        ),
        ([], "the task returned 0 rows instead of one"),
    ],
)
def test_the_row_says_how_it_ended(copy, rows, error):
    driver = Driver(rows=rows)
    copy.run(driver)
    assert state_of(copy) is CopyState.ENDED
    assert copy.error == error
    ((ticket, group, description),) = driver.ran
    assert (group, description) == ("g", "east->west task 3")
    assert (ticket.address, ticket.token, ticket.entry) == ("unix:/x", b"t", copy_engine.COPY_ENTRY)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SparkJobError("ValueError: boom"), "ValueError: boom"),
        (SparkUnavailableError("no response"), spark_errors.JVM_DIED),
    ],
)
def test_a_failure_is_the_handles(copy, error, told):
    copy.run(Driver(error=error))
    assert copy.error == told


def test_however_spark_ends_a_cancelled_copy_it_was_cancelled(copy):
    class Cancelling(Driver):
        def run_job(self, ticket, *, group, description):
            copy.cancel()
            raise SparkUnavailableError("no response")

    copy.run(Cancelling())
    assert copy.error == spark_errors.CANCELLED


def test_a_copy_cancelled_before_its_job_never_runs(copy):
    driver = Driver()
    copy.cancel()
    copy.run(driver)
    assert copy.error == spark_errors.CANCELLED
    assert driver.ran == []


def test_it_waits_until_its_task_is_active(copy):
    copy.poll_job_state(Driver(stage=None))
    copy.poll_job_state(Driver(active=[0]))
    assert state_of(copy) is CopyState.WAITING_FOR_SLOT
    copy.poll_job_state(Driver(active=[1]))
    assert state_of(copy) is CopyState.RUNNING


def test_a_task_that_waits_again_was_lost(copy):
    driver = Driver(active=[1, 0, 1, 0, 0])
    for _ in range(4):
        copy.poll_job_state(driver)
    assert state_of(copy) is CopyState.RUNNING
    copy.poll_job_state(driver)
    assert state_of(copy) is CopyState.ENDED
    assert copy.error == spark_errors.TASK_LOST
    assert copy.cancelled.is_set()
