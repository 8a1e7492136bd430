"""Thread-safe registry with the status of this process's connectors and tasks.

Every task and connector publishes its own frozen snapshot, which is replaced as a whole; an
unchanged snapshot remains the same object. Flows are keyed by `Flow.name`. `FlowStatus`, which
`mm2.status` builds, is the status of a whole flow that commands, metrics and UI read.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from connect_runtime.base.ids import TopicPartition
from mm2.config import pause_and_throttle_overrides
from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.replication import partition_lag
from mm2.replication.replication_latency import LatencySnapshot

COPYING_PHASES = frozenset({"copying", "boundary"})
"""Partition phases in which the reported source offsets are current."""


class FlowState(enum.Enum):
    """State of a flow on this node.

    A flow is PLANNING until both clusters have responded and tasks are assigned; `reason` states
    why this has not happened yet. A flow is STOPPED if an operator stopped it (until `mm2 resume`),
    or if the process has stopped.
    """

    PLANNING = "PLANNING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


class TaskState(enum.Enum):
    """State of a task and its copy process. A task is RUNNING once its copy process has sent its
    first report. A FAILED task has no copy process."""

    STARTING = "STARTING"
    WAITING_FOR_SLOT = "WAITING_FOR_SLOT"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """Status of one source partition. Offsets are -1 while unknown. Counters count from the start
    of the task."""

    partition: TopicPartition
    task: int
    phase: str
    """Phase of the partition; a value of `PartitionPhase`."""
    reason: str
    cause: str
    """Halt reason; "" if the partition is not halted."""
    records: int
    bytes: int
    copied_to: int
    """First source offset that has not been replicated to the target yet."""
    source_end: int
    """Last stable offset of the source partition."""
    age_ms: int
    """Age of the newest replicated record when the target acknowledged it."""
    oldest_uncopied_ms: int
    """Timestamp of the oldest unreplicated record; -1 if there is none."""
    transactional: bool
    reencode_reason: str = ""
    """Why the newest batch was re-encoded; "" if it was a pass-through batch."""
    fenced: bool = True
    """False if the partition is replicated at least once, without fencing."""
    batches: int = 0
    """Number of acknowledged batches."""
    reencoded_batches: int = 0
    """Number of acknowledged batches that were re-encoded."""
    already_stored_records: int = 0
    """Number of records that were not written again because they were already stored on the
    target."""
    newest_copied_ms: int = -1
    """Timestamp of the newest replicated record; -1 if there is none."""
    unrecorded_since_s: float | None = None
    """Time (monotonic) since which replicated records have not been covered by a stored resume
    point; infinity if all are covered, None while unknown."""

    def compute_lag_s(self, wall_ms: int) -> float | None:
        """Compute the age of the oldest unreplicated record, never negative; 0 if there is none.

        Returns None if the age is unknown, or if the record's timestamp is in the future, for
        example after a clock change.
        """
        lag_ms = partition_lag.compute_lag_ms(
            lag_records=self.lag_records,
            oldest_uncopied_ms=self.oldest_uncopied_ms,
            now_ms=wall_ms,
        )
        return None if lag_ms is None else lag_ms / 1000.0

    @property
    def lag_records(self) -> int | None:
        """Number of unreplicated records; an upper bound if the source log has gaps. None if
        unknown."""
        return partition_lag.count_lag_records(source_end=self.source_end, copied_to=self.copied_to)

    @property
    def is_halted(self) -> bool:
        return self.phase in ("halted", "fenced")


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentCount:
    """Number of incidents of one topic and kind; `kind` is a value of `IncidentKind`."""

    topic: str
    kind: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """Status of a task on this node."""

    index: int
    state: TaskState
    reason: str
    restarts: int
    """Number of copy process restarts since `counter_generation` last changed."""
    incidents: tuple[IncidentCount, ...] = ()
    """Incidents since `counter_generation` last changed."""
    counter_generation: int = 0
    """Identifies the period over which counters accumulate, unique in this process. A change means
    that all counters of the task restarted at zero. 0 before counting has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlacement:
    """Where a task of the flow runs (on any node), according to the Connect group's internal
    topics."""

    number: int
    state: str
    """Connect's task state; "" if no state was reported."""
    node: str
    """The worker's `host:port`."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatus:
    """Status of a flow on this node."""

    flow: str
    state: FlowState
    reason: str
    tasks: tuple[TaskStatus, ...] = ()
    partitions: tuple[PartitionStatus, ...] = ()
    slots_missing: int = 0
    """Number of Spark slots for which the flow's tasks are waiting."""
    fencing_command: str = ""
    """Command that enables fencing for partitions that should be fenced but are not; "" if there
    are none."""
    remote_partitions: int = 0
    """Number of partitions whose tasks are not running on this node."""
    assigned_partitions: int | None = None
    """Number of partitions that the connector has assigned to tasks on any node. None if the
    connector does not run on this node or has no result yet."""
    overrides: OperatorOverrides = pause_and_throttle_overrides.NO_OVERRIDES
    """Pauses and stops set by an operator."""
    placements: tuple[TaskPlacement, ...] = ()
    """All tasks of the flow's Connect group, on any node."""
    warnings: tuple[str, ...] = ()
    """Problems that do not prevent topics from being replicated."""
    checkpoint_tasks: int = 0
    """Number of checkpoint tasks assigned to this node."""
    connector_failures: tuple[str, ...] = ()
    """Failed checkpoint tasks of this node, with their reasons."""

    @property
    def is_final(self) -> bool:
        """True if the flow will not run again in this process. A flow stopped by an operator can be
        resumed.
        """
        stopped = self.state is FlowState.STOPPED and not self.overrides.stopped
        return stopped or self.state is FlowState.FAILED

    @property
    def has_local_partitions(self) -> bool:
        """True if this node has partitions of the flow to replicate."""
        return bool(self.tasks) or any(each.task >= 0 for each in self.partitions)

    @property
    def is_empty(self) -> bool:
        """True if it is certain that the flow has nothing to replicate on any node."""
        nothing = not self.partitions and not self.remote_partitions
        return self.state is FlowState.RUNNING and nothing

    @property
    def is_copying_all_partitions(self) -> bool:
        """True if all of this node's partitions of the flow are currently being replicated."""
        return all(each.state is TaskState.RUNNING for each in self.tasks) and all(
            each.phase in COPYING_PHASES for each in self.partitions if each.task >= 0
        )


