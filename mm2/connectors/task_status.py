"""Builds the status snapshot that a source task publishes; unchanged partitions keep their object.

With thousands of mostly idle partitions, rebuilding all of them twice a second would cost more
than copying.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect_runtime.base.ids import TopicPartition
from mm2.connectors.copy_supervisor import CopySupervisor
from mm2.connectors.partition_setup import PartitionFinding
from mm2.connectors.status_registry import (
    IncidentCount,
    PartitionStatus,
    TaskSnapshot,
    TaskState,
    TaskStatus,
)
from mm2.copier.control_messages import PartitionGauge
from mm2.replication import halts
from mm2.topics.flow_config import DeliveryMode

_GaugeAndReason = tuple[PartitionGauge | None, str]
"""What a partition's status is made of: its gauge (the object); without one its task's reason."""


NO_PROPS: Mapping[str, str] = {}


class TaskStatusBuilder:
    """`shown` is a frozen snapshot: replaced whole by `make`, kept while nothing changes."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.shown = TaskSnapshot(
            status=TaskStatus(index=number, state=TaskState.STARTING, reason="starting", restarts=0)
        )
        self._made: dict[int, tuple[_GaugeAndReason, PartitionStatus]] = {}
        self._found: tuple[PartitionStatus, ...] = ()

    def found(self, findings: Iterable[PartitionFinding]) -> None:
        """These partitions are not copied as things are."""
        self._found = tuple(build_finding_status(each, task=self._number) for each in findings)

    def forget(self) -> None:
        """Another copy has taken the place of the one that was shown."""
        self._made = {}

    def make(
        self,
        copy: CopySupervisor | None,
        *,
        reason: str,
        slots_missing: int = 0,
        props: Mapping[str, str] = NO_PROPS,
        beside_java: str = "",
    ) -> None:
        """Of `copy`; without one it is starting, or has nothing to copy, for this `reason`.
        `props` are its configuration, `beside_java` as in `TaskSnapshot`."""
        partitions = [*self._found]
        if copy is None:
            state = TaskState.STARTING
            status = TaskStatus(index=self._number, state=state, reason=reason, restarts=0)
        else:
            partitions += (self._partition(copy, at) for at in range(len(copy.settings.partitions)))
            status = build_task_status(copy)
        after = TaskSnapshot(
            status=status,
            partitions=tuple(partitions),
            slots_missing=slots_missing,
            fencing=suggest_fencing_command(copy, partitions),
            props=props,
            beside_java=beside_java,
        )
        if after != self.shown:  # partitions that are the same objects are equal at once
            self.shown = after

    def _partition(self, copy: CopySupervisor, index: int) -> PartitionStatus:
        gauge = copy.figures.gauges.get(index)
        seen: _GaugeAndReason = (
            gauge,
            "" if gauge is not None else copy.reason or copy.state.value,
        )
        made = self._made.get(index)
        if made is not None and made[0][0] is gauge and made[0][1] == seen[1]:
            return made[1]
        status = build_partition_status(copy, index)
        self._made[index] = (seen, status)
        return status


def suggest_fencing_command(
    copy: CopySupervisor | None,
    partitions: Iterable[PartitionStatus],
) -> str:
    """The command that lets those be fenced that should be and are not; "" without any."""
    if copy is None or all(each.fenced for each in partitions):
        return ""
    where = copy.settings.partitions[0]
    if where.delivery is DeliveryMode.AT_LEAST_ONCE:
        return ""
    return halts.format_fencing_commands(where.flow, where.operator)


def build_task_status(copy: CopySupervisor) -> TaskStatus:
    """The task as it is shown. Incidents and restarts are counted since it was assigned."""
    return TaskStatus(
        index=copy.settings.task,
        state=copy.state,
        reason=copy.reason,
        restarts=copy.restarts,
        incidents=tuple(
            IncidentCount(topic=topic, kind=kind, count=count)
            for (topic, kind), count in sorted(copy.incidents.counts.items())
        ),
        life=copy.figures.life,
    )


def build_partition_status(copy: CopySupervisor, index: int) -> PartitionStatus:
    """One of its partitions. Before its first gauge it waits, for its task's reason."""
    where = copy.settings.partitions[index]
    gauge = copy.figures.gauges.get(index)
    totals = copy.figures.totals(index)
    return PartitionStatus(
        partition=TopicPartition(where.topic, where.partition),
        task=copy.settings.task,
        phase=gauge.phase if gauge else "waiting",
        reason=gauge.reason if gauge else copy.reason or copy.state.value,
        cause=gauge.cause if gauge else "",
        records=totals.records,
        bytes=totals.bytes,
        copied_to=gauge.copied_to if gauge else -1,
        source_end=gauge.source_end if gauge else -1,
        age_ms=gauge.age_ms if gauge else 0,
        oldest_ms=gauge.oldest_ms if gauge else -1,
        transactional=gauge.transactional if gauge else False,
        opened=gauge.opened if gauge else "",
        fenced=gauge.fenced if gauge else True,
        batches=totals.batches,
        made=totals.made,
        spared=totals.spared,
        newest_ms=gauge.newest_ms if gauge else -1,
        unrecorded_s=gauge.unrecorded_s if gauge else None,
    )


def build_finding_status(finding: PartitionFinding, *, task: int) -> PartitionStatus:
    """A partition that is assigned, and not copied as things are."""
    return PartitionStatus(
        partition=finding.partition,
        task=task,
        phase="stopped",
        reason=finding.message,
        cause=finding.cause,
        records=0,
        bytes=0,
        copied_to=-1,
        source_end=-1,
        age_ms=0,
        oldest_ms=-1,
        transactional=False,
    )
