"""Formats the tables and lines that `mm2 status` and `mm2 lag` print.

Columns are named as in Kafka's own tools. A leading `>` marks a lower bound: the lag of some
partitions is unknown.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

from connect_runtime.base import plurals
from mm2 import suggested_commands, text_format
from mm2.status import replication_health, status_document, time_to_data_loss
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState, ReportedLag
from mm2.status.status_query import StatusQueryResult

SHOWN_PROBLEMS_MAX = 5
SHOWN_HALTS_MAX = 20
"""Maximum number of halt groups (same topic and reason) that are listed per flow."""
NAMED_PARTITIONS_MAX = 5
"""Maximum number of halted partitions that are named for each topic and halt reason."""
_TOPIC_COLUMNS = (*("TOPIC", "PARTITIONS", "LAG", "LAG-TIME", "TIME-TO-LOSS", "STATE"),)
_LAG_COLUMNS = (
    *("TOPIC", "PARTITION", "MIRROR", "SOURCE-END", "COPIED-TO", "LAG", "LAG-TIME", "TIME-TO-LOSS"),
    "STATE",
)
_TOTAL_ROW = "*"


def render_status(found: StatusQueryResult) -> Iterator[str]:
    """Yield the lines about each flow's state, tasks, topics, halts and problems."""
    for each in found.flows:
        yield from _render_flow(each, within_s=found.within_s)
        yield ""
    yield from found.notes


def render_lag(found: StatusQueryResult, *, partitions: bool) -> Iterator[str]:
    """Yield the lines about each flow's topics and the flow's total; if `partitions` is true, also
    about each partition."""
    for each in found.flows:
        yield _render_headline(each, within_s=found.within_s)
        rows = list(_make_lag_rows(each, partitions=partitions))
        yield from text_format.format_columns(_LAG_COLUMNS, rows)
        yield ""
    yield from found.notes


def select_topic_partitions(found: StatusQueryResult, topic: str) -> StatusQueryResult:
    """Remove from the reports all partitions that do not belong to the given source or mirror
    topic."""
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


def _render_headline(each: FlowReport, *, within_s: float) -> str:
    """Format the first line about a flow, for example `east->west RUNNING since …, unhealthy:
    source east unreachable … (seen by process 7)`."""
    since = "" if each.since_ms is None else f" since {text_format.format_time(each.since_ms)}"
    seen_by = ", ".join(each.seen_by)
    verdict = replication_health.evaluate_flow(each, within_s=within_s)
    state = f"{each.state.value}{since}, "
    if each.state is ReportedFlowState.UNKNOWN:
        state = ""  # the health is UNKNOWN as well
    return f"{each.flow}  {state}{verdict.describe()}  (seen by {seen_by})"


def _render_flow(each: FlowReport, *, within_s: float) -> Iterator[str]:
    yield _render_headline(each, within_s=within_s)
    of_all = status_document.sum_lag(each.partitions, each.at_ms)
    yield f"  lag: {describe_lag(of_all)}; as of {text_format.format_time(each.at_ms)}"
    soonest = status_document.find_soonest_data_loss(each.partitions)
    if soonest is not None:
        yield f"  {time_to_data_loss.describe_data_loss(soonest)}"
    yield from _render_tasks(each)
    topics = status_document.group_partitions_by_topic(each.partitions)
    rows = [_make_topic_row(name, parts, each.at_ms) for name, parts in topics.items()]
    if rows:
        yield from (f"  {line}" for line in text_format.format_columns(_TOPIC_COLUMNS, rows))
    yield from _render_halts(each)
    for line in replication_health.evaluate_flow(each, within_s=within_s).notes:
        yield f"  warning: {line}"
    for trouble in status_document.list_past_problems(each)[:SHOWN_PROBLEMS_MAX]:
        if trouble.resolved_ms is None:
            yield f"  {text_format.format_time(trouble.at_ms)}: {trouble.text}"
            continue
        text = suggested_commands.split_remedy_from_message(trouble.text)[0].rstrip(
            "."
        )  # the remedy is obsolete
        resolved = text_format.format_time(trouble.resolved_ms)
        yield f"  {text_format.format_time(trouble.at_ms)}: {text} (resolved {resolved})"


def _render_tasks(each: FlowReport) -> Iterator[str]:
    """Yield one line for each node with tasks, and one line for unassigned tasks."""
    for node in sorted({task.node for task in each.tasks}):
        mine = [task for task in each.tasks if task.node == node]
        states = Counter(task.state or "not running" for task in mine)
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        numbers = ", ".join(str(task.number) for task in mine)
        yield f"  {node or 'no node'}: tasks {numbers} ({told})"
    for task in each.tasks:
        restarts = (
            f", restarted {plurals.format_count(task.restarts, 'time')}" if task.restarts else ""
        )
        if task.reason or restarts:
            reason = f": {task.reason}" if task.reason else ""
            yield f"  task {task.number}: {task.state}{restarts}{reason}"


