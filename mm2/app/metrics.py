"""Fills the metrics of `core/measures` with what flows show of themselves, look by look.

Looks come often, and most partitions rest: what says the same as at the last look, being the same
object, is not gone through again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import metrics
from mm2.app import counters, overview, version
from mm2.app.reports import flow_report, flow_verdict
from mm2.connectors import board, flow_status
from mm2.core import holds as holding
from mm2.core import measures, naming, reachability
from mm2.core.copy import crossing, standing

Found = dict[tuple[str, ...], float]
PHASES = (*(each.value for each in standing.Phase), overview.PAUSED)
"""Of a partition's copy, or what an operator makes of it."""


def make_registry() -> metrics.Registry:
    """A registry that knows every metric of `measures.ALL`."""
    registry = metrics.Registry()
    for metric in measures.ALL:
        registry.declare(metric)
    return registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is measured beside the flows' statuses. `pulses` and `groups` as in `board.Snapshot`;
    `rebalances` by flow; `held` by flow and connector, as in
    `holds.Holds.beside`; `slots`: used and free, None while unknown; `drills`: by flow when one
    passed last, in seconds of Unix time, None where drills are not noted."""

    pulses: Mapping[str, Mapping[int, crossing.Pulse]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[int, board.GroupsShown]] = field(default_factory=dict)
    rebalances: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, holding.By]] = field(default_factory=dict)
    slots: tuple[int, int] | None = None
    drills: Mapping[str, float] | None = None
    reports: Sequence[flow_report.FlowReport] = ()


@dataclass(slots=True)
class _Seen:
    """A flow at the last look. `heartbeats`: its partition, if it is copied here; `unrecorded` by
    topic: since when (monotonic clock) the map lacks something, the longest, `math.inf` where it
    lacks nothing."""

    status: flow_status.FlowStatus
    phases: Found
    heartbeats: flow_status.PartitionStatus | None
    unrecorded: Mapping[str, float]


@dataclass(slots=True)
class FlowMetrics:
    """A fold from snapshots to metrics; one thread's.

    `losses` are by flow and topic, in seconds; `now_s` and `wall_ms` are now. What may page
    somebody is as old as the monotonic clock says, whatever the other one is set to.
    """

    registry: metrics.Registry = field(default_factory=make_registry)
    losses: Callable[[], metrics.Series] = dict
    beside: Callable[[], Beside] = Beside
    wall_ms: Callable[[], int] = lambda: 0
    now_s: Callable[[], float] = lambda: 0.0
    within_s: float = 60.0
    """As in `flow_verdict.judge`."""
    statuses: tuple[flow_status.FlowStatus, ...] = ()
    """Of the last look: any thread may read them."""
    _counters: counters.Counters = field(init=False)
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _groups_s: dict[str, float] = field(default_factory=dict)
    """By flow: as of when its groups were followed at the last look."""
    _beats: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By flow: the newest heartbeat's timestamp, and when it was seen first."""

    def __post_init__(self) -> None:
        self._counters = counters.Counters(self.registry)

    def observe(
        self,
        statuses: Sequence[flow_status.FlowStatus],
        seen: overview.Overview,
        *,
        engine_ready: bool,
    ) -> None:
        """`seen` is made of `statuses`. Publishes."""
        now_s, wall_ms, beside = self.now_s(), self.wall_ms(), self.beside()
        replace = self.registry.replace
        self._take_in(statuses, wall_ms)
        replace(measures.BUILD, {(version.VERSION,): 1})
        replace(measures.ENGINE_READY, {(): int(engine_ready)})
        replace(measures.FLOW_STATE, _flow_states(seen))
        replace(measures.TASKS, _tasks(seen))
        missing: Found = {(row.flow,): row.slots_missing for row in seen.flows}
        replace(measures.SLOTS_MISSING, missing)
        replace(measures.STOPPED, _stopped(seen))
        self._set_topics(seen.topics, beside.reports)
        replace(measures.LOSS_SECONDS, self.losses())
        self._set_ages(now_s, wall_ms)
        self._set_beside(beside, now_s)
        self.registry.publish()

    # What flows show

    def _take_in(self, statuses: Sequence[flow_status.FlowStatus], wall_ms: int) -> None:
        before, self._seen = self._seen, {}
        for status in statuses:
            known = before.get(status.flow)
            if known is None or known.status is not status:
                was = None if known is None else known.status
                self._counters.look(status, was, wall_ms)
                known = _look(status)
            self._seen[status.flow] = known
        self.statuses = tuple(statuses)
        self._counters.forget(self._seen.keys(), wall_ms)
        phases: Found = {}
        for each in self._seen.values():
            phases.update(each.phases)
        self.registry.replace(measures.PARTITIONS, phases)
        self.registry.replace(
            measures.WANTED_PARTITIONS,
            {(each.flow,): each.wanted for each in statuses if each.wanted is not None},
        )
        self.registry.replace(
            measures.HELD,
            {(each.flow, by.value): 1 for each in statuses if (by := each.holds.by) is not None},
        )

    def _set_topics(
        self, rows: Iterable[overview.TopicRow], reports: Sequence[flow_report.FlowReport]
    ) -> None:
        """Copies of paused topics see no new records: their lag is that of the reports."""
        found: dict[str, Found] = {each.name: {} for each in _OF_TOPICS}
        lag_records, lag_seconds, transactional, opened, unfenced = found.values()
        for row in rows:
            labels = (row.flow, row.topic)
            transactional[labels] = row.transactional
            unfenced[labels] = row.unfenced
            opened.update({(*labels, why): count for why, count in row.opened.items()})
            if row.lag.records is not None:
                lag_records[labels] = row.lag.records
            if row.lag.seconds is not None:
                lag_seconds[labels] = row.lag.seconds
        for labels, lag in _paused_lags(reports):
            if lag.complete and lag.records is not None:
                lag_records[labels] = lag.records
            if lag.dated and lag.ms is not None:
                lag_seconds[labels] = lag.ms / 1000
        for metric in _OF_TOPICS:
            self.registry.replace(metric, found[metric.name])

    def _set_ages(self, now_s: float, wall_ms: int) -> None:
        """A heartbeat is stamped by another machine: it is at least as old as it has been seen."""
        beats_before, self._beats = self._beats, {}
        map_ages: Found = {}
        beats: Found = {}
        trips: Found = {}
        for flow, seen in self._seen.items():
            for topic, since_s in seen.unrecorded.items():
                map_ages[flow, topic] = max(0.0, now_s - since_s)
            beat = seen.heartbeats
            if beat is not None and beat.newest_ms >= 0:
                known = beats_before.get(flow)
                if known is None or known[0] != beat.newest_ms:
                    known = beat.newest_ms, now_s
                self._beats[flow] = known
                beats[(flow,)] = max(wall_ms / 1000 - beat.newest_ms / 1000, now_s - known[1])
                trips[(flow,)] = beat.age_ms / 1000
        self.registry.replace(measures.MAP_AGE, map_ages)
        self.registry.replace(measures.HEARTBEAT_AGE, beats)
        self.registry.replace(measures.HEARTBEAT_ROUND_TRIP, trips)

    # What is beside them

    def _set_beside(self, beside: Beside, now_s: float) -> None:
        skews: Found = {}
        for flow, pulses in beside.pulses.items():
            skews[(flow,)] = max(each.ahead_ms for each in pulses.values()) / 1000
        self.registry.replace(measures.CLOCK_SKEW, skews)
        self._set_verdicts(beside.reports)
        self._set_groups(beside.groups, now_s)
        self._counters.look_at_pulses(beside.pulses)
        self._counters.look_at_rebalances(beside.rebalances)
        slots: Found = {}
        if beside.slots is not None:
            used, free = beside.slots
            slots = {("used",): used, ("free",): free}
        self.registry.replace(measures.SLOTS, slots)
        held: Found = {
            (flow, connector, by.value): 1
            for flow, found in beside.held.items()
            for connector, by in found.items()
        }
        self.registry.replace(measures.CONNECTOR_HELD, held)
        self._set_drills(beside.drills)

    def _set_drills(self, passed_s: Mapping[str, float] | None) -> None:
        noted: Found = {} if passed_s is None else {(flow,): 1 for flow in self._seen}
        drills: Found = {(flow,): at_s for flow, at_s in (passed_s or {}).items()}
        self.registry.replace(measures.DRILLS_NOTED, noted)
        self.registry.replace(
            measures.DRILL, {labels: at_s for labels, at_s in drills.items() if labels in noted}
        )

    def _set_verdicts(self, reports: Sequence[flow_report.FlowReport]) -> None:
        ages: Found = {}
        healthy: Found = {}
        reachable: Found = {}
        for each in reports:
            if each.crossed is not None:
                ages[(each.flow,)] = max(0, each.at_ms - each.crossed.at_ms) / 1000
            verdict = flow_verdict.judge(each, within_s=self.within_s)
            if verdict.health is not flow_verdict.Health.UNKNOWN:
                healthy[(each.flow,)] = int(verdict.is_healthy)
            for side in reachability.Side:
                reachable[each.flow, side.value] = int(each.lost_cluster(side) is None)
        self.registry.replace(measures.CROSSING_AGE, ages)
        self.registry.replace(measures.HEALTHY, healthy)
        self.registry.replace(measures.REACHABLE, reachable)

    def _set_groups(
        self, groups: Mapping[str, Mapping[int, board.GroupsShown]], now_s: float
    ) -> None:
        """Where a task has still to do its first round, or has failed and tells nothing, the age of
        its flow goes on from what was known."""
        counts: Found = {}
        before, self._groups_s = self._groups_s, {}
        given = {flow: seen.status.checkpoint_tasks for flow, seen in self._seen.items()}
        for flow in given.keys() | groups.keys():
            tasks = groups.get(flow, {}).values()
            times = [each.done_s for each in tasks]
            if len(times) < given.get(flow, 0) or any(each.waits for each in tasks):
                times.append(before.get(flow, now_s))
            elif times:
                counts[(flow,)] = sum(each.groups for each in tasks)
            if times:
                self._groups_s[flow] = min(times)
        ages: Found = {(flow,): max(0.0, now_s - at_s) for flow, at_s in self._groups_s.items()}
        self.registry.replace(measures.GROUP_SYNC_AGE, ages)
        self.registry.replace(measures.SYNCED_GROUPS, counts)


