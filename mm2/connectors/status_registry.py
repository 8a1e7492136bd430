"""Thread-safe registry of what runs in this process, for tables, metrics and commands.

Every task and connector publishes its own frozen snapshot, which is replaced as a whole; an
unchanged snapshot is the same object. Flows are keyed by `Flow.name`. `FlowStatus` and its
parts are the status types that status, metrics and UI read.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from connect_runtime.base.ids import TopicPartition
from mm2.config import operator_overrides
from mm2.config.operator_overrides import OperatorOverrides
from mm2.formats.mm2_records import Checkpoint
from mm2.replication import latency
from mm2.replication.latency import LatencySnapshot

COPYING_PHASES = frozenset({"copying", "boundary"})
"""Phases in which what is said about the source is news of now."""


class FlowState(enum.Enum):
    """PLANNING until both clusters have answered and its tasks are assigned, or while `reason`
    keeps it from that. STOPPED: by an operator, until `mm2 resume`, or with its process."""

    PLANNING = "PLANNING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


class TaskState(enum.Enum):
    """Of a task and its copy. RUNNING only after the copy's first report; FAILED, it has none."""

    STARTING = "STARTING"
    WAITING_FOR_SLOT = "WAITING_FOR_SLOT"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One source partition. Offsets are -1 while unknown; `records` and `bytes` since the start.

    `phase` is the copy's word for where it stands; `lag_records` an upper bound where the source's
    log has gaps; `age_ms` is how old the newest copied record was when its copy was acknowledged;
    `opened` why its batch was not passed through as it is, "" when it was. Not `fenced`, it is
    copied at least once. Of `batches` acknowledged since the start, `made` were not passed;
    `spared` records stood on the target already. `newest_ms` and `unrecorded_s` as in
    `messages.Gauge`.
    """

    partition: TopicPartition
    task: int
    phase: str
    reason: str
    cause: str
    records: int
    bytes: int
    copied_to: int
    source_end: int
    age_ms: int
    oldest_ms: int
    transactional: bool
    opened: str = ""
    fenced: bool = True
    batches: int = 0
    made: int = 0
    spared: int = 0
    newest_ms: int = -1
    unrecorded_s: float | None = None

    def lag_s(self, wall_ms: int) -> float | None:
        """Age of the oldest record not copied; 0 when there is none, never negative; None also
        where it lies in the future, as after a step of the clock."""
        if self.oldest_ms >= 0:
            age_ms = latency.compute_age_ms(self.oldest_ms, wall_ms)
            return None if age_ms is None else age_ms / 1000.0
        return 0.0 if self.lag_records == 0 else None

    @property
    def lag_records(self) -> int | None:
        if self.source_end < 0 or self.copied_to < 0:
            return None
        return max(0, self.source_end - self.copied_to)

    @property
    def stopped(self) -> bool:
        return self.phase in ("stopped", "fenced")


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentCount:
    """`kind` as in `incident.IncidentKind`."""

    topic: str
    kind: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """`incidents` and `restarts` since the start: of this `life`, as all that its partitions tell.

    Whatever makes a task count from nothing again gives it a life that no task of this process had
    before; 0 while it counts nothing.
    """

    index: int
    state: TaskState
    reason: str
    restarts: int
    incidents: tuple[IncidentCount, ...] = ()
    life: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlacement:
    """A task of the flow, on whichever node; what the group's topics say of it.

    `state` is Connect's word, "" where nobody has said anything; `node` the worker's `host:port`.
    """

    number: int
    state: str
    node: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatus:
    """`slots_missing`: how many Spark slots its tasks wait for. `fencing`: the command that lets
    those partitions be fenced that should be and are not, "" while there are none. `elsewhere`
    counts partitions of tasks that do not run here, or not yet. `wanted`: how many its connector
    has handed out, on whichever node, None where it does not run here, or does not know yet.
    `places` are all tasks of the group, `warnings` what the flow's topics are mirrored in spite of.
    `checkpoint_tasks`: how many of those that make checkpoints this node is given.
    """

    flow: str
    state: FlowState
    reason: str
    tasks: tuple[TaskStatus, ...] = ()
    partitions: tuple[PartitionStatus, ...] = ()
    slots_missing: int = 0
    fencing: str = ""
    elsewhere: int = 0
    wanted: int | None = None
    holds: OperatorOverrides = operator_overrides.NO_OVERRIDES
    places: tuple[TaskPlacement, ...] = ()
    warnings: tuple[str, ...] = ()
    checkpoint_tasks: int = 0

    @property
    def final(self) -> bool:
        """Does it not run again in this process? What an operator stopped can be resumed."""
        stopped = self.state is FlowState.STOPPED and not self.holds.stopped
        return stopped or self.state is FlowState.FAILED

    @property
    def copies_here(self) -> bool:
        """Has this node anything of it to copy?"""
        return bool(self.tasks) or any(each.task >= 0 for each in self.partitions)

    @property
    def empty(self) -> bool:
        """Is it known to have nothing to copy, on whichever node?"""
        nothing = not self.partitions and not self.elsewhere
        return self.state is FlowState.RUNNING and nothing

    @property
    def all_move(self) -> bool:
        """Is everything that this node has of it being copied right now?"""
        return all(each.state is TaskState.RUNNING for each in self.tasks) and all(
            each.phase in COPYING_PHASES for each in self.partitions if each.task >= 0
        )


SnapshotT = TypeVar("SnapshotT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSnapshot:
    """One task: `partitions` are all that are assigned to it, those that it must not copy too.

    `slots_missing` and `fencing` as in `FlowStatus`. `props`: its configuration.
    `beside_java`: what is less safe while workers of Java run tasks of the flow; "": none do.
    """

    status: TaskStatus
    partitions: tuple[PartitionStatus, ...] = ()
    slots_missing: int = 0
    fencing: str = ""
    beside_java: str = ""
    props: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorSnapshot:
    """The connector of a flow, on the worker that runs it.

    `planned`: both clusters have answered, and tasks could be handed out; until then `reason` says
    what it waits for. `findings` are partitions that no task is given (their task is -1);
    `copyable` counts those that tasks are given, on whichever worker. `props`: its configuration.
    `warnings` are lines for people: topics are mirrored in spite of that.
    """

    planned: bool
    reason: str = ""
    copyable: int = 0
    props: Mapping[str, str] = field(default_factory=dict, repr=False)
    findings: tuple[PartitionStatus, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSearchResult:
    """Of `known` groups `matching` were asked for; `groups` are the first of these, by name, with
    the checkpoints that stand."""

    known: int
    matching: int
    groups: Mapping[str, Sequence[Checkpoint]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointGroupsSnapshot:
    """What a task that makes checkpoints knows of its groups.

    `since_s`: when it began to wait for its first round; `round_s`: when it was through with all of
    them last, could read them all, and the target has acknowledged their checkpoints since, None
    before it was; `written_s`: when the offsets of all of them were last compared and written on
    the target, and none was refused, where it `writes` these. All on the monotonic clock;
    `round_ms` is `round_s` for people, on the wall clock. `groups` have checkpoints. `find` looks
    for so many groups with that text in their name; any thread may ask.
    """

    round_s: float | None
    since_s: float = 0.0
    written_s: float | None = None
    round_ms: int | None = None
    writes: bool = False
    groups: int = 0
    find: Callable[[str, int], GroupSearchResult] = field(repr=False)

    @property
    def waits(self) -> bool:
        """Is something of it still to be done for the first time?"""
        return self.round_s is None or (self.writes and self.written_s is None)

    @property
    def done_s(self) -> float:
        """When whichever of both is longer ago was done; what waits, since when."""
        times = [self.round_s, *([self.written_s] if self.writes else [])]
        return min(self.since_s if each is None else each for each in times)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySnapshot:
    """`tasks`, `pulses` of their copies, and `groups` by flow and number. A pulse is no part of a
    task: it moves all the time, and a task that rests stays the same object."""

    tasks: Mapping[str, Mapping[int, TaskSnapshot]] = field(default_factory=dict)
    connectors: Mapping[str, ConnectorSnapshot] = field(default_factory=dict)
    groups: Mapping[str, Mapping[int, CheckpointGroupsSnapshot]] = field(default_factory=dict)
    pulses: Mapping[str, Mapping[int, LatencySnapshot]] = field(default_factory=dict)


class SnapshotPublisher(Generic[SnapshotT]):
    """One owner's place on the board. Who comes later to the same place has it from then on."""

    def __init__(self, places: _SnapshotPublishers[SnapshotT], key: Hashable) -> None:
        self._places = places
        self._key = key

    def put(self, part: SnapshotT) -> None:
        self._places.put(self._key, part, by=self)

    def leave(self) -> None:
        self._places.leave(self._key, by=self)