def _render_halts(each: FlowReport) -> Iterator[str]:
    """Yield one line about the halted partitions of each topic and cause."""
    found = status_document.group_halts(each.partitions)
    for halt in found[:SHOWN_HALTS_MAX]:
        names = ", ".join(
            f"{halt.topic}-{number}" for number in halt.partitions[:NAMED_PARTITIONS_MAX]
        )
        hidden = len(halt.partitions) - NAMED_PARTITIONS_MAX
        more = f" and {hidden} more" if hidden > 0 else ""
        since = "" if halt.since_ms is None else f" since {text_format.format_time(halt.since_ms)}"
        yield f"  halted{since}: {names}{more}: {halt.reason}"
    if len(found) > SHOWN_HALTS_MAX:
        yield f"  … and {plurals.format_count(len(found) - SHOWN_HALTS_MAX, 'more cause')}"


def _make_topic_row(name: str, parts: Sequence[PartitionReport], at_ms: int) -> tuple[str, ...]:
    of_all = status_document.sum_lag(parts, at_ms)
    return (
        name,
        str(len(parts)),
        format_lag_records(of_all),
        format_lag_age(of_all),
        time_to_data_loss.format_time_left(status_document.find_soonest_data_loss(parts)),
        _format_state_counts(parts),
    )


def _make_lag_rows(each: FlowReport, *, partitions: bool) -> Iterator[tuple[str, ...]]:
    for name, parts in status_document.group_partitions_by_topic(each.partitions).items():
        if partitions:
            for part in parts:
                yield _make_lag_row(part, each.at_ms)
        if not partitions or len(parts) > 1:
            yield _make_total_row(name, parts, at_ms=each.at_ms, mirror=parts[0].mirror)
    yield _make_total_row(
        _TOTAL_ROW,
        each.partitions,
        at_ms=each.at_ms,
        mirror=text_format.UNKNOWN_NUMBER,
    )


def _make_lag_row(part: PartitionReport, at_ms: int) -> tuple[str, ...]:
    alone = status_document.sum_lag([part], at_ms)
    return (
        part.topic,
        str(part.partition),
        part.mirror,
        _format_number(part.end),
        _format_number(part.copied_to),
        format_lag_records(alone),
        format_lag_age(alone),
        time_to_data_loss.format_time_left(part.retention_risk),
        _format_state_counts([part]),
    )


def _make_total_row(
    name: str, parts: Sequence[PartitionReport], *, at_ms: int, mirror: str
) -> tuple[str, ...]:
    of_all = status_document.sum_lag(parts, at_ms)
    return (
        name,
        _TOTAL_ROW,
        mirror,
        text_format.UNKNOWN_NUMBER,
        text_format.UNKNOWN_NUMBER,
        format_lag_records(of_all),
        format_lag_age(of_all),
        time_to_data_loss.format_time_left(status_document.find_soonest_data_loss(parts)),
        _format_state_counts(parts),
    )


def _format_state_counts(parts: Sequence[PartitionReport]) -> str:
    """Count the partitions by state and format the result, for example `copying` or `2 halted, 4
    copying`."""
    found = Counter(part.state for part in parts)
    if len(found) == 1:
        return next(iter(found)) or text_format.UNKNOWN_NUMBER
    return ", ".join(f"{count} {state or 'unknown'}" for state, count in found.most_common()[::-1])


def format_lag_records(found: ReportedLag) -> str:
    """Format a lag in records for a table column. A leading `>` marks a lower bound; `-` means
    unknown."""
    if found.records is None:
        return text_format.UNKNOWN_NUMBER
    return f"{'' if found.complete else '>'}{found.records}"


def describe_lag(found: ReportedLag) -> str:
    """Format the lag, for example `12 records, 0.3 s`; `>` marks a lower bound. Return `unknown` if
    nothing is known."""
    if found.records is None:
        return "unknown"
    count = f"{'' if found.complete else '>'}{plurals.format_count(found.records, 'record')}"
    return f"{count}, {format_lag_age(found)}"


def format_lag_age(found: ReportedLag) -> str:
    """Format the age of the lag for a table column; `>` marks a lower bound."""
    if found.ms is None:
        return text_format.UNKNOWN_NUMBER
    return f"{'' if found.age_complete else '>'}{text_format.format_duration(found.ms / 1000)}"


def _format_number(value: int | None) -> str:
    return text_format.UNKNOWN_NUMBER if value is None else str(value)
