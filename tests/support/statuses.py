"""Snapshots of flows as tests make them up: every field has a harmless default."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from connect_runtime.base import ids
from mm2.connectors import flow_status
from mm2.core import holds as holding


def partition(topic: str = "orders", number: int = 0, **fields: Any) -> flow_status.PartitionStatus:
    """Copying and caught up at offset 0, unless `fields` say otherwise."""
    given: dict[str, Any] = {
        "partition": ids.TopicPartition(topic, number),
        "task": 0,
        "phase": "copying",
        "reason": "",
        "cause": "",
        "records": 0,
        "bytes": 0,
        "copied_to": 0,
        "source_end": 0,
        "age_ms": 0,
        "oldest_ms": -1,
        "transactional": False,
    }
    return flow_status.PartitionStatus(**(given | fields))


def task(
    index: int = 0,
    state: flow_status.TaskState = flow_status.TaskState.RUNNING,
    **fields: Any,
) -> flow_status.TaskStatus:
    given: dict[str, Any] = {"reason": "", "restarts": 0, "life": 1}
    return flow_status.TaskStatus(index=index, state=state, **(given | fields))


def flow(
    *partitions: flow_status.PartitionStatus,
    name: str = "east->west",
    state: flow_status.FlowState = flow_status.FlowState.RUNNING,
    reason: str = "",
    tasks: Iterable[flow_status.TaskStatus] | None = None,
    slots_missing: int = 0,
    elsewhere: int = 0,
    wanted: int | None = None,
    holds: holding.Holds = holding.NOTHING,
) -> flow_status.FlowStatus:
    return flow_status.FlowStatus(
        flow=name,
        state=state,
        reason=reason,
        tasks=(task(),) if tasks is None else tuple(tasks),
        partitions=partitions,
        slots_missing=slots_missing,
        elsewhere=elsewhere,
        wanted=wanted,
        holds=holds,
    )
