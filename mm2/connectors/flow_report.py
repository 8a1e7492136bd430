"""A flow's status for others to look at: made anew only where something has changed.

With thousands of partitions, most of them at rest, looking at all of them twice a second would cost
more than copying what moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from connect_runtime.base import ids
from mm2.connectors import flow_status, source_connector, source_task, task_report
from mm2.core.copy import messages

_Seen = tuple[messages.Gauge | None, str]
"""What a partition's status is made of: its gauge (the object); without one its task's reason."""


class FlowReport:
    """`status` is a frozen snapshot: replaced whole by `publish`, kept while nothing changes."""

    def __init__(self, flow: str) -> None:
        self.status = flow_status.FlowStatus(
            flow=flow, state=flow_status.FlowState.PLANNING, reason="starting"
        )
        self._made: dict[tuple[int, int], tuple[_Seen, flow_status.PartitionStatus]] = {}
        self._warned: frozenset[str] = frozenset()
        self._found: dict[ids.TopicPartition, flow_status.PartitionStatus] = {}

    def found(
        self, findings: Iterable[source_connector.Finding], warnings: Sequence[str] = ()
    ) -> list[str]:
        """These partitions are not copied as things are; of `warnings`, those that are new."""
        self._found = {each.partition: task_report.found_status(each, task=-1) for each in findings}
        new = [line for line in warnings if line not in self._warned]
        self._warned = frozenset(warnings)
        return new

    @property
    def found_topics(self) -> set[str]:
        return {each.topic for each in self._found}

    def forget(self, task: int) -> None:
        """The task is another one now, or gone."""
        self._made = {key: made for key, made in self._made.items() if key[0] != task}

    def publish(
        self,
        state: flow_status.FlowState,
        reason: str,
        tasks: Sequence[source_task.SourceTask],
        *,
        slots_missing: int,
    ) -> None:
        before = self.status
        partitions = [*self._found.values()]
        for task in tasks:
            partitions.extend(
                self._partition(task, index) for index in range(len(task.settings.partitions))
            )
        after = flow_status.FlowStatus(
            flow=before.flow,
            state=state,
            reason=reason,
            tasks=tuple(task_report.task_status(each) for each in tasks),
            partitions=tuple(partitions),
            slots_missing=slots_missing,
            fencing=task_report.fencing(tasks, partitions),
        )
        if after != before:  # partitions that are the same objects are equal at once
            self.status = after

    def _partition(self, task: source_task.SourceTask, index: int) -> flow_status.PartitionStatus:
        gauge = task.gauges.get(index)
        seen: _Seen = (gauge, "" if gauge is not None else task.reason or task.state.value)
        key = (task.settings.task, index)
        made = self._made.get(key)
        if made is not None and made[0][0] is gauge and made[0][1] == seen[1]:
            return made[1]
        status = task_report.partition_status(task, index)
        self._made[key] = (seen, status)
        return status
