"""Whether a flow replicates: the one verdict behind exit codes, JSON, /health/replicating, the
status page and the metric mm2_flow_healthy."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import amounts
from mm2.app import exits, figures, overview
from mm2.app.reports import flow_report, words
from mm2.core import reachability
from mm2.core.copy import ages

LATE_MS = 60_000
"""A healthy flow with an older lag is worth a note."""
_WAITS = frozenset({"waiting", "taking"})
"""States of partitions that are not replicated yet, or not at present."""
WAITS_MAX_S = 10
"""A flow is healthy while a partition waits for no longer than this, for its new leader say."""


class Health(enum.Enum):
    """Of a flow, as far as whoever made its report can see."""

    HEALTHY = "healthy"
    """Its records are being replicated, and nothing needs an operator."""
    SUSPENDED = "suspended"
    """An operator paused or stopped it."""
    PENDING = "pending"
    """It is starting or stopping, or has nothing to replicate."""
    UNKNOWN = "unknown"
    UNHEALTHY = "unhealthy"
    """Records are not being replicated, or will be lost, unless somebody acts."""


_WORST_FIRST = (
    Health.UNHEALTHY,
    Health.UNKNOWN,
    Health.PENDING,
    Health.SUSPENDED,
    Health.HEALTHY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`reasons` say why the flow is not healthy, worst first; none where it is. `notes` are what an
    operator should know of it all the same."""

    health: Health
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_healthy(self) -> bool:
        return self.health is Health.HEALTHY

    def describe(self) -> str:
        """`unhealthy: source east unreachable since 22:03:28Z: …`."""
        reasons = "; ".join(self.reasons)
        return f"{self.health.value}: {reasons}" if reasons else self.health.value


def judge(report: flow_report.FlowReport, *, within_s: float) -> Verdict:
    """`within_s`: `health.replicating.within.seconds`, how long a flow may go without replicating a
    batch while its source may have records left."""
    found = [*_find(report)]
    if report.state is flow_report.State.RUNNING and not found:
        found = [*_running(report, within_s=within_s)]
    found.sort(key=lambda each: _WORST_FIRST.index(each[0]))
    return Verdict(
        health=found[0][0] if found else Health.HEALTHY,
        reasons=tuple(dict.fromkeys(text for _, text in found)),
        notes=(*_notes(report), *report.warnings),
    )


def as_json(report: flow_report.FlowReport, *, within_s: float) -> dict[str, Any]:
    """`health`, `reasons` and `notes`, to stand beside `flow_report.as_json`."""
    found = judge(report, within_s=within_s)
    return {
        "health": found.health.value,
        "reasons": list(found.reasons),
        "notes": list(found.notes),
    }


def exit_code(reports: Sequence[flow_report.FlowReport], *, within_s: float) -> int:
    """`exits.DONE` where every flow is healthy."""
    return exits.worst([_exit_code(each, within_s=within_s) for each in reports])


def _exit_code(report: flow_report.FlowReport, *, within_s: float) -> int:
    if report.state is flow_report.State.UNKNOWN:
        return exits.UNREACHABLE
    match judge(report, within_s=within_s).health:
        case Health.HEALTHY:
            return exits.DONE
        case Health.UNKNOWN:
            return exits.UNKNOWN
        case _:
            return exits.FAILED


_Found = tuple[Health, str]


def _find(report: flow_report.FlowReport) -> Iterator[_Found]:
    """What keeps any flow, whatever its state, from being healthy."""
    if report.state is not flow_report.State.UNKNOWN:
        for each in _unreachable(report):
            yield Health.UNHEALTHY, each.describe()
    yield from _state(report)
    for task in report.tasks:
        if task.state == flow_report.FAILED:
            reason = f": {task.reason}" if task.reason else ""
            yield Health.UNHEALTHY, f"task {task.number} failed{reason}"
    halted = [each for each in report.partitions if each.state in flow_report.STANDING]
    if halted:
        yield Health.UNHEALTHY, f"{amounts.counted(len(halted), 'partition')} halted"
    damaged = [
        each for each in report.partitions if each.state == flow_report.UNSEEN and each.reason
    ]
    if damaged:
        first = damaged[0]
        more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        yield Health.UNHEALTHY, f"{first.place}: {first.reason}{more}"
    short = [each for each in report.partitions if each.outlook.is_short]
    soonest = flow_report.soonest(short)
    if soonest is not None:
        yield Health.UNHEALTHY, words.loss(soonest)


def _unreachable(report: flow_report.FlowReport) -> Iterator[reachability.Unreachable]:
    """Clusters, and brokers while a partition waits for one."""
    waits = any(each.state in _WAITS for each in report.partitions)
    for each in report.unreachable:
        if waits or not each.broker:
            yield each


