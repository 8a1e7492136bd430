"""Flows as the page sees them, made up: everything has a harmless default."""

from __future__ import annotations

import dataclasses
from typing import Any

from mm2.app.reports import flow_report, flow_verdict
from mm2.app.ui import flow_documents
from mm2.connectors import flow_status
from mm2.core import flows
from tests.support import statuses

NOW_MS = 1_700_000_000_000
NODE = flow_documents.Node(
    release="0.1.0",
    pid=7,
    host="a",
    file="clusters.yaml",
    engine="spark",
    engine_ready=True,
    started_ms=NOW_MS - 1000,
)
_PART = flow_report.Partition(
    topic="orders", partition=0, mirror="east.orders", state="copying", copied_to=9, end=9
)


def part(topic: str = "orders", number: int = 0, **fields: Any) -> flow_report.Partition:
    mirror = f"east.{topic}"
    return dataclasses.replace(_PART, topic=topic, partition=number, mirror=mirror, **fields)


def report(*parts: flow_report.Partition, **fields: Any) -> flow_report.FlowReport:
    given: dict[str, Any] = {
        "flow": "east->west",
        "seen_by": ("process 7",),
        "at_ms": NOW_MS,
        "state": flow_report.State.RUNNING,
        "tasks": (flow_report.Task(number=0, state="RUNNING", node="a:1", restarts=0),),
        "partitions": parts,
    }
    return flow_report.FlowReport(**(given | fields))


def flow(
    *parts: flow_report.Partition,
    status: flow_status.FlowStatus | None = None,
    rates: Any = None,
    **fields: Any,
) -> flow_documents.FlowSeen:
    name = fields.get("flow", "east->west")
    source, target = name.split("->")
    made = report(*parts, **fields)
    return flow_documents.FlowSeen(
        flow=flows.Flow(source=source, target=target),
        status=status or statuses.flow(name=name),
        report=made,
        verdict=flow_verdict.judge(made, within_s=60.0),
        rates=rates,
    )


def seen(*shown: flow_documents.FlowSeen) -> flow_documents.Seen:
    return flow_documents.Seen(at_ms=NOW_MS, node=NODE, flows=shown)
