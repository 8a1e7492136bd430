"""What a move has done, as people read it: times, how each step was read back, the recovery point,
and where each group stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from connect_runtime.base import amounts
from mm2.app import columns, figures
from mm2.app.failover import show
from mm2.core import commands
from mm2.core.failover import orders

_STEP_COLUMNS = ("STEP", "BEGAN", "TOOK", "READ-BACK")
_GROUP_COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "MIRROR",
    "BASIS",
    "GOES-ON-AT",
    "STANDS-AT",
    "READ-AGAIN",
    "STATE",
)
_NAMES_MAX = 10


def lines(report: Mapping[str, Any], *, file: str) -> Iterator[str]:
    """`report` as `details.report` makes it, and the journal keeps it. `file` configures the
    flow."""
    yield ""
    yield f"{report['kind']} {report['from']} -> {report['to']}, flow {report['flow']}"
    ends = f"{show.moment(report['begun_at_ms'])} to {show.moment(report['ended_at_ms'])}"
    yield f"done in {figures.duration(report['took_ms'] / 1000)}, {ends}"
    yield show.rpo(
        report["to"],
        lag_records=report["lag_records"],
        lag_ms=report["lag_ms"],
        newest_ms=report["newest_ms"],
    )
    groups = amounts.counted(len(report["moved"]), "group")
    yield f"{groups} moved, re-read: {report['read_again']}"
    yield ""
    yield from columns.lines(_STEP_COLUMNS, [_step(each) for each in report["steps"]])
    for each in report["failures"]:
        yield f"{each['step']} had failed: {each['error']}"
    yield ""
    yield from columns.lines(_GROUP_COLUMNS, list(_groups(report)))
    yield from _differences(report)
    yield ""
    yield from show.finding_lines(report["findings"])
    yield from _way_on(report, file)


def _step(each: Mapping[str, Any]) -> tuple[str, ...]:
    took = figures.duration(each["took_ms"] / 1000)
    return each["step"], show.moment(each["began_at_ms"]), took, each["read_back"]


def _groups(report: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    stands = {
        (each["group"], each["topic"], each["partition"]): each["stands_at"]
        for each in report["verified"]
    }
    for group in report["moved"]:
        for each in group["partitions"]:
            yield (
                group["group"],
                each["topic"],
                str(each["partition"]),
                each["mirror"] or figures.UNKNOWN,
                show.basis(each["basis"], each["checkpointed_ms"], report["looked_at_ms"]),
                show.number(each["goes_on_at"]),
                show.number(stands.get((group["group"], each["mirror"], each["partition"]))),
                show.reread(each["read_again_max"], each["basis"]),
                each["state"],
            )


def _differences(report: Mapping[str, Any]) -> Iterator[str]:
    for each in report["verified"]:
        if each["before"]:
            at = "nowhere" if each["stands_at"] is None else f"at {each['stands_at']}"
            yield (
                f"group {each['group']} stands {at} in {each['topic']}-{each['partition']}, before "
                f"{each['moved_to']}: it reads again from there, as was accepted"
            )
    for name in report["unmoved"]:
        yield f"group {name} was not moved"
    for each in report["unmoved_groups"]:
        yield f"{each['type']} group {each['group']} was not moved"


def _way_on(report: Mapping[str, Any], file: str) -> Iterator[str]:
    flow, there, active = report["flow"], report["to"], report["active"]
    if active is None:
        yield f"which groups have members on {there} by now could not be seen"
    else:
        known = set(active)
        idle = [each["group"] for each in report["moved"] if each["group"] not in known]
        if active:
            yield f"members on {there} already: {_names(active)}"
        if idle:
            yield f"no members on {there} yet: {_names(idle)}"
    operator = commands.Operator(file=file)
    yield f"the flow {flow} stays stopped until: {operator.go_on(flow, None)}"
    if report["kind"] == orders.Kind.BACK.value:
        forth = f"{report['to']}->{report['from']}"
        yield f"and so does {forth}, if it was stopped: {operator.go_on(forth, None)}"
    stranded = report["stranded_records"]
    if stranded:
        yield f"{amounts.counted(stranded, 'record')} came to the cluster left after the last look"


def _names(groups: Sequence[str]) -> str:
    more = len(groups) - _NAMES_MAX
    return ", ".join(groups[:_NAMES_MAX]) + (f" and {more:,} more" if more > 0 else "")