SnapshotT = TypeVar("SnapshotT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSnapshot:
    """Snapshot of one task."""

    status: TaskStatus
    partitions: tuple[PartitionStatus, ...] = ()
    """Status of all assigned partitions, including those that must not be replicated."""
    slots_missing: int = 0
    """Number of Spark slots for which the task is waiting."""
    fencing_command: str = ""
    """Command that enables fencing for partitions that should be fenced but are not; "" if there
    are none."""
    java_warning: str = ""
    """Warning that Java workers run tasks of the flow; "" if none do."""
    props: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Configuration of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorSnapshot:
    """Snapshot of a flow's source connector, on the worker that runs it."""

    is_planned: bool
    """True once both clusters have responded and tasks could be assigned."""
    reason: str = ""
    """Why no tasks can be assigned yet; "" once `is_planned` is True."""
    copyable: int = 0
    """Number of partitions that are assigned to tasks, on any worker."""
    props: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Configuration of the connector."""
    findings: tuple[PartitionStatus, ...] = ()
    """Partitions that are assigned to no task. Their task number is -1."""
    warnings: tuple[str, ...] = ()
    """Problems that do not prevent topics from being replicated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSearchResult:
    """Result of a search for consumer groups by name."""

    total_count: int
    """Total number of groups."""
    matching_count: int
    """Number of matching groups."""
    groups: Mapping[str, Sequence[Checkpoint]]
    """The first matching groups in order of their names, each with its current checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointGroupsSnapshot:
    """Snapshot of a checkpoint task's groups. Times `*_s` are monotonic."""

    last_round_s: float | None
    """When the last complete round ended, that is, all groups were read and the target has
    acknowledged their checkpoints. None before the first one."""
    started_s: float = 0.0
    """When the task started."""
    last_write_s: float | None = None
    """When group offsets were last compared and written on the target without a failure. None
    before the first time."""
    last_round_wall_ms: int | None = None
    """Wall clock time of `last_round_s`."""
    writes_offsets: bool = False
    """True if group offsets are written to the target."""
    group_count: int = 0
    """Number of groups with checkpoints."""
    find_groups: Callable[[str, int], GroupSearchResult] = field(repr=False)
    """Function that finds groups by a part of their name. Its arguments are the part of the name
    and the maximum number of groups. Thread-safe."""

    @property
    def is_waiting(self) -> bool:
        """True until checkpoints have been computed for all groups once and, if enabled, group
        offsets have been written once."""
        return self.last_round_s is None or (self.writes_offsets and self.last_write_s is None)

    @property
    def last_completed_s(self) -> float:
        """Time (monotonic) at which all work of the task was last complete. This is the earlier of
        the last pass over all groups and the last write of group offsets. If one of them has not
        happened yet, the start time of the task is used for it."""
        times = [self.last_round_s, *([self.last_write_s] if self.writes_offsets else [])]
        return min(self.started_s if each is None else each for each in times)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySnapshot:
    """All snapshots of the registry. `tasks`, `groups` and `latencies` are keyed by flow and task
    number.

    Latencies are separate from tasks because they change constantly, while the snapshot of an idle
    task remains the same object.
    """

    tasks: Mapping[str, Mapping[int, TaskSnapshot]] = field(default_factory=dict)
    connectors: Mapping[str, ConnectorSnapshot] = field(default_factory=dict)
    groups: Mapping[str, Mapping[int, CheckpointGroupsSnapshot]] = field(default_factory=dict)
    latencies: Mapping[str, Mapping[int, LatencySnapshot]] = field(default_factory=dict)


class SnapshotPublisher(Generic[SnapshotT]):
    """Publishes snapshots under one registry key. A later publisher with the same key replaces an
    earlier one."""

    def __init__(self, registry: _SnapshotPublishers[SnapshotT], key: Hashable) -> None:
        self._publishers = registry
        self._key = key

    def publish(self, snapshot: SnapshotT) -> None:
        self._publishers.publish(self._key, snapshot, by=self)

    def remove(self) -> None:
        self._publishers.remove(self._key, by=self)


class _SnapshotPublishers(Generic[SnapshotT]):
    """Snapshots of one kind (such as tasks) by key, with the publisher of each. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[Hashable, SnapshotPublisher[SnapshotT]] = {}
        self._snapshots: dict[Hashable, SnapshotT] = {}

    def create_publisher(self, key: Hashable) -> SnapshotPublisher[SnapshotT]:
        place = SnapshotPublisher(self, key)
        with self._lock:
            self._owners[key] = place
        return place

    def publish(self, key: Hashable, part: SnapshotT, *, by: SnapshotPublisher[SnapshotT]) -> None:
        with self._lock:
            if self._owners.get(key) is by:
                self._snapshots[key] = part

    def remove(self, key: Hashable, *, by: SnapshotPublisher[SnapshotT]) -> None:
        with self._lock:
            if self._owners.get(key) is by:
                del self._owners[key]
                self._snapshots.pop(key, None)

    def get_snapshots(self) -> dict[Hashable, SnapshotT]:
        with self._lock:
            return dict(self._snapshots)


class StatusRegistry:
    """Current snapshots of tasks, connectors, groups and latencies. Thread-safe.

    The owner of a publisher must call `SnapshotPublisher.remove` at the end, so that the registry
    does not grow without bound.
    """

    def __init__(self) -> None:
        self._tasks: _SnapshotPublishers[TaskSnapshot] = _SnapshotPublishers()
        self._connectors: _SnapshotPublishers[ConnectorSnapshot] = _SnapshotPublishers()
        self._groups: _SnapshotPublishers[CheckpointGroupsSnapshot] = _SnapshotPublishers()
        self._latencies: _SnapshotPublishers[LatencySnapshot] = _SnapshotPublishers()

    def create_task_publisher(self, flow: str, number: int) -> SnapshotPublisher[TaskSnapshot]:
        return self._tasks.create_publisher((flow, number))

    def create_connector_publisher(self, flow: str) -> SnapshotPublisher[ConnectorSnapshot]:
        return self._connectors.create_publisher(flow)

    def create_groups_publisher(
        self, flow: str, number: int
    ) -> SnapshotPublisher[CheckpointGroupsSnapshot]:
        """Create the publisher for a checkpoint task's groups."""
        return self._groups.create_publisher((flow, number))

    def create_latency_publisher(
        self, flow: str, number: int
    ) -> SnapshotPublisher[LatencySnapshot]:
        """Create the publisher for the latencies of a task's copy process."""
        return self._latencies.create_publisher((flow, number))

    def get_snapshot(self) -> RegistrySnapshot:
        """Return the current snapshots of all publishers."""
        connectors = {str(key): part for key, part in self._connectors.get_snapshots().items()}
        return RegistrySnapshot(
            tasks=_group_snapshots_by_task(self._tasks),
            connectors=connectors,
            groups=_group_snapshots_by_task(self._groups),
            latencies=_group_snapshots_by_task(self._latencies),
        )


def _group_snapshots_by_task(
    publishers: _SnapshotPublishers[SnapshotT],
) -> dict[str, dict[int, SnapshotT]]:
    by_flow: dict[str, dict[int, SnapshotT]] = {}
    for key, snapshot in publishers.get_snapshots().items():
        assert isinstance(key, tuple)
        flow, number = key
        by_flow.setdefault(flow, {})[number] = snapshot
    return by_flow


REGISTRY = StatusRegistry()
"""The registry of this process."""
