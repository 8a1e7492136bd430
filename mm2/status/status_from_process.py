"""Determines the status of a flow in the process that runs it.

Combines three inputs: the flow's own status snapshot; `StatusHistory`, which records when flows and
partitions entered their state and their last failures; and `SourcePartitionSnapshot`s, read from
the source for partitions that are currently not being replicated. The source snapshots contain the
number of unreplicated records, their age and how long the source retains them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.connectors.status_registry import (
    FlowState,
    FlowStatus,
    PartitionStatus,
    TaskPlacement,
    TaskState,
    TaskStatus,
)
from mm2.kafka.kafka_client_interfaces import TopicConfigs
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.status import flow_status, status_document, topic_rows
from mm2.status.process_health import ReplicationActivity
from mm2.status.status_document import (
    FlowProblem,
    FlowReport,
    PartitionReport,
    ReportedFlowState,
    TaskReport,
)
from mm2.status.time_to_data_loss import RetentionRisk, TopicRetention
from mm2.topics.flow_config import Flow
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePartitionSnapshot:
    """Snapshot of one source partition, read from the cluster."""

    bounds: LogBounds
    copied_to: int
    """Next offset to replicate."""
    waiting_since_ms: int | None
    """Timestamp in milliseconds of the oldest unreplicated record; None if unknown."""
    retention_risk: RetentionRisk


SourceSnapshots = Mapping[TopicPartition, SourcePartitionSnapshot]


def apply_source_snapshot(
    found: PartitionReport, seen: SourcePartitionSnapshot, *, recent: bool
) -> PartitionReport:
    """Merge a source snapshot into a partition report.

    While the partition is being replicated, its copy process may have reported a higher end offset,
    which is then kept. If the snapshot is not `recent`, only its retention risk is used.
    """
    if not recent:
        return dataclasses.replace(found, retention_risk=seen.retention_risk)
    copied_to = seen.copied_to if found.copied_to is None else found.copied_to
    moved_past = found.end is not None and found.end > seen.bounds.end
    waiting = seen.waiting_since_ms if found.waiting_since_ms is None else found.waiting_since_ms
    caught_up = copied_to >= seen.bounds.end
    return dataclasses.replace(
        found,
        copied_to=copied_to,
        start=seen.bounds.start,
        end=found.end if moved_past else seen.bounds.end,
        waiting_since_ms=None if caught_up and not moved_past else waiting,
        retention_risk=seen.retention_risk,
    )


def parse_topic_retention(settings: TopicConfigs | None) -> TopicRetention | None:
    """Parse a topic's retention settings; None if they are incomplete or not readable."""
    if settings is None:
        return None
    return TopicRetention.parse({name: each.value for name, each in settings.items()})


REMEMBERED_PROBLEMS_MAX = 20
"""Maximum number of problems that are remembered per flow."""

_PROBLEM_TASK_STATES = (TaskState.RESTARTING, TaskState.FAILED)
_StateKey = tuple[str, TopicPartition | None]
"""Identifies a flow, or one of its partitions, whose state is tracked."""


CLOCK_DRIFT_MAX_MS = 1_000
"""Maximum drift between wall clock and monotonic clock. If the drift exceeds this, timestamps are
corrected."""


class _StateStart(NamedTuple):
    """A state, and the time when it began: on the monotonic clock in seconds (`since_s`), and on
    the wall clock in milliseconds (`stamp_ms`)."""

    state: str
    since_s: float
    stamp_ms: int


@dataclass(slots=True)
class _FlowProblems:
    """Problems of a flow. `told` contains the descriptions of the problems that currently persist,
    so that a persisting problem is recorded only once."""

    told: frozenset[str] = frozenset()
    problems: deque[FlowProblem] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_PROBLEMS_MAX)
    )


