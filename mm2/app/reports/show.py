"""How flows stand, as tables for people: columns as operators know them from other tools."""

from __future__ import annotations

import dataclasses
import datetime
from collections import Counter
from collections.abc import Iterator, Sequence

from connect_runtime.base import amounts
from mm2.app import columns, figures
from mm2.app.reports import asking, flow_report, flow_verdict, words
from mm2.core import commands

TROUBLES_MAX = 5
STANDING_MAX = 20
"""So many are shown one by one."""
NAMES_MAX = 5
"""So many partitions that are stopped for one cause are named."""
_TOPIC_COLUMNS = (*("TOPIC", "PARTITIONS", "LAG", "LAG-TIME", "LOST-IN", "STATE"),)
_LAG_COLUMNS = (
    *("TOPIC", "PARTITION", "MIRROR", "SOURCE-END", "COPIED-TO", "LAG", "LAG-TIME", "LOST-IN"),
    "STATE",
)
_TOTAL = "*"


def status(found: asking.Found) -> Iterator[str]:
    """Each flow: its state, who runs it, its topics, what stands still, what went wrong."""
    for each in found.flows:
        yield from _flow(each, within_s=found.within_s)
        yield ""
    yield from found.notes


def lag(found: asking.Found, *, partitions: bool) -> Iterator[str]:
    """Each flow's topics, with `partitions` also each of these, and the flow as a whole."""
    for each in found.flows:
        yield _headline(each, within_s=found.within_s)
        rows = list(_lag_rows(each, partitions=partitions))
        yield from columns.lines(_LAG_COLUMNS, rows)
        yield ""
    yield from found.notes


def only(found: asking.Found, topic: str) -> asking.Found:
    """What is of this topic of the source, or of its mirror."""
    return dataclasses.replace(
        found,
        flows=tuple(
            dataclasses.replace(
                each,
                partitions=tuple(
                    part for part in each.partitions if topic in (part.topic, part.mirror)
                ),
            )
            for each in found.flows
        ),
    )


def moment(ms: int | None) -> str:
    """`2026-11-22T14:40:00Z`."""
    if ms is None:
        return figures.UNKNOWN
    found = datetime.datetime.fromtimestamp(ms / 1000, tz=datetime.UTC)
    return found.isoformat(timespec="seconds").replace("+00:00", "Z")


def _headline(each: flow_report.FlowReport, *, within_s: float) -> str:
    """`east->west  RUNNING since …, unhealthy: source east unreachable …  (seen by process 7)`."""
    since = "" if each.since_ms is None else f" since {moment(each.since_ms)}"
    seen_by = ", ".join(each.seen_by)
    verdict = flow_verdict.judge(each, within_s=within_s)
    state = f"{each.state.value}{since}, "
    if each.state is flow_report.State.UNKNOWN:
        state = ""  # as is the verdict
    return f"{each.flow}  {state}{verdict.describe()}  (seen by {seen_by})"


def _flow(each: flow_report.FlowReport, *, within_s: float) -> Iterator[str]:
    yield _headline(each, within_s=within_s)
    of_all = flow_report.lag(each.partitions, each.at_ms)
    yield f"  lag: {in_words(of_all)}; as of {moment(each.at_ms)}"
    soonest = flow_report.soonest(each.partitions)
    if soonest is not None:
        yield f"  {words.loss(soonest)}"
    yield from _tasks(each)
    topics = flow_report.by_topic(each.partitions)
    rows = [_topic_row(name, parts, each.at_ms) for name, parts in topics.items()]
    if rows:
        yield from (f"  {line}" for line in columns.lines(_TOPIC_COLUMNS, rows))
    yield from _halts(each)
    for line in flow_verdict.judge(each, within_s=within_s).notes:
        yield f"  warning: {line}"
    for trouble in flow_report.past_troubles(each)[:TROUBLES_MAX]:
        if trouble.resolved_ms is None:
            yield f"  {moment(trouble.at_ms)}: {trouble.text}"
            continue
        text = commands.split(trouble.text)[0].rstrip(".")  # its remedy has nothing left to do
        yield f"  {moment(trouble.at_ms)}: {text} (resolved {moment(trouble.resolved_ms)})"


