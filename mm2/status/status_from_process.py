"""The status of a flow as the process that runs it knows it.

Joins three inputs: the flow's own status snapshot; `StatusHistory`, which records since when
flows and partitions are in their state and what failed last; and `SourcePartitionSnapshot`s,
read from the source for partitions that are not being copied at present: how much is left to
copy, how old it is and how long the source keeps it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from mm2 import operator_commands
from mm2.connectors.status_registry import (
    FlowState,
    FlowStatus,
    PartitionStatus,
    TaskPlacement,
    TaskState,
    TaskStatus,
)
from mm2.kafka.client_interfaces import TopicConfigs
from mm2.offsets.log_bounds import LogBounds
from mm2.reachability import ClusterSide, UnreachableCluster
from mm2.status import flow_state, status_document, topic_rows
from mm2.status.process_health import ReplicationActivity
from mm2.status.retention_risk import RetentionRisk, TopicRetention
from mm2.status.status_document import (
    FlowProblem,
    FlowReport,
    PartitionReport,
    ReportedFlowState,
    TaskReport,
)
from mm2.topics.flow_config import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePartitionSnapshot:
    """One partition of the source. `copied_to` is the next offset to copy, `waiting_since_ms` as in
    `PartitionReport`."""

    ends: LogBounds
    copied_to: int
    waiting_since_ms: int | None
    outlook: RetentionRisk


SourceSnapshots = Mapping[TopicPartition, SourcePartitionSnapshot]


def apply_source_snapshot(
    found: PartitionReport, seen: SourcePartitionSnapshot, *, recent: bool
) -> PartitionReport:
    """What was asked is as new as anything; while it moves, its copy knows more of its end. Of a
    look that is not `recent` only the outlook counts: what its source holds now is unknown."""
    if not recent:
        return dataclasses.replace(found, outlook=seen.outlook)
    copied_to = seen.copied_to if found.copied_to is None else found.copied_to
    moved_past = found.end is not None and found.end > seen.ends.end
    waiting = seen.waiting_since_ms if found.waiting_since_ms is None else found.waiting_since_ms
    caught_up = copied_to >= seen.ends.end
    return dataclasses.replace(
        found,
        copied_to=copied_to,
        start=seen.ends.start,
        end=found.end if moved_past else seen.ends.end,
        waiting_since_ms=None if caught_up and not moved_past else waiting,
        outlook=seen.outlook,
    )


def parse_topic_retention(settings: TopicConfigs | None) -> TopicRetention | None:
    """By a topic's settings; None: they do not tell, or may not be read."""
    if settings is None:
        return None
    return TopicRetention.of({name: each.value for name, each in settings.items()})


REMEMBERED_PROBLEMS_MAX = 20
"""So many are remembered of a flow."""

_PROBLEM_TASK_STATES = (TaskState.RESTARTING, TaskState.FAILED)
_StateKey = tuple[str, TopicPartition | None]
"""A flow, or a partition of it."""


CLOCK_DRIFT_MAX_MS = 1_000
"""The two clocks drift apart: a stamp stays what it was until they are so far apart, and then is
made again."""


class _StateStart(NamedTuple):
    """A state, and when it began on either clock."""

    state: str
    since_s: float
    stamp_ms: int


@dataclass(slots=True)
class _FlowProblems:
    """`told` is what is wrong now: it is noted when it begins, and not again while it lasts."""

    told: frozenset[str] = frozenset()
    troubles: deque[FlowProblem] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_PROBLEMS_MAX)
    )


