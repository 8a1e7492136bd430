"""Sets the declared metrics from status snapshots: counters, histograms and gauges of all flows.

Snapshots are frequent and most partitions are idle, so a partition whose status is the same object
as in the previous snapshot is skipped.

Tasks count from their start, on whichever node they run. A counter of this process increases by the
amount that a task of this node has counted since the previous snapshot. If a task is gone, or
counts from zero again (`TaskStatus.counter_generation`), its state is dropped so that the next task
starts at zero.

The counters do not include what a task counts between the last snapshot and its end. If a task
loses a partition and is assigned it again between two snapshots, the counters also miss up to the
amount that the task had counted before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.metrics import HistogramValue, MetricFamily, MetricRegistry, Series
from mm2 import version
from mm2.config.pause_and_throttle_overrides import OverrideKind
from mm2.connectors import status_registry
from mm2.connectors.status_registry import (
    CheckpointGroupsSnapshot,
    FlowState,
    FlowStatus,
    PartitionStatus,
    TaskState,
    TaskStatus,
)
from mm2.metrics import metric_declarations
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.replication_latency import LatencySnapshot
from mm2.status import replication_health, status_document, topic_rows
from mm2.status.replication_health import FlowHealth
from mm2.status.status_document import FlowReport, ReportedLag
from mm2.status.topic_rows import FlowsOverview, TopicRow
from mm2.topics import replication_policy
from mm2.unreachable_cluster import ClusterSide

COUNTER_RETENTION_MS = 600_000
"""How long counters of a removed flow or topic are still exported, so that Prometheus scrapes their
final values."""

_LatencyByTask = Mapping[str, Mapping[int, LatencySnapshot]]
_TOPIC_COUNTERS = (
    metric_declarations.REPLICATED_RECORDS,
    metric_declarations.REPLICATED_BYTES,
    metric_declarations.REPLICATED_BATCHES,
    metric_declarations.DUPLICATES_REFUSED,
    metric_declarations.INCIDENTS,
)
_FLOW_COUNTERS = (
    *_TOPIC_COUNTERS,
    metric_declarations.TASK_RESTARTS,
    metric_declarations.REBALANCES,
    metric_declarations.REPLICATION_LATENCY,
)


@dataclass(slots=True)
class _TaskCounts:
    """The counts of a task on this node, as of the last snapshot. Tasks count from zero after each
    start."""

    life: int
    restarts: int = 0
    incidents: dict[tuple[str, str], int] = field(default_factory=dict)
    copied: dict[TopicPartition, PartitionStatus] = field(default_factory=dict)


@dataclass(slots=True)
class FlowCounters:
    """Increases this process's counter metrics by comparing successive status snapshots. Used by
    one thread.

    Invariant: a counter has increased by the sum of all increases of the values that a task
    reported since it last started counting at zero. A value that decreased has restarted from 0.
    """

    registry: MetricRegistry
    _tasks: dict[tuple[str, int], _TaskCounts] = field(default_factory=dict)
    _latencies: dict[tuple[str, int], LatencySnapshot] = field(default_factory=dict)
    _rebalances: dict[str, int] = field(default_factory=dict)
    _topics: dict[str, set[str]] = field(default_factory=dict)
    """Topics of each flow that had partitions or incidents in the last snapshot."""
    _missing_since_ms: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Time at which a flow `(flow,)` or a topic `(flow, topic)` was first missing, in ms of Unix
    time."""

    def count_status_increases(
        self, status: FlowStatus, before: FlowStatus | None, wall_ms: int
    ) -> None:
        """Add what the flow's tasks have counted since the status `before` to the flow's counters.
        `before` is the previous status of the same flow."""
        flow = status.flow
        self.registry.increase_counter(metric_declarations.TASK_RESTARTS, 0, labels=(flow,))
        lives = {
            (flow, each.index): each.counter_generation
            for each in status.tasks
            if _is_task_countable(each)
        }
        for key in [key for key in self._tasks if key[0] == flow]:
            if lives.get(key) != self._tasks[key].life:
                del self._tasks[key]
        for task in status.tasks:
            if (flow, task.index) in lives:
                known = self._tasks.setdefault(
                    (flow, task.index), _TaskCounts(life=task.counter_generation)
                )
                self._count_restarts(flow, task, known)
                self._count_incidents(flow, task, known)
        moved = _find_changed_partitions(status, before)
        if moved is status.partitions:
            self._drop_lost_partitions(flow, moved)
        for each in moved:
            self._count_replicated_records(flow, each, self._tasks.get((flow, each.task)))
        self._update_missing_topics(status, wall_ms)

    def count_latencies(self, pulses: _LatencyByTask) -> None:
        """Add the latency samples that all running tasks have collected since the previous call."""
        there = {(flow, number) for flow, found in pulses.items() for number in found}
        self._latencies = {key: each for key, each in self._latencies.items() if key in there}
        for flow, number in there:
            before, now = self._latencies.get((flow, number)), pulses[flow][number]
            if before is not now:
                self._latencies[flow, number] = now
                rise = now if before is None else now.subtract(before)
                found = HistogramValue(rise.counts, rise.sum_ms / 1000)
                self.registry.add_observations(
                    metric_declarations.REPLICATION_LATENCY, found, labels=(flow,)
                )

    def count_rebalances(self, totals: Mapping[str, int]) -> None:
        """Add new rebalances to the counters. `totals` contains the number of rebalances of each
        flow on this node so far."""
        for flow, count in totals.items():
            rise = _compute_increase(self._rebalances.get(flow, 0), count)
            self.registry.increase_counter(metric_declarations.REBALANCES, rise, labels=(flow,))
        self._rebalances = dict(totals)

    def drop_expired_counters(self, flows: Collection[str], wall_ms: int) -> None:
        """Drop the counters of flows and topics that have been absent for `COUNTER_RETENTION_MS`.

        `flows` are the flows that still exist.
        """
        for flow in self._topics.keys() - flows:
            self._missing_since_ms.setdefault((flow,), wall_ms)
            for task in [task for task in self._tasks if task[0] == flow]:
                del self._tasks[task]
        due = [
            key
            for key, since_ms in self._missing_since_ms.items()
            if wall_ms - since_ms >= COUNTER_RETENTION_MS
        ]
        for key in due:
            del self._missing_since_ms[key]
            for metric in _FLOW_COUNTERS if len(key) == 1 else _TOPIC_COUNTERS:
                self.registry.remove_series(metric, key)
            if len(key) == 1:
                del self._topics[key[0]]

    def _drop_lost_partitions(self, flow: str, shown: Sequence[PartitionStatus]) -> None:
        """Forget the counts of each partition that a task no longer has. If the partition is
        assigned to the task again, the task counts from 0."""
        there = {(each.task, each.partition) for each in shown}
        for (name, number), task in self._tasks.items():
            if name == flow:
                task.copied = {
                    place: each for place, each in task.copied.items() if (number, place) in there
                }

    def _update_missing_topics(self, status: FlowStatus, wall_ms: int) -> None:
        topics = {each.partition.topic for each in status.partitions}
        topics.update(each.topic for task in status.tasks for each in task.incidents)
        for topic in self._topics.get(status.flow, set()) - topics:
            self._missing_since_ms[status.flow, topic] = wall_ms
        self._topics[status.flow] = topics
        if self._missing_since_ms:
            for key in ((status.flow,), *((status.flow, topic) for topic in topics)):
                self._missing_since_ms.pop(key, None)

    def _count_restarts(self, flow: str, task: TaskStatus, known: _TaskCounts) -> None:
        rise = _compute_increase(known.restarts, task.restarts)
        self.registry.increase_counter(metric_declarations.TASK_RESTARTS, rise, labels=(flow,))
        known.restarts = task.restarts

    def _count_incidents(self, flow: str, task: TaskStatus, known: _TaskCounts) -> None:
        for each in task.incidents:
            rise = _compute_increase(known.incidents.get((each.topic, each.kind), 0), each.count)
            self.registry.increase_counter(
                metric_declarations.INCIDENTS, rise, labels=(flow, each.topic, each.kind)
            )
        known.incidents = {(each.topic, each.kind): each.count for each in task.incidents}

    def _count_replicated_records(
        self, flow: str, now: PartitionStatus, known: _TaskCounts | None
    ) -> None:
        """Add a partition's newly replicated records, bytes and batches to the topic's counters.

        `known` contains the counts of the partition's task as of the last snapshot. If it is None,
        the task cannot be counted, and nothing is added.
        """
        before = now
        if known is not None:
            before = known.copied.get(now.partition, _NOTHING_COPIED)
            if before is now:
                return
            known.copied[now.partition] = now
        labels = (flow, now.partition.topic)
        passed, reencoded = ((*labels, path) for path in ("pass-through", "re-encoded"))
        add = self.registry.increase_counter
        add(
            metric_declarations.REPLICATED_RECORDS,
            _compute_increase(before.records, now.records),
            labels=labels,
        )
        add(
            metric_declarations.REPLICATED_BYTES,
            _compute_increase(before.bytes, now.bytes),
            labels=labels,
        )
        add(
            metric_declarations.DUPLICATES_REFUSED,
            _compute_increase(before.already_stored_records, now.already_stored_records),
            labels=labels,
        )
        add(
            metric_declarations.REPLICATED_BATCHES,
            _compute_increase(before.reencoded_batches, now.reencoded_batches),
            labels=reencoded,
        )
        rise = _compute_increase(
            before.batches - before.reencoded_batches, now.batches - now.reencoded_batches
        )
        add(metric_declarations.REPLICATED_BATCHES, rise, labels=passed)