def _tasks(each: flow_report.FlowReport) -> Iterator[str]:
    """One line for each node, and one for what nobody has."""
    for node in sorted({task.node for task in each.tasks}):
        mine = [task for task in each.tasks if task.node == node]
        states = Counter(task.state or "not running" for task in mine)
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        numbers = ", ".join(str(task.number) for task in mine)
        yield f"  {node or 'no node'}: tasks {numbers} ({told})"
    for task in each.tasks:
        restarts = f", restarted {amounts.counted(task.restarts, 'time')}" if task.restarts else ""
        if task.reason or restarts:
            reason = f": {task.reason}" if task.reason else ""
            yield f"  task {task.number}: {task.state}{restarts}{reason}"


def _halts(each: flow_report.FlowReport) -> Iterator[str]:
    """Stopped partitions, one line for each topic and cause."""
    found = flow_report.halts(each.partitions)
    for halt in found[:STANDING_MAX]:
        names = ", ".join(f"{halt.topic}-{number}" for number in halt.partitions[:NAMES_MAX])
        hidden = len(halt.partitions) - NAMES_MAX
        more = f" and {hidden} more" if hidden > 0 else ""
        since = "" if halt.since_ms is None else f" since {moment(halt.since_ms)}"
        yield f"  halted{since}: {names}{more}: {halt.reason}"
    if len(found) > STANDING_MAX:
        yield f"  … and {amounts.counted(len(found) - STANDING_MAX, 'more cause')}"


def _topic_row(name: str, parts: Sequence[flow_report.Partition], at_ms: int) -> tuple[str, ...]:
    of_all = flow_report.lag(parts, at_ms)
    return (
        name,
        str(len(parts)),
        records(of_all),
        age(of_all),
        words.time_left(flow_report.soonest(parts)),
        _states(parts),
    )


def _lag_rows(each: flow_report.FlowReport, *, partitions: bool) -> Iterator[tuple[str, ...]]:
    for name, parts in flow_report.by_topic(each.partitions).items():
        if partitions:
            for part in parts:
                yield _lag_row(part, each.at_ms)
        if not partitions or len(parts) > 1:
            yield _sum_row(name, parts, at_ms=each.at_ms, mirror=parts[0].mirror)
    yield _sum_row(_TOTAL, each.partitions, at_ms=each.at_ms, mirror=figures.UNKNOWN)


def _lag_row(part: flow_report.Partition, at_ms: int) -> tuple[str, ...]:
    alone = flow_report.lag([part], at_ms)
    return (
        part.topic,
        str(part.partition),
        part.mirror,
        _number(part.end),
        _number(part.copied_to),
        records(alone),
        age(alone),
        words.time_left(part.outlook),
        _states([part]),
    )


def _sum_row(
    name: str, parts: Sequence[flow_report.Partition], *, at_ms: int, mirror: str
) -> tuple[str, ...]:
    of_all = flow_report.lag(parts, at_ms)
    return (
        name,
        _TOTAL,
        mirror,
        figures.UNKNOWN,
        figures.UNKNOWN,
        records(of_all),
        age(of_all),
        words.time_left(flow_report.soonest(parts)),
        _states(parts),
    )


def _states(parts: Sequence[flow_report.Partition]) -> str:
    """`copying`, `2 stopped, 4 copying`."""
    found = Counter(part.state for part in parts)
    if len(found) == 1:
        return next(iter(found)) or figures.UNKNOWN
    return ", ".join(f"{count} {state or 'unknown'}" for state, count in found.most_common()[::-1])


def records(found: flow_report.Lag) -> str:
    """`>` where a part is not known."""
    if found.records is None:
        return figures.UNKNOWN
    return f"{'' if found.complete else '>'}{found.records}"


def in_words(found: flow_report.Lag) -> str:
    """`12 records, 0.3 s`; `>` where a part is not known; `unknown` where nothing is."""
    if found.records is None:
        return "unknown"
    count = f"{'' if found.complete else '>'}{amounts.counted(found.records, 'record')}"
    return f"{count}, {age(found)}"


def age(found: flow_report.Lag) -> str:
    """As `records`."""
    if found.ms is None:
        return figures.UNKNOWN
    return f"{'' if found.dated else '>'}{figures.duration(found.ms / 1000)}"


def _number(value: int | None) -> str:
    return figures.UNKNOWN if value is None else str(value)
