"""Flows as the page sees them, made up: everything has a harmless default."""

from __future__ import annotations

import dataclasses
from typing import Any

from mm2.connectors.status_registry import FlowStatus
from mm2.status import replication_health
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState, TaskReport
from mm2.topics.flow_config import Flow
from mm2.ui.status_page_json import FlowPageSnapshot, NodeInfo, PageSnapshot
from tests.support import statuses

NOW_MS = 1_700_000_000_000
NODE = NodeInfo(
    release="0.1.0",
    pid=7,
    host="a",
    file="clusters.yaml",
    engine="spark",
    engine_ready=True,
    started_ms=NOW_MS - 1000,
)
_PART = PartitionReport(
    topic="orders", partition=0, mirror="east.orders", state="copying", copied_to=9, end=9
)


def part(topic: str = "orders", number: int = 0, **fields: Any) -> PartitionReport:
    mirror = f"east.{topic}"
    return dataclasses.replace(_PART, topic=topic, partition=number, mirror=mirror, **fields)


def report(*parts: PartitionReport, **fields: Any) -> FlowReport:
    given: dict[str, Any] = {
        "flow": "east->west",
        "seen_by": ("process 7",),
        "at_ms": NOW_MS,
        "state": ReportedFlowState.RUNNING,
        "tasks": (TaskReport(number=0, state="RUNNING", node="a:1", restarts=0),),
        "partitions": parts,
    }
    return FlowReport(**(given | fields))


def flow(
    *parts: PartitionReport,
    status: FlowStatus | None = None,
    rates: Any = None,
    **fields: Any,
) -> FlowPageSnapshot:
    name = fields.get("flow", "east->west")
    source, target = name.split("->")
    made = report(*parts, **fields)
    return FlowPageSnapshot(
        flow=Flow(source=source, target=target),
        status=status or statuses.flow(name=name),
        report=made,
        verdict=replication_health.evaluate_flow(made, within_s=60.0),
        rates=rates,
    )


def seen(*shown: FlowPageSnapshot) -> PageSnapshot:
    return PageSnapshot(at_ms=NOW_MS, node=NODE, flows=shown)