_NOTHING_COPIED = PartitionStatus(
    partition=TopicPartition("", 0),
    task=-1,
    phase="",
    reason="",
    cause="",
    records=0,
    bytes=0,
    copied_to=-1,
    source_end=-1,
    age_ms=0,
    oldest_uncopied_ms=-1,
    transactional=False,
)


def _is_task_countable(task: TaskStatus) -> bool:
    """Return True if a task's values can be counted: the task has not failed, and it has reported
    values since its last start. (After a restart, `counter_generation` is 0 until the task has
    reported new values.)"""
    return task.counter_generation > 0 and task.state is not TaskState.FAILED


def _compute_increase(before: int, now: int) -> int:
    """Compute the difference between two readings of a counter. A lower value means that the
    counter restarted from 0."""
    return now - before if now >= before else now


def _find_changed_partitions(
    status: FlowStatus, before: FlowStatus | None
) -> Sequence[PartitionStatus]:
    """Return the partitions whose status changed since `before`.

    If the set of partitions, their tasks or the counter generations changed, returns
    `status.partitions` itself.
    """
    was = () if before is None else before.partitions
    if (
        before is None
        or len(was) != len(status.partitions)
        or _list_task_generations(status) != _list_task_generations(before)
    ):
        return status.partitions
    both = zip(status.partitions, was, strict=True)
    moved = [(now, then) for now, then in both if now is not then]
    if any(_get_partition_and_task(now) != _get_partition_and_task(then) for now, then in moved):
        return status.partitions
    return [now for now, _ in moved]


