"""Events of the herder: group events, config topic records, requests, outcomes of actions.

Each event is a fact; the herder decides what follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connect_protocol import ConnectAssignment, ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks, WorkItem
from connect_runtime.group.rebalance_rounds import AssignmentOwners
from connect_runtime.herder.herder_requests import HerderRequest
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig, TargetState
from connect_runtime.storage.config_topic import ConfigChange
from connect_runtime.storage.status_topic import StatusSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSnapshot:
    """What can be seen at the moment of an event, told along with each.

    `config` and `statuses` are the stores' newest views: at least as new as the event.
    """

    now_s: float
    wall_ms: int
    config: ClusterConfigState
    statuses: StatusSnapshot


@dataclass(frozen=True, slots=True)
class StoresLoaded:
    """The stores are read to their ends as of the start; to be told once, first."""


@dataclass(frozen=True, slots=True)
class HerderTick:
    """Nothing but that; to be told at the latest when `wake_at_s` says."""


@dataclass(frozen=True, slots=True)
class ConfigRecordRead:
    """A record of the config topic was read, in their order."""

    change: ConfigChange


# From the group


@dataclass(frozen=True, slots=True)
class JoinRequested:
    """The group is to be joined (again): `Prepared` is awaited, after `stop` has stopped."""

    stop: ConnectorsAndTasks


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentReceived:
    """The group is joined.

    `assignment.assigned` is all that this worker is to run, what it ran before included; `stop` is
    to be stopped first. `leads` says whether this worker does; `owners` then who runs what.
    """

    generation: int
    speaks: ConnectProtocol
    assignment: ConnectAssignment
    stop: ConnectorsAndTasks
    leads: bool
    owners: AssignmentOwners | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """No coordinator, for too long: others may be given this worker's work (KAFKA-9184)."""

    reason: str


# From the worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStateReached:
    """A connector that was started, or set to another target state, is there.

    Or it is not, then `error` says why; one that was overtaken by a later wish has that for one.
    """

    connector: str
    state: TargetState
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TaskReconfigurationRequested:
    """The connector says that its task configs would be others now."""

    connector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfigsForwarded:
    """What the leader said: `error` None for well done, else with its HTTP status if it had one."""

    token: int
    error: str | None = None
    status: int | None = None


# From askers


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSubmitted:
    """Somebody asks; exactly one answer with this ticket follows. Due after `delay_s`.

    Without a ticket nobody is answered; of restarts of one connector only the last then counts.
    """

    ticket: int | None
    request: HerderRequest
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class HerderShutdownRequested:
    """Stop everything, leave the group, end. The last order will be `Close`."""


# Answers to questions


@dataclass(frozen=True, slots=True)
class ActionDone:
    """It is."""


@dataclass(frozen=True, slots=True)
class ActionTimedOut:
    """It was not done in time, and may yet be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFailed:
    """It did not work; `fenced`, `lasting`: as the question says."""

    reason: str
    fenced: bool = False
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class WorkStarted:
    """All were begun but these: connectors and tasks with what was wrong.

    Where something is wrong with the thing itself its status is FAILED, and it waits for somebody
    to act; it counts as running here, all the same.
    """

    failed: tuple[tuple[WorkItem, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TaskConfigsOffered:
    """All go on but these, which must be stopped and started anew."""

    left: frozenset[ConnectorTaskId]


@dataclass(frozen=True, slots=True)
class ConnectorNotRunning:
    """The connector does not run here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfigsGenerated:
    """Task configs as they are written: with `${…}` where the connector's configuration had it.

    `config_applied`: see `task_configs.changed`.
    """

    configs: Sequence[RawConfig] = field(repr=False)
    config_applied: bool


ActionOutcome: TypeAlias = (
    ActionDone
    | ActionTimedOut
    | ActionFailed
    | WorkStarted
    | TaskConfigsOffered
    | ConnectorNotRunning
    | TaskConfigsGenerated
)


@dataclass(frozen=True, slots=True)
class ActionCompleted:
    """The outstanding question has this outcome."""

    outcome: ActionOutcome


HerderEvent: TypeAlias = (
    StoresLoaded
    | HerderTick
    | ConfigRecordRead
    | JoinRequested
    | AssignmentReceived
    | CoordinatorLost
    | ConnectorStateReached
    | TaskReconfigurationRequested
    | TaskConfigsForwarded
    | RequestSubmitted
    | HerderShutdownRequested
    | ActionCompleted
)
