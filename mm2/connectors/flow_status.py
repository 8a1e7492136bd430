"""What a flow looks like from outside: a frozen snapshot for tables, metrics and commands."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from connect_runtime.base import ids
from mm2.core import holds as holding
from mm2.core.copy import ages

MOVING = frozenset({"copying", "boundary"})
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

    partition: ids.TopicPartition
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
            age_ms = ages.age_ms(self.oldest_ms, wall_ms)
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
class ReceiptCount:
    """`kind` as in `receipt.ReceiptKind`."""

    topic: str
    kind: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """`receipts` and `restarts` since the start: of this `life`, as all that its partitions tell.

    Whatever makes a task count from nothing again gives it a life that no task of this process had
    before; 0 while it counts nothing.
    """

    index: int
    state: TaskState
    reason: str
    restarts: int
    receipts: tuple[ReceiptCount, ...] = ()
    life: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlace:
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
    holds: holding.Holds = holding.NOTHING
    places: tuple[TaskPlace, ...] = ()
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
            each.phase in MOVING for each in self.partitions if each.task >= 0
        )