def _list_task_generations(status: FlowStatus) -> list[tuple[int, int]]:
    return [(each.index, each.counter_generation) for each in status.tasks]


def _get_partition_and_task(each: PartitionStatus) -> tuple[TopicPartition, int]:
    return each.partition, each.task


SeriesValues = dict[tuple[str, ...], float]
PARTITION_STATES = (*(each.value for each in PartitionPhase), topic_rows.PAUSED_STATE)
"""Values of the label `phase`: the partition's phase, or paused by an operator."""


def create_metrics_registry() -> MetricRegistry:
    """Create a registry that contains every metric of `metric_declarations.ALL_METRICS`."""
    registry = MetricRegistry()
    for metric in metric_declarations.ALL_METRICS:
        registry.declare_metric(metric)
    return registry


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInputs:
    """Inputs from which metrics are computed in addition to the flow statuses."""

    latencies: Mapping[str, Mapping[int, LatencySnapshot]] = field(default_factory=dict)
    """Latency snapshots by flow and task, as in `RegistrySnapshot`."""
    checkpoint_groups: Mapping[str, Mapping[int, CheckpointGroupsSnapshot]] = field(
        default_factory=dict
    )
    """Checkpoint progress by flow and task, as in `RegistrySnapshot`."""
    rebalances: Mapping[str, int] = field(default_factory=dict)
    """Total number of group rebalances, by flow."""
    overrides: Mapping[str, Mapping[str, OverrideKind]] = field(default_factory=dict)
    """Operator overrides by flow and connector, excluding the source connector."""
    spark_slots: tuple[int, int] | None = None
    """Spark's used and free task slots; None while unknown."""
    last_drills_s: Mapping[str, float] | None = None
    """Unix time in seconds of each flow's last successful drill; None if no drills are recorded."""
    reports: Sequence[FlowReport] = ()
    """The flows' current status reports."""


