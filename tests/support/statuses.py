"""Snapshots of flows as tests make them up: every field has a harmless default."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from connect_runtime.base.ids import TopicPartition
from mm2.config import pause_and_throttle_overrides
from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.connectors.status_registry import (
    FlowState,
    FlowStatus,
    PartitionStatus,
    TaskState,
    TaskStatus,
)


def partition(topic: str = "orders", number: int = 0, **fields: Any) -> PartitionStatus:
    """Copying and caught up at offset 0, unless `fields` say otherwise."""
    given: dict[str, Any] = {
        "partition": TopicPartition(topic, number),
        "task": 0,
        "phase": "copying",
        "reason": "",
        "cause": "",
        "records": 0,
        "bytes": 0,
        "copied_to": 0,
        "source_end": 0,
        "age_ms": 0,
        "oldest_uncopied_ms": -1,
        "transactional": False,
    }
    return PartitionStatus(**(given | fields))


def task(
    index: int = 0,
    state: TaskState = TaskState.RUNNING,
    **fields: Any,
) -> TaskStatus:
    given: dict[str, Any] = {"reason": "", "restarts": 0, "counter_generation": 1}
    return TaskStatus(index=index, state=state, **(given | fields))


def flow(
    *partitions: PartitionStatus,
    name: str = "east->west",
    state: FlowState = FlowState.RUNNING,
    reason: str = "",
    tasks: Iterable[TaskStatus] | None = None,
    slots_missing: int = 0,
    elsewhere: int = 0,
    wanted: int | None = None,
    holds: OperatorOverrides = pause_and_throttle_overrides.NO_OVERRIDES,
) -> FlowStatus:
    return FlowStatus(
        flow=name,
        state=state,
        reason=reason,
        tasks=(task(),) if tasks is None else tuple(tasks),
        partitions=partitions,
        slots_missing=slots_missing,
        remote_partitions=elsewhere,
        assigned_partitions=wanted,
        overrides=holds,
    )
