"""How a flow stands, as the process that runs it sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from connect_runtime.base import amounts, ids
from mm2.app import held, overview
from mm2.app.reports import flow_report, history, source_looks
from mm2.connectors import flow_status
from mm2.core import commands, flows, health, reachability

_NOTHING: Mapping[ids.TopicPartition, source_looks.Seen] = {}


def report(
    flow: flows.Flow,
    status: flow_status.FlowStatus,
    past: history.History,
    *,
    looks: Mapping[ids.TopicPartition, source_looks.Seen] = _NOTHING,
    looks_recent: bool = True,
    unreachable: tuple[reachability.Unreachable, ...] = (),
    crossed: health.Crossed | None = None,
    resume: str,
    process: int,
    wall_ms: int,
) -> flow_report.FlowReport:
    """`looks` are at partitions of the source that are not copied as they come: of these alone the
    process itself knows nothing, or nothing new. Not `looks_recent`, they say nothing of where logs
    end now. While the source is among the `unreachable` clusters no end is known. `resume` is the
    command that resumes the flow."""
    source_lost = _is_lost(unreachable, reachability.Side.SOURCE)
    if source_lost:
        looks = _NOTHING
    paused = status.holds.paused and status.state is flow_status.FlowState.RUNNING
    return flow_report.FlowReport(
        flow=flow.name,
        seen_by=(f"process {process}",),
        at_ms=wall_ms,
        state=flow_report.State.PAUSED if paused else flow_report.State[status.state.value],
        reason=held.paused_reason(resume, status.reason) if paused else status.reason,
        since_ms=past.since_ms(flow.name),
        nodes=tuple(sorted({each.node for each in status.places} - {""})),
        tasks=_tasks(status, stale=_is_lost(unreachable, reachability.Side.TARGET)),
        partitions=tuple(
            _partition(
                flow,
                status,
                each,
                looked=looks.get(each.partition),
                recent=looks_recent,
                past=past,
                source_lost=source_lost,
            )
            for each in sorted(status.partitions, key=_place)
        ),
        elsewhere=status.elsewhere,
        troubles=past.troubles(flow.name),
        warnings=(*_warnings(status, resume=resume), *status.warnings),
        unreachable=unreachable,
        crossed=crossed,
    )


def _place(each: flow_status.PartitionStatus) -> ids.TopicPartition:
    return each.partition


def _is_lost(unreachable: tuple[reachability.Unreachable, ...], side: reachability.Side) -> bool:
    return any(each.side is side and not each.broker for each in unreachable)


def _tasks(status: flow_status.FlowStatus, *, stale: bool) -> tuple[flow_report.Task, ...]:
    """All of the group; of those that run here more is known. `stale`: the group's topics, on the
    target, cannot be read, and what they said last of other tasks may be over."""
    here = {each.index: each for each in status.tasks}
    known = {each.number: each for each in status.places}
    return tuple(
        flow_report.Task(number=number, state="")
        if stale and number not in here
        else _task(number, known.get(number), here.get(number))
        for number in sorted({*known, *here})
    )


def _task(
    number: int, told: flow_status.TaskPlace | None, mine: flow_status.TaskStatus | None
) -> flow_report.Task:
    node = told.node if told is not None else ""
    if mine is None or (told is not None and told.state == "FAILED"):
        assert told is not None, number
        return flow_report.Task(number=number, state=told.state, node=node, reason=told.reason)
    return flow_report.Task(
        number=number,
        state=mine.state.value,
        node=node,
        reason=mine.reason,
        restarts=mine.restarts,
    )


def _partition(
    flow: flows.Flow,
    status: flow_status.FlowStatus,
    each: flow_status.PartitionStatus,
    *,
    looked: source_looks.Seen | None,
    recent: bool,
    past: history.History,
    source_lost: bool,
) -> flow_report.Partition:
    where = each.partition
    state = overview.state_of(each, paused=status.holds.pauses(where.topic))
    moves = state == flow_report.COPYING
    # That nothing was missing when it last moved says nothing about now.
    known = each.source_end >= 0 and not source_lost and (moves or bool(each.lag_records))
    oldest_ms = each.oldest_ms if each.oldest_ms >= 0 and not source_lost else None
    found = flow_report.Partition(
        topic=where.topic,
        partition=where.partition,
        mirror=flow.remote_topic(where.topic),
        state=state,
        reason="" if state == overview.PAUSED else overview.reason_in_words(each.reason),
        cause=each.cause,
        since_ms=past.since_ms(flow.name, where),
        copied_to=each.copied_to if each.copied_to >= 0 else None,
        end=each.source_end if known else None,
        waiting_since_ms=oldest_ms,
    )
    return found if looked is None else source_looks.with_look(found, looked, recent=recent)


def _warnings(status: flow_status.FlowStatus, *, resume: str) -> list[str]:
    """What does not keep it from running, and should be known."""
    found = []
    if status.fencing:
        count = sum(not each.fenced for each in status.partitions)
        found.append(
            f"{amounts.counted(count, 'partition', 'are')} replicated at least once, since zombie "
            f"writers cannot be fenced. {commands.to_go_on(status.fencing)}"
        )
    if status.slots_missing:
        found.append(f"its tasks need {amounts.counted(status.slots_missing, 'more Spark slot')}")
    if status.empty:
        found.append(overview.NO_TOPIC)
    found.extend(held.in_words(status.holds, resume=resume))
    found.extend(overview.throttled(status.holds.budgets.flow))
    receipts = Counter[str]()
    for task in status.tasks:
        for each in task.receipts:
            receipts[each.kind] += each.count
    if receipts:
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(receipts.items()))
        found.append(f"receipts since the start: {told}; mm2 receipts lists them")
    if status.holds.paused_topics:
        found.append(f"paused topics: {', '.join(sorted(status.holds.paused_topics))}")
    return found
