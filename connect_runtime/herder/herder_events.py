"""Events of the herder: group events, config topic records, requests, outcomes of actions.

The herder decides which actions follow from an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connect_protocol import ConnectAssignment, ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks, WorkItem
from connect_runtime.group.leader_assignment import AssignmentOwners
from connect_runtime.herder.herder_requests import HerderRequest
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig, TargetState
from connect_runtime.storage.config_topic import ConfigChange
from connect_runtime.storage.status_topic import StatusSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSnapshot:
    """Time and store contents when an event is processed. Both are at least as new as the event."""

    now_s: float
    """Monotonic time in seconds."""
    wall_ms: int
    """Wall-clock time in milliseconds since the epoch."""
    config: ClusterConfigState
    statuses: StatusSnapshot


@dataclass(frozen=True, slots=True)
class StoresLoaded:
    """All stores have been read to their ends. This is the first event and is sent once."""


@dataclass(frozen=True, slots=True)
class HerderTick:
    """Wakes the herder for its next iteration. Must be sent no later than the time that
    `DistributedHerder.get_next_tick_s` returns."""


@dataclass(frozen=True, slots=True)
class ConfigRecordRead:
    """A config topic record was read. Sent in log order."""

    change: ConfigChange


# Group events


@dataclass(frozen=True, slots=True)
class JoinRequested:
    """The group is about to rebalance. The herder must stop the connectors and tasks in
    `items_to_stop`, then reply with `ConfirmJoinPrepared`."""

    items_to_stop: ConnectorsAndTasks


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentReceived:
    """A rebalance has completed with this assignment."""

    generation: int
    protocol: ConnectProtocol
    assignment: ConnectAssignment
    """`assigned` contains everything that this worker must run, including what is already
    running."""
    items_to_stop: ConnectorsAndTasks
    """Connectors and tasks to stop before any others are started."""
    is_leader: bool
    """True if this worker is the leader."""
    owners: AssignmentOwners | None = None
    """Worker that runs each connector and task; None if this worker is not the leader."""


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """The group had no coordinator for too long, so other workers may receive this worker's work
    (KAFKA-9184)."""

    reason: str


# Worker events


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStateReached:
    """A connector reached its requested target state, or failed to reach it."""

    connector: str
    state: TargetState
    error: str | None = None
    """Reason why the state was not reached, for example because a newer request replaced it."""


@dataclass(frozen=True, slots=True)
class TaskReconfigurationRequested:
    """A connector requests that its `task_configs` be called again."""

    connector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfigsForwarded:
    """The leader's response to forwarded task configs."""

    token: int
    error: str | None = None
    """None on success."""
    status: int | None = None
    """HTTP status of the leader's error response; None if the leader did not respond or accepted
    the task configs."""


# Requests


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSubmitted:
    """A request to the herder. If the request has a ticket, exactly one reply with this ticket
    follows."""

    ticket: int | None
    """Number that identifies the request in its reply. None for the herder's own requests, which
    receive no reply. A `RestartConnector` request without a ticket replaces an earlier one for the
    same connector."""
    request: HerderRequest
    delay_s: float = 0.0
    """Delay in seconds until the request is due."""


@dataclass(frozen=True, slots=True)
class HerderShutdownRequested:
    """Stop everything and leave the group. The last action will be `LeaveGroupPermanently`."""


# Outcomes of blocking actions


@dataclass(frozen=True, slots=True)
class ActionSucceeded:
    """The blocking action succeeded."""


@dataclass(frozen=True, slots=True)
class ActionTimedOut:
    """The blocking action exceeded its time limit. It may still complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFailed:
    """The blocking action failed."""

    reason: str
    is_fenced: bool = False
    """True if another worker has fenced this worker as a writer of the config topic."""
    is_permanent: bool = False
    """True if a retry cannot succeed."""


@dataclass(frozen=True, slots=True)
class ConnectorsAndTasksStarted:
    """Outcome of starting connectors and tasks."""

    failed: tuple[tuple[WorkItem, str], ...] = ()
    """Connectors and tasks that could not be created or no longer exist, each with the error. They
    still count as running on this worker. If an item could not be created, its status is FAILED."""


@dataclass(frozen=True, slots=True)
class RunningTasksReconfigured:
    """Outcome of passing new configs to running tasks."""

    to_restart: frozenset[ConnectorTaskId]
    """Tasks that must be restarted. All other tasks keep running."""


@dataclass(frozen=True, slots=True)
class ConnectorNotRunning:
    """The connector is not running on this worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfigsGenerated:
    """A connector returned its task configs."""

    configs: Sequence[RawConfig] = field(repr=False)
    """Task configs as written to the config topic, with the `${…}` references of the connector's
    configuration."""
    config_applied: bool
    """True if the running tasks were generated from the connector's current configuration."""


ActionOutcome: TypeAlias = (
    ActionSucceeded
    | ActionTimedOut
    | ActionFailed
    | ConnectorsAndTasksStarted
    | RunningTasksReconfigured
    | ConnectorNotRunning
    | TaskConfigsGenerated
)


@dataclass(frozen=True, slots=True)
class ActionCompleted:
    """The blocking action that was in progress has completed with this outcome."""

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
