"""Watches, during `mm2 run`, how long the sources retain unreplicated records, and logs warnings.

Copy processes know the state of their source only while they are reading from it. For partitions
that are halted, waiting, paused or lagging, a thread queries the source at intervals. The thread
has its own clients, and its failure does not affect replication. If no copy process on this node
has reported a partition's next source offset, the offset is read from the flow's offset map on the
target. The same thread records the times at which flows and partitions entered their state.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.system_clock import SystemClock
from mm2 import suggested_commands
from mm2.clusters import flow_kafka_clients, replication_progress
from mm2.clusters.flow_cluster_pair import FlowPair
from mm2.config.mm2_settings import Mm2Settings
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowStatus, PartitionStatus
from mm2.kafka.kafka_client_interfaces import Admin, LogOffsets
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.status import status_document, status_from_process, time_to_data_loss, topic_rows
from mm2.status.process_health import ReplicationActivity, ReplicationActivityTracker
from mm2.status.status_document import FlowReport
from mm2.status.status_from_process import SourcePartitionSnapshot, SourceSnapshots, StatusHistory
from mm2.status.time_to_data_loss import (
    RetentionRisk,
    RetentionRiskEstimator,
    RetentionSample,
    TopicRetention,
)
from mm2.suggested_commands import OperatorCommands
from mm2.topics.flow_config import Flow
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

SOURCE_REQUEST_TIMEOUT_S = 15.0
TIMESTAMP_READ_TIMEOUT_S = 5.0
TIMESTAMPS_READ_MAX = 500
CACHED_CONFIG_MAX_AGE_S = 300.0
"""How long topic configurations and offset map positions are cached."""
WARNED_CONFIG_MAX_AGE_S = 15.0
"""How long the configuration is cached for topics with a warning, because an operator may be about
to change it."""
WARNED_TOPICS_MAX = 5
"""Maximum number of topics for which a warning is logged at once. Topics with the least time left
come first."""
WARNING_INTERVAL_S = 3600.0
"""Interval at which a persisting problem is logged again."""

_log = logging.getLogger(__name__)

ReadPositions = Callable[[], Mapping[TopicPartition, int]]
"""Function that reads the next source offsets from the flow's offset map. Raises `ConnectError`."""


class RetentionSource(Protocol):
    """Gives access to a flow's source cluster; implemented by `kafka_cluster.KafkaCluster`."""

    @property
    def admin(self) -> Admin: ...

    @property
    def logs(self) -> LogOffsets: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _CachedReads:
    """Values that were read from the source and target clusters at monotonic time `at_s`. They are
    cached for a limited time."""

    at_s: float = float("-inf")
    retentions: dict[str, TopicRetention | None] = field(default_factory=dict)
    told_at_s: float = float("-inf")
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    has_positions: bool = False