@dataclass(slots=True)
class StatusHistory:
    """Invariant: nothing is remembered of what is no longer shown, but for troubles of flows."""

    _since: dict[_StateKey, _StateStart] = field(default_factory=dict)
    _flows: dict[str, _FlowProblems] = field(default_factory=dict)
    _seen: tuple[FlowStatus, ...] = ()
    _apart_ms: int | None = None

    def observe(self, statuses: Sequence[FlowStatus], *, now_s: float, wall_ms: int) -> None:
        """As of now on both clocks. An unchanged status is the same object, and costs nothing."""
        self._stamp_again(wall_ms - round(now_s * 1000))
        if [*map(id, statuses)] == [*map(id, self._seen)]:
            return
        self._seen = tuple(statuses)
        since: dict[_StateKey, _StateStart] = {}
        for status in statuses:
            for of, state in _list_states(status):
                known = self._since.get(of)
                same = known is not None and known.state == state
                since[of] = (
                    known if known is not None and same else _StateStart(state, now_s, wall_ms)
                )
            self._note(status, wall_ms)
        self._since = since  # whole: others may look

    def _stamp_again(self, apart_ms: int) -> None:
        """`apart_ms`: what the wall clock shows more than the monotonic one."""
        if self._apart_ms is not None and abs(apart_ms - self._apart_ms) < CLOCK_DRIFT_MAX_MS:
            return
        self._apart_ms = apart_ms
        self._since = {
            of: found._replace(stamp_ms=round(found.since_s * 1000) + apart_ms)
            for of, found in self._since.items()
        }

    def since_ms(self, flow: str, partition: TopicPartition | None = None) -> int | None:
        """None: it is not shown. However the wall clock was set since, it is as long ago as has
        passed by the monotonic one."""
        found = self._since.get((flow, partition))
        if found is None:
            return None
        return found.stamp_ms

    def troubles(self, flow: str) -> tuple[FlowProblem, ...]:
        """Newest first."""
        found = self._flows.get(flow)
        return () if found is None else tuple(reversed(found.troubles))

    def _note(self, status: FlowStatus, wall_ms: int) -> None:
        kept = self._flows.setdefault(status.flow, _FlowProblems())
        wrong = dict.fromkeys(_list_current_problems(status))
        for at, each in enumerate(kept.troubles):
            if each.resolved_ms is None and each.text not in wrong:
                kept.troubles[at] = dataclasses.replace(each, resolved_ms=wall_ms)
        for text in wrong:
            if text not in kept.told:
                kept.troubles.append(FlowProblem(text=text, at_ms=wall_ms))
        kept.told = frozenset(wrong)

    def check_invariants(self) -> None:
        shown = {(each.flow, None) for each in self._seen}
        shown_flows = {flow for flow, _ in shown}
        assert {flow for flow, _ in self._since} == shown_flows
        assert all(len(each.troubles) <= REMEMBERED_PROBLEMS_MAX for each in self._flows.values())


def _list_states(status: FlowStatus) -> Iterator[tuple[_StateKey, str]]:
    paused = " paused" if status.holds.paused else ""
    yield (status.flow, None), status.state.value + paused
    for each in status.partitions:
        paused_topic = status.holds.pauses(each.partition.topic)
        yield (
            (status.flow, each.partition),
            topic_rows.find_partition_state(each, paused=paused_topic),
        )


def _list_current_problems(status: FlowStatus) -> Iterator[str]:
    if status.state is FlowState.FAILED and status.reason:
        yield status.reason
    for task in status.tasks:
        if task.state in _PROBLEM_TASK_STATES and task.reason:
            yield f"task {task.index}: {task.reason}"
    stopped = tuple(each for each in status.partitions if each.stopped)
    for each in topic_rows.list_halted_partitions(
        [dataclasses.replace(status, partitions=stopped)]
    ):
        told = each.told.removeprefix(f"{status.flow}: ")
        yield status_document.replace_partition_by_topic(each.partition, told)


_NO_SNAPSHOTS: Mapping[TopicPartition, SourcePartitionSnapshot] = {}


def make_report(
    flow: Flow,
    status: FlowStatus,
    past: StatusHistory,
    *,
    looks: Mapping[TopicPartition, SourcePartitionSnapshot] = _NO_SNAPSHOTS,
    looks_recent: bool = True,
    unreachable: tuple[UnreachableCluster, ...] = (),
    crossed: ReplicationActivity | None = None,
    resume: str,
    process: int,
    wall_ms: int,
) -> FlowReport:
    """`looks` are at partitions of the source that are not copied as they come: of these alone the
    process itself knows nothing, or nothing new. Not `looks_recent`, they say nothing of where logs
    end now. While the source is among the `unreachable` clusters no end is known. `resume` is the
    command that resumes the flow."""
    source_lost = _is_unreachable(unreachable, ClusterSide.SOURCE)
    if source_lost:
        looks = _NO_SNAPSHOTS
    paused = status.holds.paused and status.state is FlowState.RUNNING
    return FlowReport(
        flow=flow.name,
        seen_by=(f"process {process}",),
        at_ms=wall_ms,
        state=ReportedFlowState.PAUSED if paused else ReportedFlowState[status.state.value],
        reason=flow_state.describe_pause(resume, status.reason) if paused else status.reason,
        since_ms=past.since_ms(flow.name),
        nodes=tuple(sorted({each.node for each in status.places} - {""})),
        tasks=_report_tasks(status, stale=_is_unreachable(unreachable, ClusterSide.TARGET)),
        partitions=tuple(
            _report_partition(
                flow,
                status,
                each,
                looked=looks.get(each.partition),
                recent=looks_recent,
                past=past,
                source_lost=source_lost,
            )
            for each in sorted(status.partitions, key=_get_partition)
        ),
        elsewhere=status.elsewhere,
        troubles=past.troubles(flow.name),
        warnings=(*_list_warnings(status, resume=resume), *status.warnings),
        unreachable=unreachable,
        crossed=crossed,
    )