_OF_TOPICS = (
    measures.LAG_RECORDS,
    measures.LAG_SECONDS,
    measures.IN_TRANSACTIONS,
    measures.OPENED,
    measures.UNFENCED,
)


def by_partition(
    statuses: Iterable[flow_status.FlowStatus], wall_ms: int
) -> tuple[metrics.Family, ...]:
    """`measures.BY_PARTITION` as of now; what was known of partitions that do not move says nothing
    about now."""
    records: Found = {}
    seconds: Found = {}
    for status in statuses:
        for each in status.partitions:
            paused = status.holds.pauses(each.partition.topic)
            stale = paused or each.phase not in flow_status.MOVING
            labels = (status.flow, each.partition.topic, str(each.partition.partition))
            behind, age_s = each.lag_records, each.lag_s(wall_ms)
            if behind is not None and not (stale and behind == 0):
                records[labels] = behind
            if age_s is not None and not (stale and age_s == 0):
                seconds[labels] = age_s
    return (
        metrics.Family(metric=measures.PARTITION_LAG_RECORDS, series=records),
        metrics.Family(metric=measures.PARTITION_LAG_SECONDS, series=seconds),
    )


def _paused_lags(
    reports: Iterable[flow_report.FlowReport],
) -> Iterator[tuple[tuple[str, str], flow_report.Lag]]:
    """By flow and topic, of topics that are paused as a whole."""
    for each in reports:
        paused = [part for part in each.partitions if part.state == overview.PAUSED]
        for topic, parts in flow_report.by_topic(paused).items():
            yield (each.flow, topic), flow_report.lag(parts, each.at_ms)


