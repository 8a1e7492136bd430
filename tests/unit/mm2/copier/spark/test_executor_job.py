from __future__ import annotations

import sys

import pytest

from mm2.copier.spark import executor_job
from mm2.copier.spark.executor_job import SparkCopyParameters


def ticket(**changes):
    fields = {
        "address": "unix:/x",
        "token": b"t",
        "entry": f"{__name__}:entry",
        "required_packages": (),
    }
    return SparkCopyParameters(**(fields | changes))


@pytest.fixture
def entry(monkeypatch):
    """A module whose functions an entry can name; this file's own name cannot be imported."""
    calls: list[tuple[object, ...]] = []
    module = type(sys)("entry_of_a_test")
    vars(module)["run"] = lambda *arguments: calls.append(arguments)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(executor_job, "_is_process_prepared", True)
    return calls


def test_a_copy_gets_its_channel_and_nothing_else(entry):
    assert executor_job.run_copy(ticket(entry="entry_of_a_test:run")) == (
        executor_job.OUTCOME_ENDED,
        "",
    )
    assert entry == [("unix:/x", b"t", 0)]


def test_a_node_that_lacks_wheels_says_which(entry):
    outcome, text = executor_job.run_copy(
        ticket(entry="entry_of_a_test:run", required_packages=("json", "no_such_wheel", "nor_this"))
    )
    assert outcome == executor_job.OUTCOME_UNFIT_NODE
    assert "lacks no_such_wheel, nor_this; install them there" in text
    assert sys.executable in text
    assert entry == []


def test_the_token_is_not_shown():
    assert "token" not in repr(ticket(token=b"hush"))


@pytest.mark.parametrize(
    "row",
    [
        b"",
        b"{}",
        b"[]",
        b'["ended"]',
        b'["ended", 1]',
        b"\x80\x04N.",
        b"[" * 60_000,
        b"[" * 100_000,
    ],
)
def test_an_outcome_is_two_strings(row):
    with pytest.raises(ValueError):  # noqa: PT011
        executor_job.decode_outcome(row)


class TaskContext:
    def __init__(self, attempt):
        self.attemptNumber = lambda: attempt


@pytest.mark.parametrize(
    ("attempt", "outcome", "calls"),
    [(0, executor_job.OUTCOME_ENDED, 1), (1, executor_job.OUTCOME_SECOND_ATTEMPT, 0)],
)
def test_a_second_attempt_does_nothing(entry, monkeypatch, attempt, outcome, calls):
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark.TaskContext, "get", classmethod(lambda _: TaskContext(attempt)))
    rows = list(executor_job.run_copy_in_spark_task(ticket(entry="entry_of_a_test:run"), []))
    assert [executor_job.decode_outcome(row)[0] for row in rows] == [outcome]
    assert len(entry) == calls