class _SnapshotPublishers(Generic[SnapshotT]):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[Hashable, SnapshotPublisher[SnapshotT]] = {}
        self._parts: dict[Hashable, SnapshotT] = {}

    def take(self, key: Hashable) -> SnapshotPublisher[SnapshotT]:
        place = SnapshotPublisher(self, key)
        with self._lock:
            self._owners[key] = place
        return place

    def put(self, key: Hashable, part: SnapshotT, *, by: SnapshotPublisher[SnapshotT]) -> None:
        with self._lock:
            if self._owners.get(key) is by:
                self._parts[key] = part

    def leave(self, key: Hashable, *, by: SnapshotPublisher[SnapshotT]) -> None:
        with self._lock:
            if self._owners.get(key) is by:
                del self._owners[key]
                self._parts.pop(key, None)

    def parts(self) -> dict[Hashable, SnapshotT]:
        with self._lock:
            return dict(self._parts)


class StatusRegistry:
    """Safe from any thread. Bounded by what runs: whoever ends leaves its place."""

    def __init__(self) -> None:
        self._tasks: _SnapshotPublishers[TaskSnapshot] = _SnapshotPublishers()
        self._connectors: _SnapshotPublishers[ConnectorSnapshot] = _SnapshotPublishers()
        self._groups: _SnapshotPublishers[CheckpointGroupsSnapshot] = _SnapshotPublishers()
        self._pulses: _SnapshotPublishers[LatencySnapshot] = _SnapshotPublishers()

    def task(self, flow: str, number: int) -> SnapshotPublisher[TaskSnapshot]:
        return self._tasks.take((flow, number))

    def connector(self, flow: str) -> SnapshotPublisher[ConnectorSnapshot]:
        return self._connectors.take(flow)

    def groups(self, flow: str, number: int) -> SnapshotPublisher[CheckpointGroupsSnapshot]:
        """Of the task that makes checkpoints."""
        return self._groups.take((flow, number))

    def pulse(self, flow: str, number: int) -> SnapshotPublisher[LatencySnapshot]:
        """Of the task's copy."""
        return self._pulses.take((flow, number))

    def seen(self) -> RegistrySnapshot:
        """All parts as they are now."""
        connectors = {str(key): part for key, part in self._connectors.parts().items()}
        return RegistrySnapshot(
            tasks=_group_by_task(self._tasks),
            connectors=connectors,
            groups=_group_by_task(self._groups),
            pulses=_group_by_task(self._pulses),
        )


def _group_by_task(places: _SnapshotPublishers[SnapshotT]) -> dict[str, dict[int, SnapshotT]]:
    found: dict[str, dict[int, SnapshotT]] = {}
    for key, part in places.parts().items():
        assert isinstance(key, tuple)
        flow, number = key
        found.setdefault(flow, {})[number] = part
    return found


REGISTRY = StatusRegistry()
"""This process's."""