def _look(status: flow_status.FlowStatus) -> _Seen:
    phases = Counter(_phase(status, each) for each in status.partitions)
    unrecorded: dict[str, float] = {}
    beats = None
    for each in status.partitions:
        topic, since_s = each.partition.topic, each.unrecorded_s
        if since_s is not None:
            unrecorded[topic] = min(unrecorded.get(topic, math.inf), since_s)
        if topic == naming.HEARTBEATS_TOPIC:
            beats = each
    return _Seen(
        status=status,
        phases={(status.flow, phase): phases[phase] for phase in PHASES},
        heartbeats=beats,
        unrecorded=unrecorded,
    )


def _phase(status: flow_status.FlowStatus, each: flow_status.PartitionStatus) -> str:
    """Where it stands; what stands still does so whether it is paused or not."""
    paused = status.holds.pauses(each.partition.topic) and not each.stopped
    return overview.PAUSED if paused else each.phase


def _flow_states(seen: overview.Overview) -> metrics.Series:
    return {
        (row.flow, state.value): int(row.state is state)
        for row in seen.flows
        for state in flow_status.FlowState
    }


def _tasks(seen: overview.Overview) -> metrics.Series:
    return {
        (row.flow, state.value): row.tasks.get(state, 0)
        for row in seen.flows
        for state in flow_status.TaskState
    }


def _stopped(seen: overview.Overview) -> metrics.Series:
    return Counter((each.flow, each.partition.topic, each.cause) for each in seen.standstills)
