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
    """Time and state of the stores at an event; both are at least as new as the event."""

    now_s: float
    """Monotonic time."""
    wall_ms: int
    """Wall-clock time."""
    config: ClusterConfigState
    statuses: StatusSnapshot


@dataclass(frozen=True, slots=True)
class StoresLoaded:
    """All stores were read to their ends; the first event, sent once."""


@dataclass(frozen=True, slots=True)
class HerderTick:
    """Time has passed; sent when `next_tick_s` is reached or earlier."""


@dataclass(frozen=True, slots=True)
class ConfigRecordRead:
    """A record of the config topic was read; sent in log order."""

    change: ConfigChange


# Group events


@dataclass(frozen=True, slots=True)
class JoinRequested:
    """The group is about to rebalance: stop these items, then reply with `ConfirmJoinPrepared`."""

    items_to_stop: ConnectorsAndTasks


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentReceived:
    """A rebalance has completed with this assignment."""

    generation: int
    protocol: ConnectProtocol
    assignment: ConnectAssignment
    """`assigned` is everything that this worker must run, including what it already runs."""
    items_to_stop: ConnectorsAndTasks
    """Items to stop before starting others."""
    is_leader: bool
    """True if this worker is the leader."""
    owners: AssignmentOwners | None = None
    """Owner of each item; known to the leader only."""


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """The group had no coordinator for too long, so others may receive this worker's work
    (KAFKA-9184)."""

    reason: str


# Worker events


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStateReached:
    """A connector reached the target state it was started in or set to, or failed to."""

    connector: str
    state: TargetState
    error: str | None = None
    """Why the state was not reached, including that a newer request replaced it."""


@dataclass(frozen=True, slots=True)
class TaskReconfigurationRequested:
    """A connector requests a new call of `task_configs`."""

    connector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfigsForwarded:
    """The leader's response to forwarded task configs."""

    token: int
    error: str | None = None
    """None on success."""
    status: int | None = None
    """HTTP status of the error, if the leader responded."""


# Requests


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSubmitted:
    """A request to the herder. Exactly one reply with its ticket follows."""

    ticket: int | None
    """None for the herder's own requests, which get no reply; a newer restart replaces an older
    one."""
    request: HerderRequest
    delay_s: float = 0.0
    """Delay until the request is due."""


@dataclass(frozen=True, slots=True)
class HerderShutdownRequested:
    """Stop everything and leave the group; the last action will be `CloseGroup`."""


# Outcomes of blocking actions


@dataclass(frozen=True, slots=True)
class ActionDone:
    """The action succeeded."""


@dataclass(frozen=True, slots=True)
class ActionTimedOut:
    """The action exceeded its time limit; it may still complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFailed:
    """The action failed."""

    reason: str
    is_fenced: bool = False
    """True if another worker has fenced this one as a writer of the config topic."""
    is_permanent: bool = False
    """True if a retry cannot succeed."""


@dataclass(frozen=True, slots=True)
class WorkStarted:
    """Outcome of a start."""

    failed: tuple[tuple[WorkItem, str], ...] = ()
    """Items that could not be created, with the error.

    An item that itself is at fault has the status FAILED and still counts as running on this
    worker.
    """


@dataclass(frozen=True, slots=True)
class TaskConfigsOffered:
    """Outcome of offering new configs to tasks."""

    to_restart: frozenset[ConnectorTaskId]
    """Tasks that must be restarted; all others keep running."""


@dataclass(frozen=True, slots=True)
class ConnectorNotRunning:
    """The connector does not run on this worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfigsGenerated:
    """A connector returned its task configs."""

    configs: Sequence[RawConfig] = field(repr=False)
    """As written, with `${…}` references as in the connector's configuration."""
    config_applied: bool
    """True if the running tasks were generated from the same connector configuration."""


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
    """The blocking action in progress has this outcome."""

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
