"""Which mark a state gets on the page: one of five, each with a sign and a word beside its colour.

Only what is surely well is `GOOD`: what nobody knows is `UNKNOWN`, whatever was so before.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from mm2.app import overview
from mm2.app.reports import flow_report, flow_verdict


class Tone(enum.Enum):
    GOOD = "good"
    WAIT = "wait"
    """It is on its way, or held back by somebody; or well, with something to know."""
    BAD = "bad"
    """It does not move until somebody acts."""
    OFF = "off"
    """Somebody has stopped it; or it is no matter of this process."""
    UNKNOWN = "unknown"


_GRAVEST_FIRST = (Tone.BAD, Tone.UNKNOWN, Tone.WAIT, Tone.OFF, Tone.GOOD)
_TASKS = {
    "RUNNING": Tone.GOOD,
    "FAILED": Tone.BAD,
    "PAUSED": Tone.WAIT,
    "STOPPED": Tone.OFF,
    "STOPPING": Tone.WAIT,
    "STARTING": Tone.WAIT,
    "RESTARTING": Tone.WAIT,
    "WAITING_FOR_SLOT": Tone.WAIT,
    "UNASSIGNED": Tone.WAIT,
}
_PARTITIONS = {
    "waiting": Tone.WAIT,
    "taking": Tone.WAIT,
    overview.PAUSED: Tone.WAIT,
    "closed": Tone.OFF,
}


def gravest(tones: Sequence[Tone]) -> Tone:
    """Of several that belong together; of none nothing is known."""
    return min(tones, key=_GRAVEST_FIRST.index, default=Tone.UNKNOWN)


def of_partition(each: flow_report.Partition, now_ms: int) -> Tone:
    """One that copies is well only where its lag is known, and no record waits for long."""
    if each.state in flow_report.STANDING or each.outlook.is_short:
        return Tone.BAD
    if each.state == flow_report.COPYING:
        lag_ms = each.lag_ms(now_ms)
        if each.lag_records is None or lag_ms is None:
            return Tone.UNKNOWN
        return Tone.GOOD if lag_ms < flow_verdict.LATE_MS else Tone.WAIT
    if each.state == flow_report.UNSEEN and each.reason:
        return Tone.BAD
    return _PARTITIONS.get(each.state, Tone.UNKNOWN)


def of_task(each: flow_report.Task) -> Tone:
    return _TASKS.get(each.state, Tone.UNKNOWN)


_HEALTH = {
    flow_verdict.Health.HEALTHY: Tone.GOOD,
    flow_verdict.Health.PENDING: Tone.WAIT,
    flow_verdict.Health.UNKNOWN: Tone.UNKNOWN,
    flow_verdict.Health.UNHEALTHY: Tone.BAD,
}


def of_flow(report: flow_report.FlowReport, verdict: flow_verdict.Verdict) -> Tone:
    """That of its verdict; a healthy flow with something to know, or to look at, waits."""
    if verdict.health is flow_verdict.Health.SUSPENDED:
        return Tone.OFF if report.state is flow_report.State.STOPPED else Tone.WAIT
    tone = _HEALTH[verdict.health]
    if tone is not Tone.GOOD:
        return tone
    if not report.partitions:
        return Tone.OFF
    notes = len(verdict.notes) - bool(report.elsewhere)
    parts = [of_partition(each, report.at_ms) for each in report.partitions]
    tasks = [of_task(each) for each in report.tasks]
    return gravest([Tone.WAIT if notes else Tone.GOOD, *parts, *tasks])


def in_words(report: flow_report.FlowReport, verdict: flow_verdict.Verdict) -> str:
    """A flow's state for people: one that runs, and is not healthy, says so, and one of which other
    nodes replicate all or a part."""
    word = report.state.value.lower().replace("_", " ")
    if report.state is not flow_report.State.RUNNING:
        return word
    if verdict.is_healthy:
        if not report.elsewhere:
            return word
        return f"{word} here" if report.partitions else f"{word} elsewhere"
    stopped = sum(each.state in flow_report.STANDING for each in report.partitions)
    return f"{word}, {stopped} halted" if stopped else f"{word}, {verdict.health.value}"
