"""What the page shows of flows, as JSON: made of what the process that runs them knows.

Bounded, however many partitions there are: the gravest come first, the others are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mm2.app import overview, rates
from mm2.app.reports import flow_report, flow_verdict, words
from mm2.app.ui import estimates, timeline, tones
from mm2.connectors import flow_status
from mm2.core import commands, flows

VERSION = 1
"""Of every document below `/ui/api/`."""
TOPICS_MAX = 100
STANDING_MAX = 20
TROUBLES_MAX = 10
NAMES_MAX = 5
"""So many partitions that stand for one reason are named."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The process. `engine` is what copies, and whether it is up; `file` as it was named."""

    release: str
    pid: int
    host: str
    file: str
    engine: str
    engine_ready: bool
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSeen:
    """One flow at one moment: its part of the file, what it counts, how it stands. `rates` None:
    they are not known yet."""

    flow: flows.Flow
    status: flow_status.FlowStatus
    report: flow_report.FlowReport
    verdict: flow_verdict.Verdict
    rates: rates.Rates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All of them, in the file's order, as of `at_ms`."""

    at_ms: int
    node: Node
    flows: tuple[FlowSeen, ...]

    def find(self, flow: str) -> FlowSeen | None:
        return next((each for each in self.flows if each.flow.name == flow), None)


