"""A task's part of what is shown: made anew where something has changed, kept otherwise."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

from connect_runtime.base.ids import TopicPartition
from mm2.connectors.copy_process_supervisor import CopySupervisor
from mm2.connectors.partition_setup_builder import PartitionFinding
from mm2.connectors.status_registry import TaskState
from mm2.connectors.task_copy_progress import IncidentCounts, TaskCopyProgress
from mm2.connectors.task_status_builder import TaskStatusBuilder
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.topics.flow_config import DeliveryMode
from tests.fakes import copy_plane, taking


def gauge(index: int = 0, **changed: Any) -> PartitionProgressReport:
    plain = {**copy_plane.PLAIN, "phase": "copying", "reason": "", "copied_to": 5}
    return PartitionProgressReport(**{**plain, "index": index, **changed})


class Task:
    """As much of a supervisor as a report asks for."""

    def __init__(self, *gauges: PartitionProgressReport, **where: Any) -> None:
        partitions = tuple(taking.where(partition=each, **where) for each in (0, 1))
        self.settings = SimpleNamespace(task=3, partitions=partitions)
        self.progress = TaskCopyProgress(partitions)
        for each in gauges:
            self.progress.record_progress_report(each)
        self.state, self.reason, self.restarts = TaskState.RUNNING, "", 2
        self.incidents = IncidentCounts()

    @property
    def made(self) -> CopySupervisor:
        return cast("CopySupervisor", self)


def test_without_a_copy_the_reason_is_shown():
    report = TaskStatusBuilder(3)
    report.update_snapshot(None, reason="reading topic metadata of")
    assert report.snapshot.status.reason == "reading topic metadata of"
    assert report.snapshot.status.state is TaskState.STARTING
    before = report.snapshot
    report.update_snapshot(None, reason="reading topic metadata of")
    assert report.snapshot is before
    assert before.status.counter_generation == 0
    task = Task(gauge(0))
    report.update_snapshot(task.made, reason="")
    assert report.snapshot.status.counter_generation == task.progress.counter_generation


def test_partitions_are_made_anew_only_where_they_moved():
    report, task = TaskStatusBuilder(3), Task(gauge(0), gauge(1, records=7))
    report.update_snapshot(task.made, reason="")
    before = report.snapshot
    assert [each.records for each in before.partitions] == [5, 7]
    report.update_snapshot(task.made, reason="")
    assert report.snapshot is before
    task.progress.reports[1] = gauge(1, copied_to=9)
    report.update_snapshot(task.made, reason="")
    assert report.snapshot.partitions[0] is before.partitions[0]
    assert report.snapshot.partitions[1].copied_to == 9
    report.clear_cache()
    report.update_snapshot(task.made, reason="")
    assert report.snapshot.partitions[0] == before.partitions[0]


def test_what_must_not_be_copied_is_shown_as_stopped():
    report, task = TaskStatusBuilder(3), Task(gauge(0))
    found = PartitionFinding(
        partition=TopicPartition("t", 7), cause="mirror-too-small", message="it is too small"
    )
    report.set_findings([found])
    report.update_snapshot(task.made, reason="", slots_missing=1)
    first, *others = report.snapshot.partitions
    assert (first.is_halted, first.task, first.cause) == (True, 3, "mirror-too-small")
    assert [each.phase for each in others] == ["copying", "waiting"]
    assert report.snapshot.slots_missing == 1


def test_the_right_that_is_lacking_is_told_while_it_is():
    report, task = TaskStatusBuilder(3), Task(gauge(0, fenced=False), gauge(1))
    report.update_snapshot(task.made, reason="")
    assert (
        "TransactionalId" in report.snapshot.fencing_command
        or "transactional-id" in report.snapshot.fencing_command
    )
    task.progress.reports[0] = gauge(0)
    report.update_snapshot(task.made, reason="")
    assert report.snapshot.fencing_command == ""
    wanted = Task(gauge(0, fenced=False), delivery=DeliveryMode.AT_LEAST_ONCE)
    report.update_snapshot(wanted.made, reason="")
    assert report.snapshot.fencing_command == ""


def test_incidents_are_counted():
    report, task = TaskStatusBuilder(3), Task(gauge(0))
    task.incidents.counts["t", "source-gone"] += 2
    report.update_snapshot(task.made, reason="")
    (count,) = report.snapshot.status.incidents
    assert dataclasses.astuple(count) == ("t", "source-gone", 2)