@dataclass(slots=True)
class _FlowMetricValues:
    """Values of a flow's last status that are needed to compute metrics."""

    status: FlowStatus
    phases: SeriesValues
    heartbeats: PartitionStatus | None
    """Status of the heartbeats topic's partition; None if this node does not replicate it."""
    unrecorded: Mapping[str, float]
    """Age of the offset map, by topic, as a point in time: the monotonic time since which some
    replicated records are not covered by the map. The earliest time of the topic's partitions
    counts; `math.inf` if the map covers all records."""


@dataclass(slots=True)
class FlowMetricsCollector:
    """Converts snapshots to metrics. Used by one thread.

    Ages that alerts depend on are measured with the monotonic clock, so that wall-clock changes do
    not affect them.
    """

    registry: MetricRegistry = field(default_factory=create_metrics_registry)
    times_to_data_loss: Callable[[], Series] = dict
    """Function that returns the time to data loss in seconds, by flow and topic."""
    inputs: Callable[[], MetricInputs] = MetricInputs
    wall_ms: Callable[[], int] = lambda: 0
    now_s: Callable[[], float] = lambda: 0.0
    replication_objective_s: float = 60.0
    """A flow that has replicated within this number of seconds is healthy
    (`replication_health.evaluate_flow`)."""
    statuses: tuple[FlowStatus, ...] = ()
    """Flow statuses of the last snapshot; safe to read from any thread."""
    _counters: FlowCounters = field(init=False)
    _readings: dict[str, _FlowMetricValues] = field(default_factory=dict)
    _groups_s: dict[str, float] = field(default_factory=dict)
    """Time of each flow's last complete round of checkpoints, as of the last snapshot, on the
    monotonic clock."""
    _heartbeats: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Timestamp of the newest heartbeat, by flow, with the time at which this node first saw it."""

    def __post_init__(self) -> None:
        self._counters = FlowCounters(self.registry)

    def update_metrics(
        self,
        statuses: Sequence[FlowStatus],
        overview: FlowsOverview,
        *,
        engine_ready: bool,
    ) -> None:
        """Update all metrics from `statuses` and publish them. `overview` must be the overview of
        the same statuses."""
        now_s, wall_ms, beside = self.now_s(), self.wall_ms(), self.inputs()
        replace = self.registry.set_gauge_series
        self._count_statuses(statuses, wall_ms)
        replace(metric_declarations.BUILD_INFO, {(version.VERSION,): 1})
        replace(metric_declarations.ENGINE_READY, {(): int(engine_ready)})
        replace(metric_declarations.FLOW_STATE, _make_flow_state_series(overview))
        replace(metric_declarations.FLOW_TASKS, _make_task_series(overview))
        missing: SeriesValues = {(row.flow,): row.slots_missing for row in overview.flows}
        replace(metric_declarations.SPARK_MISSING_SLOTS, missing)
        replace(metric_declarations.HALTED_PARTITIONS, _make_halted_series(overview))
        self._set_topic_metrics(overview.topics, beside.reports)
        replace(metric_declarations.TIME_TO_DATA_LOSS, self.times_to_data_loss())
        self._set_age_metrics(now_s, wall_ms)
        self._set_metrics_from_inputs(beside, now_s)
        self.registry.publish_metric_families()

    # Metrics from flow statuses

    def _count_statuses(self, statuses: Sequence[FlowStatus], wall_ms: int) -> None:
        before, self._readings = self._readings, {}
        for status in statuses:
            known = before.get(status.flow)
            if known is None or known.status is not status:
                was = None if known is None else known.status
                self._counters.count_status_increases(status, was, wall_ms)
                known = _read_flow_values(status)
            self._readings[status.flow] = known
        self.statuses = tuple(statuses)
        self._counters.drop_expired_counters(self._readings.keys(), wall_ms)
        phases: SeriesValues = {}
        for each in self._readings.values():
            phases.update(each.phases)
        self.registry.set_gauge_series(metric_declarations.FLOW_PARTITIONS, phases)
        self.registry.set_gauge_series(
            metric_declarations.FLOW_ASSIGNED_PARTITIONS,
            {
                (each.flow,): each.assigned_partitions
                for each in statuses
                if each.assigned_partitions is not None
            },
        )
        self.registry.set_gauge_series(
            metric_declarations.FLOW_OVERRIDE,
            {
                (each.flow, by.value): 1
                for each in statuses
                if (by := each.overrides.kind) is not None
            },
        )

    def _set_topic_metrics(self, rows: Iterable[TopicRow], reports: Sequence[FlowReport]) -> None:
        """Set the metrics of all topics. Tasks do not read paused topics, so the lag of paused
        topics is taken from the flow reports."""
        found: dict[str, SeriesValues] = {each.name: {} for each in _TOPIC_GAUGES}
        lag_records, lag_seconds, transactional, reencoded, unfenced = found.values()
        for row in rows:
            labels = (row.flow, row.topic)
            transactional[labels] = row.transactional
            unfenced[labels] = row.unfenced
            reencoded.update({(*labels, reason): n for reason, n in row.reencoded.items()})
            if row.lag.records is not None:
                lag_records[labels] = row.lag.records
            if row.lag.seconds is not None:
                lag_seconds[labels] = row.lag.seconds
        for labels, lag in _list_paused_lags(reports):
            if lag.complete and lag.records is not None:
                lag_records[labels] = lag.records
            if lag.age_complete and lag.ms is not None:
                lag_seconds[labels] = lag.ms / 1000
        for metric in _TOPIC_GAUGES:
            self.registry.set_gauge_series(metric, found[metric.name])

    def _set_age_metrics(self, now_s: float, wall_ms: int) -> None:
        """Set the age metrics of a flow. The age of a heartbeat is at least the time since this
        node first saw it, because the clocks of clusters and nodes may differ."""
        beats_before, self._heartbeats = self._heartbeats, {}
        map_ages: SeriesValues = {}
        beats: SeriesValues = {}
        trips: SeriesValues = {}
        for flow, seen in self._readings.items():
            for topic, since_s in seen.unrecorded.items():
                map_ages[flow, topic] = max(0.0, now_s - since_s)
            beat = seen.heartbeats
            if beat is not None and beat.newest_copied_ms >= 0:
                known = beats_before.get(flow)
                if known is None or known[0] != beat.newest_copied_ms:
                    known = beat.newest_copied_ms, now_s
                self._heartbeats[flow] = known
                beats[(flow,)] = max(
                    wall_ms / 1000 - beat.newest_copied_ms / 1000, now_s - known[1]
                )
                trips[(flow,)] = beat.age_ms / 1000
        self.registry.set_gauge_series(metric_declarations.OFFSET_MAP_AGE, map_ages)
        self.registry.set_gauge_series(metric_declarations.HEARTBEAT_AGE, beats)
        self.registry.set_gauge_series(metric_declarations.HEARTBEAT_ROUND_TRIP, trips)

    # Metrics from other inputs

    def _set_metrics_from_inputs(self, beside: MetricInputs, now_s: float) -> None:
        skews: SeriesValues = {}
        for flow, pulses in beside.latencies.items():
            skews[(flow,)] = max(each.ahead_ms for each in pulses.values()) / 1000
        self.registry.set_gauge_series(metric_declarations.CLOCK_SKEW, skews)
        self._set_health_metrics(beside.reports)
        self._set_checkpoint_metrics(beside.checkpoint_groups, now_s)
        self._counters.count_latencies(beside.latencies)
        self._counters.count_rebalances(beside.rebalances)
        slots: SeriesValues = {}
        if beside.spark_slots is not None:
            used, free = beside.spark_slots
            slots = {("used",): used, ("free",): free}
        self.registry.set_gauge_series(metric_declarations.SPARK_SLOTS, slots)
        held: SeriesValues = {
            (flow, connector, by.value): 1
            for flow, found in beside.overrides.items()
            for connector, by in found.items()
        }
        self.registry.set_gauge_series(metric_declarations.CONNECTOR_OVERRIDE, held)
        self._set_drill_metrics(beside.last_drills_s)

    def _set_drill_metrics(self, passed_s: Mapping[str, float] | None) -> None:
        noted: SeriesValues = {} if passed_s is None else {(flow,): 1 for flow in self._readings}
        drills: SeriesValues = {(flow,): at_s for flow, at_s in (passed_s or {}).items()}
        self.registry.set_gauge_series(metric_declarations.DRILL_REPORT_CONFIGURED, noted)
        self.registry.set_gauge_series(
            metric_declarations.LAST_DRILL,
            {labels: at_s for labels, at_s in drills.items() if labels in noted},
        )

    def _set_health_metrics(self, reports: Sequence[FlowReport]) -> None:
        ages: SeriesValues = {}
        healthy: SeriesValues = {}
        reachable: SeriesValues = {}
        for each in reports:
            if each.activity is not None:
                ages[(each.flow,)] = max(0, each.at_ms - each.activity.at_ms) / 1000
            verdict = replication_health.evaluate_flow(each, within_s=self.replication_objective_s)
            if verdict.health is not FlowHealth.UNKNOWN:
                healthy[(each.flow,)] = int(verdict.is_healthy)
            for side in ClusterSide:
                reachable[each.flow, side.value] = int(each.find_unreachable_cluster(side) is None)
        self.registry.set_gauge_series(metric_declarations.LAST_REPLICATION_AGE, ages)
        self.registry.set_gauge_series(metric_declarations.FLOW_HEALTHY, healthy)
        self.registry.set_gauge_series(metric_declarations.CLUSTER_REACHABLE, reachable)

    def _set_checkpoint_metrics(
        self, groups: Mapping[str, Mapping[int, CheckpointGroupsSnapshot]], now_s: float
    ) -> None:
        """Set the metrics of consumer group checkpoints. Until a task has finished its first pass
        over all groups, or while a failed task reports nothing, the checkpoint age of its flow
        increases from the last known value."""
        counts: SeriesValues = {}
        before, self._groups_s = self._groups_s, {}
        given = {flow: seen.status.checkpoint_tasks for flow, seen in self._readings.items()}
        for flow in given.keys() | groups.keys():
            tasks = groups.get(flow, {}).values()
            times = [each.last_completed_s for each in tasks]
            if len(times) < given.get(flow, 0) or any(each.is_waiting for each in tasks):
                times.append(before.get(flow, now_s))
            elif times:
                counts[(flow,)] = sum(each.group_count for each in tasks)
            if times:
                self._groups_s[flow] = min(times)
        ages: SeriesValues = {
            (flow,): max(0.0, now_s - at_s) for flow, at_s in self._groups_s.items()
        }
        self.registry.set_gauge_series(metric_declarations.CHECKPOINT_AGE, ages)
        self.registry.set_gauge_series(metric_declarations.CHECKPOINTED_GROUPS, counts)


_TOPIC_GAUGES = (
    metric_declarations.LAG_RECORDS,
    metric_declarations.LAG_SECONDS,
    metric_declarations.TRANSACTIONAL_PARTITIONS,
    metric_declarations.REENCODED_PARTITIONS,
    metric_declarations.UNFENCED_PARTITIONS,
)


def collect_partition_metrics(
    statuses: Iterable[FlowStatus], wall_ms: int
) -> tuple[MetricFamily, ...]:
    """Collect the current values of `metric_declarations.PARTITION_METRICS`.

    If a partition is paused or not being replicated, its last reported lag may be outdated. A lag
    of 0 is then omitted.
    """
    records: SeriesValues = {}
    seconds: SeriesValues = {}
    for status in statuses:
        for each in status.partitions:
            paused = status.overrides.is_topic_paused(each.partition.topic)
            stale = paused or each.phase not in status_registry.COPYING_PHASES
            labels = (status.flow, each.partition.topic, str(each.partition.partition))
            behind, age_s = each.lag_records, each.compute_lag_s(wall_ms)
            if behind is not None and not (stale and behind == 0):
                records[labels] = behind
            if age_s is not None and not (stale and age_s == 0):
                seconds[labels] = age_s
    return (
        MetricFamily(metric=metric_declarations.PARTITION_LAG_RECORDS, series=records),
        MetricFamily(metric=metric_declarations.PARTITION_LAG_SECONDS, series=seconds),
    )


def _list_paused_lags(
    reports: Iterable[FlowReport],
) -> Iterator[tuple[tuple[str, str], ReportedLag]]:
    """For each topic with paused partitions, yield (flow, topic) and the lag of the paused
    partitions."""
    for each in reports:
        paused = [part for part in each.partitions if part.state == topic_rows.PAUSED_STATE]
        for topic, parts in status_document.group_partitions_by_topic(paused).items():
            yield (each.flow, topic), status_document.sum_lag(parts, each.at_ms)


def _read_flow_values(status: FlowStatus) -> _FlowMetricValues:
    phases = Counter(_find_partition_state(status, each) for each in status.partitions)
    unrecorded: dict[str, float] = {}
    beats = None
    for each in status.partitions:
        topic, since_s = each.partition.topic, each.unrecorded_since_s
        if since_s is not None:
            unrecorded[topic] = min(unrecorded.get(topic, math.inf), since_s)
        if topic == replication_policy.HEARTBEATS_TOPIC:
            beats = each
    return _FlowMetricValues(
        status=status,
        phases={(status.flow, phase): phases[phase] for phase in PARTITION_STATES},
        heartbeats=beats,
        unrecorded=unrecorded,
    )


def _find_partition_state(status: FlowStatus, each: PartitionStatus) -> str:
    """Return the value of the label `phase` for a partition. A halted partition is never reported
    as paused."""
    paused = status.overrides.is_topic_paused(each.partition.topic) and not each.is_halted
    return topic_rows.PAUSED_STATE if paused else each.phase


def _make_flow_state_series(seen: FlowsOverview) -> Series:
    return {
        (row.flow, state.value): int(row.state is state)
        for row in seen.flows
        for state in FlowState
    }


def _make_task_series(seen: FlowsOverview) -> Series:
    return {
        (row.flow, state.value): row.tasks.get(state, 0)
        for row in seen.flows
        for state in TaskState
    }


def _make_halted_series(seen: FlowsOverview) -> Series:
    return Counter((each.flow, each.partition.topic, each.cause) for each in seen.halts)