def overview_json(seen: Seen) -> Json:
    """All flows in short, and what somebody should look at."""
    aliases = dict.fromkeys(
        alias for each in seen.flows for alias in (each.flow.source, each.flow.target)
    )
    standing = [
        {"flow": each.flow.name, **one} for each in seen.flows for one in _standing(each.report)
    ]
    return {
        **head(seen),
        "clusters": [{"alias": alias} for alias in aliases],
        "flows": [_summary(each) for each in seen.flows],
        "standing": standing[:STANDING_MAX],
        "standing_hidden": max(0, len(standing) - STANDING_MAX),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One flow with all that is shown of it, whatever topics are looked for: made once a look.
    `topics` are all of them, the gravest first."""

    about: Json
    topics: Sequence[Json]


def detail(seen: Seen, one: FlowSeen, past: Sequence[timeline.Point]) -> Detail:
    report, holds = one.report, one.status.holds
    rows = [
        _topic(one, name, parts) for name, parts in flow_report.by_topic(report.partitions).items()
    ]
    rows.sort(key=lambda row: (_RANK[row["tone"]], -(row["lag_records"] or 0), row["topic"]))
    about = {
        **head(seen),
        **_summary(one),
        "tasks": [_task(each) for each in report.tasks],
        "standing": list(_standing(report))[:STANDING_MAX],
        "warnings": list(one.verdict.notes),
        "troubles": [
            {"text": each.text, "at_ms": each.at_ms, "resolved_ms": each.resolved_ms}
            for each in flow_report.past_troubles(report)[:TROUBLES_MAX]
        ],
        "holds": {
            "paused": holds.paused,
            "paused_topics": sorted(holds.paused_topics)[:TOPICS_MAX],
            "throttle_bytes_s": holds.budgets.flow or None,
        },
        "estimate": estimates.as_json(estimates.make(report, one.flow, verdict=one.verdict)),
        "timeline": timeline.as_json(past),
    }
    return Detail(about=about, topics=rows)


def flow_json(found: Detail, *, topic: str = "") -> Json:
    """Of its topics those whose name has `topic` in it."""
    rows = [row for row in found.topics if topic in row["topic"]]
    return {**found.about, "topics": rows[:TOPICS_MAX], "topics_found": len(rows)}


_RANK = {
    tone.value: rank
    for rank, tone in enumerate(
        (
            tones.Tone.BAD,
            tones.Tone.UNKNOWN,
            tones.Tone.WAIT,
            tones.Tone.OFF,
            tones.Tone.GOOD,
        )
    )
}


def head(seen: Seen) -> Json:
    """What every document begins with."""
    node = seen.node
    return {
        "version": VERSION,
        "at_ms": seen.at_ms,
        "node": {
            "release": node.release,
            "pid": node.pid,
            "host": node.host,
            "file": node.file,
            "engine": node.engine,
            "engine_ready": node.engine_ready,
            "started_ms": node.started_ms,
        },
    }


def _summary(one: FlowSeen) -> Json:
    report, parts = one.report, one.report.partitions
    topics = {each.topic for each in parts}
    soonest = flow_report.soonest(parts)
    return {
        "flow": one.flow.name,
        "source": one.flow.source,
        "target": one.flow.target,
        "state": report.state.value,
        "tone": tones.of_flow(report, one.verdict).value,
        "state_words": tones.in_words(report, one.verdict),
        "health": one.verdict.health.value,
        "reasons": list(one.verdict.reasons),
        "reason": report.reason,
        "since_ms": report.since_ms,
        "nodes": list(report.nodes),
        "elsewhere": report.elsewhere,
        "topic_count": len(topics),
        "partition_count": len(parts),
        "partition_states": dict(sorted(Counter(each.state for each in parts).items())),
        "standing_count": sum(each.state in flow_report.STANDING for each in parts),
        "task_states": dict(sorted(Counter(each.state for each in report.tasks).items())),
        "warning_count": len(one.verdict.notes),
        "slots_missing": one.status.slots_missing,
        "copied_records": sum(each.records for each in one.status.partitions),
        "copied_bytes": sum(each.bytes for each in one.status.partitions),
        "loss": "" if soonest is None else words.loss(soonest),
        **_lag(parts, report.at_ms),
        **_rate(one, topics),
    }


def _lag(parts: Sequence[flow_report.Partition], at_ms: int) -> Json:
    """Of no partitions no lag is known, rather than none."""
    return flow_report.lag_json(
        flow_report.lag(parts, at_ms)
        if parts
        else flow_report.Lag(records=None, ms=None, complete=False, dated=False)
    )


def _rate(one: FlowSeen, topics: set[str]) -> Json:
    found = None
    if one.rates is not None:
        found = [one.rates.of(one.flow.name, topic) for topic in topics]
    return {
        "records_s": None if found is None else round(sum(each.records_s for each in found), 1),
        "bytes_s": None if found is None else round(sum(each.bytes_s for each in found), 1),
    }


def _topic(one: FlowSeen, name: str, parts: Sequence[flow_report.Partition]) -> Json:
    soonest = flow_report.soonest(parts)
    states = Counter(each.state for each in parts)
    return {
        "topic": name,
        "mirror": parts[0].mirror,
        "tone": tones.gravest([tones.of_partition(each, one.report.at_ms) for each in parts]).value,
        "partition_count": len(parts),
        "states": dict(sorted(states.items())),
        "reason": next((_split(each.reason)["reason"] for each in parts if _says_why(each)), ""),
        "loss": "" if soonest is None else words.loss(soonest),
        "throttle_bytes_s": one.status.holds.budgets.of_topic(name),
        **_lag(parts, one.report.at_ms),
        **_rate(one, {name}),
    }


def _says_why(each: flow_report.Partition) -> bool:
    """What stands still is told of on its own."""
    return bool(each.reason) and each.state not in flow_report.STANDING


def _task(each: flow_report.Task) -> Json:
    return {
        "number": each.number,
        "state": each.state,
        "tone": tones.of_task(each).value,
        "node": each.node,
        "reason": each.reason,
        "restarts": each.restarts,
    }


def _standing(report: flow_report.FlowReport) -> Iterator[Json]:
    """Partitions that are stopped, together where they are for the same reason."""
    for each in flow_report.halts(report.partitions):
        yield {
            "topic": each.topic,
            "state": each.state,
            "partitions": list(each.partitions[:NAMES_MAX]),
            "partition_count": len(each.partitions),
            "since_ms": each.since_ms,
            **_split(each.reason),
        }


def _split(reason: str) -> Json:
    """A reason without the way on that it ends with, and that as a command; "" where none is."""
    text, _, _ = reason.partition(commands.TO_GO_ON)
    return {
        "reason": overview.reason_in_words(text.strip()).rstrip("."),
        "command": commands.found_in(reason),
    }
