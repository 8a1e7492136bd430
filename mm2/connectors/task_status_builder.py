"""Builds the status snapshot that a source task publishes. Unchanged partitions keep their status
object.

With thousands of mostly idle partitions, rebuilding all of them twice a second would cost more than
replication.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect_runtime.base.ids import TopicPartition
from mm2.connectors.copy_process_supervisor import CopySupervisor
from mm2.connectors.partition_setup_builder import PartitionFinding
from mm2.connectors.status_registry import (
    IncidentCount,
    PartitionStatus,
    TaskSnapshot,
    TaskState,
    TaskStatus,
)
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.replication import partition_halt_messages
from mm2.topics.flow_config import DeliveryMode

_GaugeAndReason = tuple[PartitionProgressReport | None, str]
"""Inputs of a partition's status: its progress report (from the copy process, compared by
identity), or the task's wait reason."""


NO_PROPS: Mapping[str, str] = {}


class TaskStatusBuilder:
    """Builds the status snapshots of a task. `snapshot` is the newest snapshot; the object stays
    the same while nothing changes."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.snapshot = TaskSnapshot(
            status=TaskStatus(index=number, state=TaskState.STARTING, reason="starting", restarts=0)
        )
        self._cache: dict[int, tuple[_GaugeAndReason, PartitionStatus]] = {}
        self._finding_statuses: tuple[PartitionStatus, ...] = ()

    def set_findings(self, findings: Iterable[PartitionFinding]) -> None:
        """Set the findings: the partitions that must not be replicated, with reasons."""
        self._finding_statuses = tuple(
            build_finding_status(each, task=self._number) for each in findings
        )

    def clear_cache(self) -> None:
        """Drop the cached partition statuses. Call when the copy supervisor is replaced."""
        self._cache = {}

    def update_snapshot(
        self,
        copy: CopySupervisor | None,
        *,
        reason: str,
        slots_missing: int = 0,
        props: Mapping[str, str] = NO_PROPS,
        java_warning: str = "",
    ) -> None:
        """Update `snapshot` from the state of the copy supervisor `copy`. If `copy` is None,
        nothing is being replicated, and `reason` states why.

        `props` is the task's configuration; `java_warning` is the warning that Java workers run
        tasks of the flow (see `TaskSnapshot`).
        """
        partitions = [*self._finding_statuses]
        if copy is None:
            state = TaskState.STARTING
            status = TaskStatus(index=self._number, state=state, reason=reason, restarts=0)
        else:
            partitions += (
                self._get_partition_status(copy, at) for at in range(len(copy.settings.partitions))
            )
            status = build_task_status(copy)
        snapshot = TaskSnapshot(
            status=status,
            partitions=tuple(partitions),
            slots_missing=slots_missing,
            fencing_command=suggest_fencing_command(copy, partitions),
            props=props,
            java_warning=java_warning,
        )
        if snapshot != self.snapshot:  # fast: identical objects are equal
            self.snapshot = snapshot

    def _get_partition_status(self, copy: CopySupervisor, index: int) -> PartitionStatus:
        report = copy.progress.reports.get(index)
        inputs: _GaugeAndReason = (
            report,
            "" if report is not None else copy.reason or copy.state.value,
        )
        cached = self._cache.get(index)
        if cached is not None and cached[0][0] is report and cached[0][1] == inputs[1]:
            return cached[1]
        status = build_partition_status(copy, index)
        self._cache[index] = (inputs, status)
        return status


def suggest_fencing_command(
    copy: CopySupervisor | None,
    partitions: Iterable[PartitionStatus],
) -> str:
    """Return the command that enables fencing for partitions that should be fenced but are not; ""
    if there are none."""
    if copy is None or all(each.fenced for each in partitions):
        return ""
    where = copy.settings.partitions[0]
    if where.delivery is DeliveryMode.AT_LEAST_ONCE:
        return ""
    return partition_halt_messages.format_fencing_commands(where.flow, where.operator)


def build_task_status(copy: CopySupervisor) -> TaskStatus:
    """Build the status of a task. Incidents and restarts are counted from the time at which the
    task was assigned to this node."""
    return TaskStatus(
        index=copy.settings.task,
        state=copy.state,
        reason=copy.reason,
        restarts=copy.restarts,
        incidents=tuple(
            IncidentCount(topic=topic, kind=kind, count=count)
            for (topic, kind), count in sorted(copy.incidents.counts.items())
        ),
        counter_generation=copy.progress.counter_generation,
    )


def build_partition_status(copy: CopySupervisor, index: int) -> PartitionStatus:
    """Build the status of a partition. Until the copy process has sent the first progress report of
    the partition, the phase is waiting and the reason is the wait reason of the task."""
    where = copy.settings.partitions[index]
    report = copy.progress.reports.get(index)
    totals = copy.progress.get_totals(index)
    return PartitionStatus(
        partition=TopicPartition(where.topic, where.partition),
        task=copy.settings.task,
        phase=report.phase if report else "waiting",
        reason=report.reason if report else copy.reason or copy.state.value,
        cause=report.cause if report else "",
        records=totals.records,
        bytes=totals.bytes,
        copied_to=report.copied_to if report else -1,
        source_end=report.source_end if report else -1,
        age_ms=report.age_ms if report else 0,
        oldest_uncopied_ms=report.oldest_uncopied_ms if report else -1,
        transactional=report.transactional if report else False,
        reencode_reason=report.reencode_reason if report else "",
        fenced=report.fenced if report else True,
        batches=totals.batches,
        reencoded_batches=totals.reencoded_batches,
        already_stored_records=totals.already_stored_records,
        newest_copied_ms=report.newest_copied_ms if report else -1,
        unrecorded_since_s=report.unrecorded_since_s if report else None,
    )


def build_finding_status(finding: PartitionFinding, *, task: int) -> PartitionStatus:
    """Build the status of an assigned partition that must not be replicated."""
    return PartitionStatus(
        partition=finding.partition,
        task=task,
        phase="halted",
        reason=finding.message,
        cause=finding.cause,
        records=0,
        bytes=0,
        copied_to=-1,
        source_end=-1,
        age_ms=0,
        oldest_uncopied_ms=-1,
        transactional=False,
    )
