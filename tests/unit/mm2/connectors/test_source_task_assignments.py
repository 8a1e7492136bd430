"""What partitions move, as tasks of this process tell it."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.connectors.source_task_assignments import TaskByteRates
from mm2.connectors.status_registry import (
    PartitionStatus,
    SnapshotPublisher,
    StatusRegistry,
    TaskSnapshot,
    TaskState,
    TaskStatus,
)

FLOW = "A->B"


def partition(number: int, count: int) -> PartitionStatus:
    return PartitionStatus(
        partition=TopicPartition("orders", number),
        task=0,
        phase="copying",
        reason="",
        cause="",
        records=0,
        bytes=count,
        copied_to=0,
        source_end=0,
        age_ms=0,
        oldest_uncopied_ms=-1,
        transactional=False,
    )


class Here:
    def __init__(self) -> None:
        self.board = StatusRegistry()
        self.places: dict[int, SnapshotPublisher[TaskSnapshot]] = {}
        self.loads = TaskByteRates(FLOW, registry=self.board)

    def put(self, task: int, **counts: int) -> None:
        if task not in self.places:
            self.places[task] = self.board.create_task_publisher(FLOW, task)
        status = TaskStatus(index=task, state=TaskState.RUNNING, reason="", restarts=0)
        shown = tuple(partition(int(key[1:]), count) for key, count in counts.items())
        self.places[task].publish(TaskSnapshot(status=status, partitions=shown))

    def rates(self, now_s: float, tasks: int = 2) -> dict[str, float] | None:
        found = self.loads.compute_rates(tasks, now_s)
        return None if found is None else {str(name): rate for name, rate in found.items()}


@pytest.fixture
def here() -> Here:
    made = Here()
    made.put(0, p0=1000, p2=0)
    made.put(1, p1=500)
    return made


def test_rates_are_those_since_the_last_question(here):
    assert here.rates(100.0) is None
    here.put(0, p0=3000, p2=10)
    assert here.rates(110.0) == {"orders-0": 200.0, "orders-2": 1.0, "orders-1": 0.0}
    assert here.rates(120.0) == {"orders-0": 0.0, "orders-2": 0.0, "orders-1": 0.0}


def test_tasks_that_run_elsewhere_make_everything_unknown(here):
    assert here.rates(100.0) is None
    assert here.rates(110.0, tasks=3) is None
    here.put(2, p3=0)
    assert here.rates(120.0, tasks=3) is None
    assert here.rates(130.0, tasks=3) is not None


def test_who_started_anew_counts_from_nothing(here):
    here.rates(100.0)
    here.put(1, p1=50, p4=70)
    found = here.rates(110.0)
    assert found is not None
    assert (found["orders-1"], found["orders-4"]) == (5.0, 7.0)


def test_at_the_same_moment_there_is_no_rate(here):
    here.rates(100.0)
    assert here.rates(100.0) is None