@dataclass(slots=True)
class StatusHistory:
    """Remembers the time at which each flow and partition entered its state, and the flows' last
    problems.

    Invariant: for flows and partitions that are no longer reported, only problems are remembered.
    """

    _since: dict[_StateKey, _StateStart] = field(default_factory=dict)
    _flows: dict[str, _FlowProblems] = field(default_factory=dict)
    _seen: tuple[FlowStatus, ...] = ()
    _wall_minus_monotonic_ms: int | None = None

    def observe(self, statuses: Sequence[FlowStatus], *, now_s: float, wall_ms: int) -> None:
        """Record state changes and new problems from a snapshot of all flows. If every flow status
        is the same object as in the last snapshot, nothing has changed and the snapshot is
        skipped."""
        self._correct_timestamps(wall_ms - round(now_s * 1000))
        if [*map(id, statuses)] == [*map(id, self._seen)]:
            return
        self._seen = tuple(statuses)
        since: dict[_StateKey, _StateStart] = {}
        for status in statuses:
            for of, state in _list_tracked_states(status):
                known = self._since.get(of)
                same = known is not None and known.state == state
                since[of] = (
                    known if known is not None and same else _StateStart(state, now_s, wall_ms)
                )
            self._record_problems(status, wall_ms)
        self._since = since  # replaced as a whole: other threads read it

    def _correct_timestamps(self, wall_minus_monotonic_ms: int) -> None:
        """Correct the stored timestamps if the wall clock was adjusted. `wall_minus_monotonic_ms`
        is the current wall-clock time minus the monotonic time."""
        if (
            self._wall_minus_monotonic_ms is not None
            and abs(wall_minus_monotonic_ms - self._wall_minus_monotonic_ms) < CLOCK_DRIFT_MAX_MS
        ):
            return
        self._wall_minus_monotonic_ms = wall_minus_monotonic_ms
        self._since = {
            of: found._replace(stamp_ms=round(found.since_s * 1000) + wall_minus_monotonic_ms)
            for of, found in self._since.items()
        }

    def get_state_since_ms(self, flow: str, partition: TopicPartition | None = None) -> int | None:
        """Return the wall-clock time when the current state began; None if the flow or partition is
        not reported. The time is computed from the monotonic clock, so that it is correct even if
        the wall clock was adjusted since then."""
        found = self._since.get((flow, partition))
        if found is None:
            return None
        return found.stamp_ms

    def list_problems(self, flow: str) -> tuple[FlowProblem, ...]:
        """Return a flow's problems, newest first."""
        found = self._flows.get(flow)
        return () if found is None else tuple(reversed(found.problems))

    def _record_problems(self, status: FlowStatus, wall_ms: int) -> None:
        kept = self._flows.setdefault(status.flow, _FlowProblems())
        wrong = dict.fromkeys(_list_current_problems(status))
        for at, each in enumerate(kept.problems):
            if each.resolved_ms is None and each.text not in wrong:
                kept.problems[at] = dataclasses.replace(each, resolved_ms=wall_ms)
        for text in wrong:
            if text not in kept.told:
                kept.problems.append(FlowProblem(text=text, at_ms=wall_ms))
        kept.told = frozenset(wrong)

    def check_invariants(self) -> None:
        shown = {(each.flow, None) for each in self._seen}
        shown_flows = {flow for flow, _ in shown}
        assert {flow for flow, _ in self._since} == shown_flows
        assert all(len(each.problems) <= REMEMBERED_PROBLEMS_MAX for each in self._flows.values())


def _list_tracked_states(status: FlowStatus) -> Iterator[tuple[_StateKey, str]]:
    paused = " paused" if status.overrides.paused else ""
    yield (status.flow, None), status.state.value + paused
    for each in status.partitions:
        paused_topic = status.overrides.is_topic_paused(each.partition.topic)
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
    stopped = tuple(each for each in status.partitions if each.is_halted)
    for each in topic_rows.list_halted_partitions(
        [dataclasses.replace(status, partitions=stopped)]
    ):
        told = each.describe.removeprefix(f"{status.flow}: ")
        yield status_document.replace_partition_with_topic_name(each.partition, told)


_NO_SNAPSHOTS: Mapping[TopicPartition, SourcePartitionSnapshot] = {}