class SourceRetentionReader:
    """Reads the retention risk of partitions from one flow's source. Not thread-safe. Clients
    connect on first use."""

    def __init__(
        self,
        flow: str,
        source: RetentionSource,
        *,
        positions: ReadPositions,
        close: Callable[[], None],
        operator: OperatorCommands,
        clock: Clock,
    ) -> None:
        self._flow = flow
        self._source = source
        self._positions = positions
        self._close = close
        self._operator = operator
        self._clock = clock
        self._cache = _CachedReads()
        self._estimators: dict[TopicPartition, RetentionRiskEstimator] = {}
        self._warned_at_s: dict[str, float] = {}

    def close(self) -> None:
        self._close()

    def collect_source_snapshots(
        self, waiting: Mapping[TopicPartition, PartitionStatus]
    ) -> SourceSnapshots:
        """Collect retention snapshots of the given source partitions. Raises `ConnectError` if the
        source does not respond or denies access."""
        if self._clock.now_s() - self._cache.at_s >= CACHED_CONFIG_MAX_AGE_S:
            self._cache = _CachedReads(at_s=self._clock.now_s())
        ends = self._source.logs.fetch_log_bounds(waiting, SOURCE_REQUEST_TIMEOUT_S).succeeded
        copied = self._find_positions(waiting, ends)
        lagging = {
            each: max(at, ends[each].start) for each, at in copied.items() if at < ends[each].end
        }
        times = self._read_timestamps(lagging, waiting)
        retentions = self._read_retentions({each.topic for each in lagging})
        self._estimators = {
            each: self._estimators.get(each) or RetentionRiskEstimator() for each in copied
        }
        found = {}
        for each, at in copied.items():
            risk = self._estimate_risk(
                RetentionSample(
                    at_ms=self._clock.wall_ms(),
                    start=ends[each].start,
                    end=ends[each].end,
                    copied_to=at,
                    waiting_since_ms=times.get(each),
                    bytes_per_record=_compute_bytes_per_record(waiting[each]),
                ),
                of=each,
                retention=retentions.get(each.topic),
            )
            found[each] = SourcePartitionSnapshot(
                bounds=ends[each],
                copied_to=at,
                waiting_since_ms=times.get(each),
                retention_risk=risk,
            )
        self._log_warnings(found, retentions)
        return found

    def _estimate_risk(
        self,
        seen: RetentionSample,
        *,
        of: TopicPartition,
        retention: TopicRetention | None,
    ) -> RetentionRisk:
        self._estimators[of].observe(seen)
        return self._estimators[of].estimate_risk(retention)

    def _read_timestamps(
        self,
        lagging: Mapping[TopicPartition, int],
        waiting: Mapping[TopicPartition, PartitionStatus],
    ) -> Mapping[TopicPartition, int]:
        """Return the timestamps of the oldest unreplicated records. Partitions that are being
        replicated report these timestamps themselves; for other partitions, a limited number of
        records is read from the source."""
        known = {
            each: waiting[each].oldest_uncopied_ms
            for each in lagging
            if waiting[each].oldest_uncopied_ms >= 0
        }
        asked = [
            each
            for each in sorted(lagging)
            if each not in known or waiting[each].phase not in status_registry.COPYING_PHASES
        ]
        wanted = {each: lagging[each] for each in asked[:TIMESTAMPS_READ_MAX]}
        return {
            **known,
            **(
                self._source.logs.read_timestamps(wanted, TIMESTAMP_READ_TIMEOUT_S)
                if wanted
                else {}
            ),
        }

    def _find_positions(
        self,
        waiting: Mapping[TopicPartition, PartitionStatus],
        ends: Mapping[TopicPartition, LogBounds],
    ) -> dict[TopicPartition, int]:
        """Return the next source offset to replicate for each partition for which it is known.

        The offset is reported by the copy process, or read from the offset map.
        """
        unknown = [each for each in ends if waiting[each].copied_to < 0]
        if unknown and not self._cache.has_positions:
            self._cache.positions = self._positions()
            self._cache.has_positions = True
        by_map = self._cache.positions if unknown else {}
        found = {each: waiting[each].copied_to for each in ends}
        found.update((each, by_map.get(each, -1)) for each in unknown)
        return {each: at for each, at in found.items() if at >= 0}

    def _read_retentions(self, topics: Collection[str]) -> Mapping[str, TopicRetention | None]:
        known, now_s = self._cache.retentions, self._clock.now_s()
        if now_s - self._cache.told_at_s >= WARNED_CONFIG_MAX_AGE_S:
            self._cache.told_at_s = now_s
            for topic in self._warned_at_s.keys() & known.keys():
                del known[topic]
        fresh = sorted(set(topics) - known.keys())
        if fresh:
            answered = self._source.admin.read_topic_configs(
                fresh, SOURCE_REQUEST_TIMEOUT_S
            ).succeeded
            known.update(
                (name, status_from_process.parse_topic_retention(answered.get(name)))
                for name in fresh
            )
        return known

    def _log_warnings(
        self,
        found: SourceSnapshots,
        retentions: Mapping[str, TopicRetention | None],
    ) -> None:
        """Log one warning per topic, about the partition with the least time left."""
        worst: dict[str, tuple[TopicPartition, RetentionRisk]] = {}
        for each, seen in sorted(
            found.items(), key=lambda item: item[1].retention_risk.left_ms or 0
        ):
            if seen.retention_risk.is_time_to_data_loss_short:
                worst.setdefault(each.topic, (each, seen.retention_risk))
        now_s = self._clock.now_s()
        due = [
            topic
            for topic in worst
            if now_s - self._warned_at_s.get(topic, float("-inf")) >= WARNING_INTERVAL_S
        ]
        self._warned_at_s.update(dict.fromkeys(due, now_s))
        for topic in due[:WARNED_TOPICS_MAX]:
            each, risk = worst[topic]
            line = time_to_data_loss.make_retention_command(
                topic,
                risk,
                retention=retentions.get(topic),
                source=self._operator.source,
            )
            way = f". {suggested_commands.format_remedy(line)}" if line else ""
            _log.warning(
                "%s: %s: %s%s", self._flow, each, time_to_data_loss.describe_data_loss(risk), way
            )
        if len(due) > WARNED_TOPICS_MAX:
            more = plurals.format_count(len(due) - WARNED_TOPICS_MAX, "more topic")
            _log.warning("%s: %s may also lose unreplicated records; see mm2 lag", self._flow, more)
        over = sorted(self._warned_at_s.keys() - worst.keys())
        for topic in over:
            del self._warned_at_s[topic]
        if over:
            others = len(over) - 1
            more_over = f" and {plurals.format_count(others, 'more topic')}" if others else ""
            _log.info("%s: %s%s: no longer at risk of data loss", self._flow, over[0], more_over)


