"""Which mark a state gets on the page: one of five, each with a sign and a word beside its colour.

Only what is surely well is `GOOD`: what nobody knows is `UNKNOWN`, whatever was so before.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from mm2.app import overview
from mm2.app.reports import flow_report


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
_FLOWS = {
    flow_report.State.PLANNING: Tone.WAIT,
    flow_report.State.PAUSED: Tone.WAIT,
    flow_report.State.STOPPING: Tone.WAIT,
    flow_report.State.STOPPED: Tone.OFF,
    flow_report.State.FAILED: Tone.BAD,
    flow_report.State.NOT_RUNNING: Tone.BAD,
    flow_report.State.UNKNOWN: Tone.UNKNOWN,
}
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


LATE_MS = 60_000
"""What waits longer to be copied is worth a look."""


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
        return Tone.GOOD if lag_ms < LATE_MS else Tone.WAIT
    if each.state == flow_report.UNSEEN and each.reason:
        return Tone.BAD
    return _PARTITIONS.get(each.state, Tone.UNKNOWN)


def of_task(each: flow_report.Task) -> Tone:
    return _TASKS.get(each.state, Tone.UNKNOWN)


def of_flow(report: flow_report.FlowReport, *, crosses: bool = True) -> Tone:
    """One that runs is as well as the gravest of its parts that are copied here, and of its tasks
    everywhere; where nothing `crosses` within the objective what was known may be long past. What
    others copy nobody here knows: who says how well a flow is says how much of it that is, too."""
    known = _FLOWS.get(report.state)
    parts = [of_partition(each, report.at_ms) for each in report.partitions]
    tasks = [of_task(each) for each in report.tasks]
    if Tone.BAD in (*parts, *tasks):
        return Tone.BAD
    if known is not None:
        return known
    if not report.partitions:
        return gravest([Tone.OFF, *tasks]) if report.elsewhere else Tone.WAIT
    if not crosses:
        return Tone.UNKNOWN
    of_all = gravest([*parts, *tasks])
    return Tone.WAIT if of_all is Tone.GOOD and report.warnings else of_all


def in_words(report: flow_report.FlowReport, *, crosses: bool = True) -> str:
    """A flow's state for people: one that runs, and is not well, says so, and one that does not
    run here alone. `crosses` as above."""
    word = report.state.value.lower().replace("_", " ")
    tone = of_flow(report, crosses=crosses)
    if report.state is not flow_report.State.RUNNING:
        return word
    if tone is Tone.GOOD:
        return f"{word} here" if report.elsewhere else word
    if tone is Tone.OFF and not report.partitions:
        return f"{word} elsewhere"
    if tone is Tone.WAIT and not report.partitions:
        return f"{word}, nothing to copy"
    standing = sum(each.state in flow_report.STANDING for each in report.partitions)
    if standing:
        return f"{word}, {standing} stopped"
    if tone is Tone.UNKNOWN and not crosses:
        return f"{word}, nothing crosses"
    return f"{word}, {_RUNNING[tone]}"


_RUNNING = {
    Tone.BAD: "in trouble",
    Tone.UNKNOWN: "not all known",
    Tone.WAIT: "have a look",
    Tone.OFF: "in part",
}