def make_report(
    flow: Flow,
    status: FlowStatus,
    history: StatusHistory,
    *,
    snapshots: Mapping[TopicPartition, SourcePartitionSnapshot] = _NO_SNAPSHOTS,
    snapshots_recent: bool = True,
    unreachable: tuple[UnreachableCluster, ...] = (),
    activity: ReplicationActivity | None = None,
    resume: str,
    process: int,
    wall_ms: int,
) -> FlowReport:
    """Build the report of one flow from the state of this process.

    `snapshots` are snapshots of source partitions that are not being replicated. If
    `snapshots_recent` is false, the snapshots are too old to show the current end offsets.
    `unreachable` lists the clusters and brokers that do not respond; if the source is one of these
    clusters, end offsets are reported as unknown. `resume` is the command that resumes the flow.
    """
    source_lost = _is_cluster_unreachable(unreachable, ClusterSide.SOURCE)
    if source_lost:
        snapshots = _NO_SNAPSHOTS
    paused = status.overrides.paused and status.state is FlowState.RUNNING
    return FlowReport(
        flow=flow.name,
        seen_by=(f"process {process}",),
        at_ms=wall_ms,
        state=ReportedFlowState.PAUSED if paused else ReportedFlowState[status.state.value],
        reason=flow_status.describe_paused_flow(resume, status.reason) if paused else status.reason,
        since_ms=history.get_state_since_ms(flow.name),
        nodes=tuple(sorted({each.node for each in status.placements} - {""})),
        tasks=_make_task_reports(
            status, stale=_is_cluster_unreachable(unreachable, ClusterSide.TARGET)
        ),
        partitions=tuple(
            _make_partition_report(
                flow,
                status,
                each,
                looked=snapshots.get(each.partition),
                recent=snapshots_recent,
                past=history,
                source_lost=source_lost,
            )
            for each in sorted(status.partitions, key=_get_report_partition)
        ),
        partitions_on_other_nodes=status.remote_partitions,
        problems=history.list_problems(flow.name),
        warnings=(*_list_warnings(status, resume=resume), *status.warnings),
        unreachable=unreachable,
        activity=activity,
        connector_failures=status.connector_failures,
    )


def _get_report_partition(each: PartitionStatus) -> TopicPartition:
    return each.partition


def _is_cluster_unreachable(unreachable: tuple[UnreachableCluster, ...], side: ClusterSide) -> bool:
    return any(each.side is side and not each.broker for each in unreachable)


def _make_task_reports(status: FlowStatus, *, stale: bool) -> tuple[TaskReport, ...]:
    """Report all tasks in the flow's Connect group, with more detail for the tasks of this node.

    If `stale` is true, the group's internal topics cannot be read. The tasks of other nodes are
    then reported without a state.
    """
    here = {each.index: each for each in status.tasks}
    known = {each.number: each for each in status.placements}
    return tuple(
        TaskReport(number=number, state="")
        if stale and number not in here
        else _make_task_report(number, known.get(number), here.get(number))
        for number in sorted({*known, *here})
    )


def _make_task_report(
    number: int, told: TaskPlacement | None, mine: TaskStatus | None
) -> TaskReport:
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


def _make_partition_report(
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
    state = topic_rows.find_partition_state(
        each, paused=status.overrides.is_topic_paused(where.topic)
    )
    moves = state == status_document.COPYING_STATE
    # A lag of 0 when it was last replicated says nothing about now.
    known = each.source_end >= 0 and not source_lost and (moves or bool(each.lag_records))
    oldest_ms = (
        each.oldest_uncopied_ms if each.oldest_uncopied_ms >= 0 and not source_lost else None
    )
    found = PartitionReport(
        topic=where.topic,
        partition=where.partition,
        mirror=flow.format_remote_topic(where.topic),
        state=state,
        reason=""
        if state == topic_rows.PAUSED_STATE
        else topic_rows.describe_state_reason(each.reason),
        cause=each.cause,
        since_ms=past.get_state_since_ms(flow.name, where),
        copied_to=each.copied_to if each.copied_to >= 0 else None,
        end=each.source_end if known else None,
        waiting_since_ms=oldest_ms,
    )
    return found if looked is None else apply_source_snapshot(found, looked, recent=recent)


def _list_warnings(status: FlowStatus, *, resume: str) -> list[str]:
    """List what an operator should know about a running flow, for example partitions that are not
    fenced, missing Spark slots, operator overrides and incidents."""
    found = []
    if status.fencing_command:
        count = sum(not each.fenced for each in status.partitions)
        found.append(
            f"{plurals.format_count(count, 'partition', 'are')} replicated at least "
            "once, not "
            "exactly once, because zombie writers cannot be fenced. "
            f"{suggested_commands.format_remedy(status.fencing_command)}"
        )
    if status.slots_missing:
        found.append(
            f"its tasks need {plurals.format_count(status.slots_missing, 'more Spark slot')}"
        )
    if status.is_empty:
        found.append(topic_rows.NO_MATCHING_TOPIC)
    found.extend(flow_status.describe_overrides(status.overrides, resume=resume))
    found.extend(topic_rows.describe_throttle(status.overrides.budgets.flow))
    incidents = Counter[str]()
    for task in status.tasks:
        for each in task.incidents:
            incidents[each.kind] += each.count
    if incidents:
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(incidents.items()))
        found.append(f"incidents since the start: {told}; mm2 incidents lists them")
    if status.overrides.paused_topics:
        found.append(f"paused topics: {', '.join(sorted(status.overrides.paused_topics))}")
    return found