def _compute_bytes_per_record(each: PartitionStatus) -> float | None:
    return each.bytes / each.records if each.records else None


HISTORY_INTERVAL_S = 1.0
SOURCE_POLL_INTERVAL_S = 5.0
SOURCE_SNAPSHOT_MAX_AGE_S = 24 * SOURCE_POLL_INTERVAL_S
"""Maximum age of a snapshot. Older snapshots are ignored, because collecting takes too long or has
stopped."""
HISTORY_CPU_SHARE = 0.01
"""Maximum share of a CPU core used for recording the states of flows and partitions. With thousands
of partitions, the states are recorded less often."""
LAG_THRESHOLD_S = 10.0
"""Minimum lag in seconds for which the retention risk is checked."""
UNMOVED_THRESHOLD_MS = 60_000
"""Time in milliseconds. If a partition whose lag is unknown has been in the same state, for example
waiting, for this time, the source is queried for the partition."""
OFFSET_MAP_READ_TIMEOUT_S = 30.0


class WatchedNode(Protocol):
    """Node whose flows are watched; implemented by `mm2.node.mm2_node.Mm2Node`."""

    @property
    def settings(self) -> Mm2Settings: ...

    def statuses(self) -> Sequence[FlowStatus]: ...


def open_retention_reader(settings: Mm2Settings, flow: Flow) -> SourceRetentionReader:
    """Create a reader with its own clients for both clusters. Raises `FatalError` if settings are
    invalid."""
    clock = SystemClock()
    both = FlowPair(settings, flow, purpose="losses", clock=clock)

    def read_target_positions() -> Mapping[TopicPartition, int]:
        known = replication_progress.read_offset_map(
            both.target, flow.source, OFFSET_MAP_READ_TIMEOUT_S
        )
        found = {
            each: known.get_partition(each).next_source_offset for each in known.list_partitions()
        }
        return {each: at for each, at in found.items() if at is not None}

    return SourceRetentionReader(
        flow.name,
        both.source,
        positions=read_target_positions,
        close=both.close,
        operator=flow_kafka_clients.build_operator_commands(settings, flow),
        clock=clock,
    )


OpenRetentionReader = Callable[[Mm2Settings, Flow], SourceRetentionReader]


FindUnreachable = Callable[[Flow], tuple[UnreachableCluster, ...]]
"""Function that returns the unreachable clusters and brokers of a flow."""


def _return_no_unreachable_clusters(_: Flow) -> tuple[UnreachableCluster, ...]:
    return ()


