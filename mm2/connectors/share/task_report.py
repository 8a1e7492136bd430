"""A task's part of what is shown: made anew only where something has changed.

With thousands of partitions, most of them at rest, looking at all of them twice a second would cost
more than copying what moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect_runtime.base import ids
from mm2.connectors import board, flow_status
from mm2.connectors.share import copy_supervisor
from mm2.connectors.topics import partition_setups
from mm2.core.copy import messages, remedies, setup

_Seen = tuple[messages.Gauge | None, str]
"""What a partition's status is made of: its gauge (the object); without one its task's reason."""


NO_PROPS: Mapping[str, str] = {}


class TaskReport:
    """`shown` is a frozen snapshot: replaced whole by `make`, kept while nothing changes."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.shown = board.TaskShown(
            status=flow_status.TaskStatus(
                index=number, state=flow_status.TaskState.STARTING, reason="starting", restarts=0
            )
        )
        self._made: dict[int, tuple[_Seen, flow_status.PartitionStatus]] = {}
        self._found: tuple[flow_status.PartitionStatus, ...] = ()

    def found(self, findings: Iterable[partition_setups.Finding]) -> None:
        """These partitions are not copied as things are."""
        self._found = tuple(found_status(each, task=self._number) for each in findings)

    def forget(self) -> None:
        """Another copy has taken the place of the one that was shown."""
        self._made = {}

    def make(
        self,
        copy: copy_supervisor.CopySupervisor | None,
        *,
        reason: str,
        slots_missing: int = 0,
        props: Mapping[str, str] = NO_PROPS,
        beside_java: str = "",
    ) -> None:
        """Of `copy`; without one it is starting, or has nothing to copy, for this `reason`.
        `props` are its configuration, `beside_java` as in `board.TaskShown`."""
        partitions = [*self._found]
        if copy is None:
            state = flow_status.TaskState.STARTING
            status = flow_status.TaskStatus(
                index=self._number, state=state, reason=reason, restarts=0
            )
        else:
            partitions += (self._partition(copy, at) for at in range(len(copy.settings.partitions)))
            status = task_status(copy)
        after = board.TaskShown(
            status=status,
            partitions=tuple(partitions),
            slots_missing=slots_missing,
            fencing=fencing(copy, partitions),
            props=props,
            beside_java=beside_java,
        )
        if after != self.shown:  # partitions that are the same objects are equal at once
            self.shown = after

    def _partition(
        self, copy: copy_supervisor.CopySupervisor, index: int
    ) -> flow_status.PartitionStatus:
        gauge = copy.figures.gauges.get(index)
        seen: _Seen = (gauge, "" if gauge is not None else copy.reason or copy.state.value)
        made = self._made.get(index)
        if made is not None and made[0][0] is gauge and made[0][1] == seen[1]:
            return made[1]
        status = partition_status(copy, index)
        self._made[index] = (seen, status)
        return status


def fencing(
    copy: copy_supervisor.CopySupervisor | None,
    partitions: Iterable[flow_status.PartitionStatus],
) -> str:
    """The command that lets those be fenced that should be and are not; "" without any."""
    if copy is None or all(each.fenced for each in partitions):
        return ""
    where = copy.settings.partitions[0]
    if where.delivery is setup.Delivery.AT_LEAST_ONCE:
        return ""
    return remedies.fencing_from_now_on(where.flow, where.operator)


def task_status(copy: copy_supervisor.CopySupervisor) -> flow_status.TaskStatus:
    """The task as it is shown. Receipts and restarts are counted since it was assigned."""
    return flow_status.TaskStatus(
        index=copy.settings.task,
        state=copy.state,
        reason=copy.reason,
        restarts=copy.restarts,
        receipts=tuple(
            flow_status.ReceiptCount(topic=topic, kind=kind, count=count)
            for (topic, kind), count in sorted(copy.receipts.counts.items())
        ),
        life=copy.figures.life,
    )


def partition_status(
    copy: copy_supervisor.CopySupervisor, index: int
) -> flow_status.PartitionStatus:
    """One of its partitions. Before its first gauge it waits, for its task's reason."""
    where = copy.settings.partitions[index]
    gauge = copy.figures.gauges.get(index)
    totals = copy.figures.totals(index)
    return flow_status.PartitionStatus(
        partition=ids.TopicPartition(where.topic, where.partition),
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


def found_status(finding: partition_setups.Finding, *, task: int) -> flow_status.PartitionStatus:
    """A partition that is assigned, and not copied as things are."""
    return flow_status.PartitionStatus(
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