def _state(report: flow_report.FlowReport) -> Iterator[_Found]:
    State = flow_report.State
    reason = report.reason
    match report.state:
        case State.RUNNING:
            return
        case State.FAILED:
            reason = _without_unreachable(report)
            if reason or not report.unreachable:
                yield Health.UNHEALTHY, reason or "the flow failed, no cause was reported"
        case State.NOT_RUNNING:
            yield Health.UNHEALTHY, reason or "no mm2 process runs this flow"
        case State.UNKNOWN:
            yield Health.UNKNOWN, reason or "its target cluster does not answer"
        case State.PAUSED:
            yield Health.SUSPENDED, reason or "paused by an operator"
        case State.STOPPED:
            yield Health.SUSPENDED, reason or "stopped"
        case State.PLANNING | State.STOPPING:
            reason = _without_unreachable(report)
            if reason or not report.unreachable:
                yield Health.PENDING, reason or report.state.value.lower()


def _without_unreachable(report: flow_report.FlowReport) -> str:
    """The reason of its state, without what is said of its clusters already."""
    reason = report.reason
    for each in report.unreachable:
        reason = reason.replace(each.describe(), "").strip("; ")
    return reason


def _running(report: flow_report.FlowReport, *, within_s: float) -> Iterator[_Found]:
    """Of a flow that runs, and of which nothing bad is known: does it replicate?"""
    if report.elsewhere and report.unseen:
        count = amounts.counted(report.elsewhere, "partition")
        yield Health.UNKNOWN, f"the status of {count} on other nodes is unknown: {report.unseen}"
    if not report.partitions:
        if not report.elsewhere:
            yield Health.PENDING, overview.NOTHING_TO_COPY
        return
    yield from _old_lag(report, within_s=within_s)
    yield from _last_batch(report, within_s=within_s)
    lasting = [
        each
        for each in report.partitions
        if each.since_ms is not None
        if _lasts(each.since_ms, report.at_ms, WAITS_MAX_S)
    ]
    waiting = [each for each in lasting if each.state in _WAITS]
    if waiting:
        starts = report.since_ms is not None and not _lasts(report.since_ms, report.at_ms, within_s)
        count = amounts.counted(len(waiting), "partition", "are")
        reason = next((f": {each.reason}" for each in waiting if each.reason), "")
        yield (
            Health.PENDING if starts else Health.UNHEALTHY,
            f"{count} not being replicated{reason}",
        )
    unknown = [
        each
        for each in report.partitions
        if each.lag_records is None and (each in lasting or each.state == flow_report.UNSEEN)
        if each.state not in (*_WAITS, overview.PAUSED)
    ]
    if unknown:
        count = amounts.counted(len(unknown), "partition")
        yield Health.UNKNOWN, f"the lag of {count} is unknown"


def _lasts(since_ms: int, at_ms: int, for_s: float) -> bool:
    """Also where a clock was set and nobody knows for how long: that excuses nothing."""
    age_ms = ages.age_ms(since_ms, at_ms)
    return age_ms is None or age_ms >= for_s * 1000


def _old_lag(report: flow_report.FlowReport, *, within_s: float) -> Iterator[_Found]:
    """Of partitions that the clusters alone tell of: do those that lag move at all?"""
    unseen = [each for each in report.partitions if each.state == flow_report.UNSEEN]
    lag = flow_report.lag(unseen, report.at_ms)
    if report.crossed is None and lag.ms is not None and lag.ms > within_s * 1000:
        age = figures.duration(lag.ms / 1000)
        yield (
            Health.UNKNOWN,
            f"a record waits for {age} to be replicated; whether others are, only the process "
            "knows that runs the flow",
        )


def _last_batch(report: flow_report.FlowReport, *, within_s: float) -> Iterator[_Found]:
    crossed = report.crossed
    if crossed is None:
        return
    age_ms = ages.age_ms(crossed.at_ms, report.at_ms)
    if age_ms is None:
        yield (
            Health.UNKNOWN,
            "the last replication time is in the future: a clock was changed, or the clocks of two "
            "machines differ; synchronize them with NTP",
        )
        return
    age_s = age_ms / 1000
    allowed = f"health.replicating.within.seconds: {within_s:g}"
    if crossed.last is None:
        text = f"no record replicated since the flow started {figures.duration(age_s)} ago"
        late = age_s > within_s
        yield Health.UNHEALTHY if late else Health.PENDING, f"{text} ({allowed})"
    elif age_s > within_s:
        text = f"no record replicated for {figures.duration(age_s)}"
        yield Health.UNHEALTHY, f"{text} ({allowed})"


def _notes(report: flow_report.FlowReport) -> Iterator[str]:
    for each in report.unreachable:
        if each.broker:
            yield each.describe()
    if report.elsewhere:
        count = amounts.counted(report.elsewhere, "partition", "are")
        yield f"{count} replicated by other nodes"
    found = flow_report.lag(report.partitions, report.at_ms)
    if report.state is flow_report.State.RUNNING and found.ms is not None and found.ms >= LATE_MS:
        yield f"the oldest unreplicated record is {figures.duration(found.ms / 1000)} old"