def _get_partition(each: PartitionStatus) -> TopicPartition:
    return each.partition


def _is_unreachable(unreachable: tuple[UnreachableCluster, ...], side: ClusterSide) -> bool:
    return any(each.side is side and not each.broker for each in unreachable)


def _report_tasks(status: FlowStatus, *, stale: bool) -> tuple[TaskReport, ...]:
    """All of the group; of those that run here more is known. `stale`: the group's topics, on the
    target, cannot be read, and what they said last of other tasks may be over."""
    here = {each.index: each for each in status.tasks}
    known = {each.number: each for each in status.places}
    return tuple(
        TaskReport(number=number, state="")
        if stale and number not in here
        else _report_task(number, known.get(number), here.get(number))
        for number in sorted({*known, *here})
    )


def _report_task(number: int, told: TaskPlacement | None, mine: TaskStatus | None) -> TaskReport:
    node = told.node if told is not None else ""
    if mine is None or (told is not None and told.state == "FAILED"):
        assert told is not None, number
        return TaskReport(number=number, state=told.state, node=node, reason=told.reason)
    return TaskReport(
        number=number,
        state=mine.state.value,
        node=node,
        reason=mine.reason,
        restarts=mine.restarts,
    )


def _report_partition(
    flow: Flow,
    status: FlowStatus,
    each: PartitionStatus,
    *,
    looked: SourcePartitionSnapshot | None,
    recent: bool,
    past: StatusHistory,
    source_lost: bool,
) -> PartitionReport:
    where = each.partition
    state = topic_rows.find_partition_state(each, paused=status.holds.pauses(where.topic))
    moves = state == status_document.COPYING_STATE
    # That nothing was missing when it last moved says nothing about now.
    known = each.source_end >= 0 and not source_lost and (moves or bool(each.lag_records))
    oldest_ms = each.oldest_ms if each.oldest_ms >= 0 and not source_lost else None
    found = PartitionReport(
        topic=where.topic,
        partition=where.partition,
        mirror=flow.remote_topic(where.topic),
        state=state,
        reason="" if state == topic_rows.PAUSED_STATE else topic_rows.describe_reason(each.reason),
        cause=each.cause,
        since_ms=past.since_ms(flow.name, where),
        copied_to=each.copied_to if each.copied_to >= 0 else None,
        end=each.source_end if known else None,
        waiting_since_ms=oldest_ms,
    )
    return found if looked is None else apply_source_snapshot(found, looked, recent=recent)


def _list_warnings(status: FlowStatus, *, resume: str) -> list[str]:
    """What does not keep it from running, and should be known."""
    found = []
    if status.fencing:
        count = sum(not each.fenced for each in status.partitions)
        found.append(
            f"{plurals.format_count(count, 'partition', 'are')} replicated at least once, "
            "since zombie "
            f"writers cannot be fenced. {operator_commands.format_remedy(status.fencing)}"
        )
    if status.slots_missing:
        found.append(
            f"its tasks need {plurals.format_count(status.slots_missing, 'more Spark slot')}"
        )
    if status.empty:
        found.append(topic_rows.NO_MATCHING_TOPIC)
    found.extend(flow_state.describe_overrides(status.holds, resume=resume))
    found.extend(topic_rows.describe_throttle(status.holds.budgets.flow))
    incidents = Counter[str]()
    for task in status.tasks:
        for each in task.incidents:
            incidents[each.kind] += each.count
    if incidents:
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(incidents.items()))
        found.append(f"incidents since the start: {told}; mm2 incidents lists them")
    if status.holds.paused_topics:
        found.append(f"paused topics: {', '.join(sorted(status.holds.paused_topics))}")
    return found