class RetentionWatch:
    """Watches the retention risk of all flows. `run` is the thread body; `reports` is
    thread-safe."""

    def __init__(
        self,
        running: WatchedNode,
        *,
        open_source: OpenRetentionReader,
        clock: Clock,
        unreachable: FindUnreachable = _return_no_unreachable_clusters,
    ) -> None:
        self._running = running
        self._unreachable = unreachable
        self._activity_tracker = ReplicationActivityTracker()
        self._open = open_source
        self._clock = clock
        self._history = StatusHistory()
        self._lock = threading.Lock()
        self._snapshots: dict[str, SourceSnapshots] = {}
        self._snapshot_times_s: dict[str, float] = {}
        self._sources: dict[str, tuple[Mm2Settings, SourceRetentionReader]] = {}
        self._failing: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        """Record when flows and partitions change state, and collect retention snapshots from the
        sources, until `stop` is set."""
        due_s, pause_s = self._clock.now_s() + HISTORY_INTERVAL_S, HISTORY_INTERVAL_S
        try:
            while not stop.wait(pause_s):
                began_s = self._clock.now_s()
                self.record_states()
                took_s = self._clock.now_s() - began_s
                pause_s = min(
                    SOURCE_POLL_INTERVAL_S, max(HISTORY_INTERVAL_S, took_s / HISTORY_CPU_SHARE)
                )
                if self._clock.now_s() >= due_s:
                    self.collect_snapshots(stop)
                    due_s = self._clock.now_s() + SOURCE_POLL_INTERVAL_S
        finally:
            with self._lock:
                self._snapshots.clear()
            for flow in list(self._sources):
                self._close_reader(flow)

    def build_reports(self) -> list[FlowReport]:
        """Build the reports of all flows of this process. Values read from source clusters may be
        up to `SOURCE_POLL_INTERVAL_S` old."""
        statuses = {each.flow: each for each in self._running.statuses()}
        now_s, wall_ms = self._clock.now_s(), self._clock.wall_ms()
        with self._lock:
            self._history.observe(list(statuses.values()), now_s=now_s, wall_ms=wall_ms)
            operator = OperatorCommands(file=os.path.abspath(self._running.settings.file))
            looks = self._select_recent_snapshots()
            activities = self._collect_activities(statuses.values(), now_s=now_s, wall_ms=wall_ms)
            return [
                status_from_process.make_report(
                    flow,
                    statuses[flow.name],
                    self._history,
                    snapshots=looks.get(flow.name, {}),
                    snapshots_recent=self._has_recent_snapshot(flow),
                    unreachable=self._unreachable(flow),
                    activity=activities[flow.name],
                    resume=operator.build_resume_command(flow.name, None),
                    process=os.getpid(),
                    wall_ms=wall_ms,
                )
                for flow in self._running.settings.flows
                if flow.name in statuses
            ]

    def _collect_activities(
        self, statuses: Iterable[FlowStatus], *, now_s: float, wall_ms: int
    ) -> dict[str, ReplicationActivity | None]:
        """Return the replication activity on this node, by flow."""
        pulses, found = status_registry.REGISTRY.get_snapshot().latencies, {}
        for each in statuses:
            found[each.flow] = self._activity_tracker.observe(
                each.flow,
                pulses.get(each.flow, {}).values(),
                copies=each.has_local_partitions,
                all_move=each.is_copying_all_partitions,
                now_s=now_s,
                wall_ms=wall_ms,
            )
        self._activity_tracker.retain_flows(found.keys())
        return found

    def list_seconds_to_data_loss(self) -> dict[tuple[str, ...], float]:
        """Return the seconds until unreplicated records may be deleted, by flow and topic; 0 if
        they may be deleted at any time or some have already been deleted. Topics without an
        estimate are omitted."""
        found: dict[tuple[str, ...], float] = {}
        with self._lock:
            for flow, looks in self._select_recent_snapshots().items():
                for place, seen in looks.items():
                    if seen.retention_risk.left_ms is not None:
                        key, left_s = (flow, place.topic), seen.retention_risk.left_ms / 1000
                        found[key] = min(left_s, found.get(key, left_s))
        return found

    def _has_recent_snapshot(self, flow: Flow) -> bool:
        """Return True if the end offsets in the flow's last snapshot can be treated as current. The
        caller must hold the lock."""
        age_s = self._clock.now_s() - self._snapshot_times_s.get(flow.name, float("-inf"))
        return age_s <= flow.unreachable_after_s + SOURCE_POLL_INTERVAL_S

    def _select_recent_snapshots(self) -> dict[str, SourceSnapshots]:
        """Return the flow's snapshots of source partitions that are recent enough to report. The
        caller must hold the lock."""
        since_s = self._clock.now_s() - SOURCE_SNAPSHOT_MAX_AGE_S
        return {
            flow: looks
            for flow, looks in self._snapshots.items()
            if self._snapshot_times_s[flow] >= since_s
        }

    def record_states(self) -> None:
        """Record the times at which flows and partitions change state."""
        with self._lock:
            now_s, wall_ms = self._clock.now_s(), self._clock.wall_ms()
            self._history.observe(self._running.statuses(), now_s=now_s, wall_ms=wall_ms)

    def collect_snapshots(self, stop: threading.Event) -> None:
        """Collect snapshots from the sources of all flows."""
        settings = self._running.settings
        by_name = {each.name: each for each in settings.flows}
        statuses = [each for each in self._running.statuses() if each.flow in by_name]
        self._forget_removed_flows({each.flow for each in statuses})
        for status in statuses:
            if stop.is_set():
                return
            flow = by_name[status.flow]
            lost = {each.side for each in self._unreachable(flow) if not each.broker}
            if ClusterSide.SOURCE in lost:
                self._store_snapshots(
                    flow.name, {}
                )  # old values are outdated, and a query would only wait
                continue
            target_lost = ClusterSide.TARGET in lost
            waiting = self._select_partitions_at_risk(status, target_lost=target_lost)
            found: SourceSnapshots = {}
            if waiting:
                found = self._collect_from_source(settings, flow, waiting)
            else:
                self._close_reader(flow.name)
            self._store_snapshots(flow.name, found)

    def _store_snapshots(self, flow: str, found: SourceSnapshots) -> None:
        with self._lock:
            self._snapshots[flow] = found
            self._snapshot_times_s[flow] = self._clock.now_s()

    def _forget_removed_flows(self, there: Set[str]) -> None:
        """Discard the snapshots of flows that no longer exist."""
        with self._lock:
            self._snapshots = {
                name: looks for name, looks in self._snapshots.items() if name in there
            }
            self._snapshot_times_s = {
                name: at for name, at in self._snapshot_times_s.items() if name in there
            }
        self._failing &= there
        for name in self._sources.keys() - there:
            self._close_reader(name)

    def _select_partitions_at_risk(
        self, status: FlowStatus, *, target_lost: bool
    ) -> dict[TopicPartition, PartitionStatus]:
        """Select the partitions on this node for which the source must be queried.

        These are the partitions that lag, are paused or halted, or have not been replicated for a
        while. Other nodes watch their own partitions.
        """
        wall_ms, found = self._clock.wall_ms(), {}
        for each in status.partitions:
            state = topic_rows.find_partition_state(
                each, paused=status.overrides.is_topic_paused(each.partition.topic)
            )
            age_s = each.compute_lag_s(wall_ms)
            late = age_s is not None and age_s >= LAG_THRESHOLD_S
            known = state == status_document.COPYING_STATE and age_s is not None
            paused = state == topic_rows.PAUSED_STATE
            if (
                late
                or paused
                or each.is_halted
                or (
                    not known
                    and (target_lost or self._is_partition_stuck(status.flow, each, wall_ms))
                )
            ):
                found[each.partition] = each
        return found

    def _is_partition_stuck(self, flow: str, each: PartitionStatus, wall_ms: int) -> bool:
        """Return True if the partition has been in its current state, for example waiting, for at
        least `UNMOVED_THRESHOLD_MS`. Shorter waits are normal: after a start, all partitions
        wait."""
        since_ms = self._history.get_state_since_ms(flow, each.partition)
        return since_ms is not None and wall_ms - since_ms >= UNMOVED_THRESHOLD_MS

    def _collect_from_source(
        self,
        settings: Mm2Settings,
        flow: Flow,
        waiting: Mapping[TopicPartition, PartitionStatus],
    ) -> SourceSnapshots:
        try:
            found = self._get_reader(settings, flow).collect_source_snapshots(waiting)
        except ConnectError as error:
            if flow.name not in self._failing:
                self._failing.add(flow.name)
                _log.warning(
                    "%s: cannot determine how long %s retains unreplicated records; retrying: %s",
                    *(flow.name, flow.source, error),
                )
            return {}
        self._failing.discard(flow.name)
        return found

    def _get_reader(self, settings: Mm2Settings, flow: Flow) -> SourceRetentionReader:
        known = self._sources.get(flow.name)
        if known is not None and known[0] is settings:
            return known[1]
        self._close_reader(flow.name)
        made = self._open(settings, flow)
        self._sources[flow.name] = (settings, made)
        return made

    def _close_reader(self, flow: str) -> None:
        known = self._sources.pop(flow, None)
        if known is not None:
            known[1].close()
