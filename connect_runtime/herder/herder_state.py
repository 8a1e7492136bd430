"""State of the herder between events, and the steps that the herder's procedures share.

A procedure (`HerderProcedure`) is a generator. It yields actions, receives the outcome of a
blocking action (None after a background action), and may yield `SleepUntil`. One procedure runs at
a time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder.herder_actions import (
    ConfigWrite,
    HerderAction,
    ReadConfigTopic,
    RejoinGroup,
    StartConnectorsAndTasks,
    StopConnectorsAndTasks,
    WriteConfigTopic,
)
from connect_runtime.herder.herder_events import (
    ActionFailed,
    ActionOutcome,
    ActionSucceeded,
    AssignmentReceived,
    ConnectorsAndTasksStarted,
    StoreSnapshot,
)
from connect_runtime.herder.herder_request_routing import RoutingState
from connect_runtime.herder.herder_requests import ReconfigureConnectorTasks, RequestQueue
from connect_runtime.herder.session_keys import SessionKeySettings
from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.cluster_config_state import ClusterConfigState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.config_topic import LoggerLevelSet

MAX_SYNC_ATTEMPTS = 5
"""Number of failed attempts to read the config topic after which a worker stops all work."""


@dataclass(frozen=True, slots=True)
class SleepUntil:
    """Suspend the procedure. Shutdown or coordinator loss interrupts the sleep."""

    until_s: float


T = TypeVar("T")
HerderProcedure: TypeAlias = Generator["HerderAction | SleepUntil", "ActionOutcome | None", T]


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderSettings:
    """Worker settings that the herder uses. Times are in seconds."""

    sync_timeout_s: float = 3.0
    sync_retry_backoff_s: float = 300.0
    rebalance_delay_max_s: float = 300.0
    topics_tracked: bool = True
    session_keys: SessionKeySettings = field(default_factory=SessionKeySettings)


@dataclass(slots=True)
class PendingConfigChanges:
    """Config topic changes that the herder has not handled yet.

    Invariant: a change is dropped only after the herder has handled it or a rebalance has made it
    irrelevant.
    """

    needs_rebalance: bool = False
    """True if a change requires a rebalance."""
    connectors: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    tasks: set[ConnectorTaskId] = field(default_factory=set)
    restarts: dict[str, RestartRequest] = field(default_factory=dict)
    levels: list[LoggerLevelSet] = field(default_factory=list)

    def has_config_changes(self) -> bool:
        return bool(self.needs_rebalance or self.connectors or self.states or self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedTaskConfigs:
    """Task configs that are being sent to the leader."""

    request: ReconfigureConnectorTasks


@dataclass(slots=True)
class HerderState:
    """State of the herder between events.

    Invariants: the tasks in `tasks_to_restart` are in `running`; if `is_joined` is True,
    `last_rebalance` is set and `has_left` is False.
    """

    settings: HerderSettings
    snapshot: StoreSnapshot
    stores_loaded: bool = False
    applied_config: ClusterConfigState = cluster_config_state.EMPTY_CONFIG_STATE
    """Configurations that this worker has applied or is applying. They can be older than
    `snapshot.config`."""
    is_config_topic_readable: bool = True
    """True if the last attempt to read the config topic to its end succeeded."""

    new_assignment: AssignmentReceived | None = None
    """A new assignment that the herder has not handled yet."""
    requested_stop: ConnectorsAndTasks | None = None
    """Connectors and tasks to stop before the rebalance that the group has requested; None once the
    herder has handled the group's request."""
    coordinator_loss: str | None = None
    """Reason why the coordinator was lost; None once the herder has handled the loss."""
    last_rebalance: AssignmentReceived | None = None
    """The last completed rebalance."""
    is_joined: bool = False
    """True if the assignment is valid: neither this worker nor the group has requested a newer
    rebalance."""
    has_left: bool = False
    """True if this worker left the group on its own initiative and must request to rejoin."""
    is_assignment_started: bool = False
    """True if the assigned work has been started."""
    was_leader: bool = False
    """True if this worker was the leader in the last assignment that it started."""
    rejoin_due_s: float | None = None
    """Monotonic time at which to rejoin, because the leader delayed the reassignment of a lost
    worker's items."""
    sync_attempts_left: int = MAX_SYNC_ATTEMPTS
    lost_write_privilege: bool = False
    """True if this worker cannot write to the config topic, because another worker has fenced it or
    its own attempt to fence other writers failed."""

    running: ConnectorsAndTasks = connectors_and_tasks.NO_WORK
    """Connectors and tasks that were started and have not been stopped since, including failed
    ones."""
    tasks_to_restart: set[ConnectorTaskId] = field(default_factory=set)
    """Tasks to restart after the next rebalance."""
    changes: PendingConfigChanges = field(default_factory=PendingConfigChanges)
    queue: RequestQueue = field(default_factory=RequestQueue)
    restart_tickets: dict[str, list[int]] = field(default_factory=dict)
    """Tickets of pending restart requests, by connector."""
    forwarded_task_configs: dict[int, ForwardedTaskConfigs] = field(default_factory=dict)
    last_forward_token: int = 0
    is_closing: bool = False

    @property
    def is_leader(self) -> bool:
        return self.last_rebalance is not None and self.last_rebalance.is_leader

    @property
    def leader_url(self) -> str | None:
        return (
            None
            if self.last_rebalance is None
            else self.last_rebalance.assignment.leader_url or None
        )

    @property
    def assigned_work(self) -> ConnectorsAndTasks:
        return (
            connectors_and_tasks.NO_WORK
            if self.last_rebalance is None
            else self.last_rebalance.assignment.assigned
        )

    @property
    def uses_eager_protocol(self) -> bool:
        return (
            self.last_rebalance is not None
            and self.last_rebalance.protocol is ConnectProtocol.EAGER
        )

    @property
    def signs_requests(self) -> bool:
        """True if the group's protocol signs internal requests."""
        return self.last_rebalance is not None and self.last_rebalance.protocol.signs_requests

    def build_routing_state(self) -> RoutingState:
        """Return the state on which request routing depends.

        It contains the latest configurations, which include the effects of earlier requests.
        """
        return RoutingState(
            config=self.snapshot.config,
            is_leader=self.is_leader,
            leader_url=self.leader_url,
            assigned=self.assigned_work,
            owners=None if self.last_rebalance is None else self.last_rebalance.owners,
            rebalance_pending=self.changes.needs_rebalance,
        )

    def check_invariants(self) -> None:
        assert not self.is_joined or self.last_rebalance is not None
        assert not (self.has_left and self.is_joined)
        assert not (self.has_left and self.new_assignment is not None), (
            "new_assignment must be None after this worker has left the group"
        )
        assert self.tasks_to_restart <= set(self.running.tasks), (
            self.tasks_to_restart,
            self.running,
        )
        assert 0 <= self.sync_attempts_left <= MAX_SYNC_ATTEMPTS, self.sync_attempts_left
        self.queue.check_invariants()


def request_group_rejoin(herder: HerderState, reason: str) -> HerderProcedure[None]:
    """Request a rebalance. From now on, the herder ignores the current assignment."""
    herder.is_joined = False
    herder.has_left = False
    yield RejoinGroup(reason)


def stop_connectors_and_tasks(
    herder: HerderState, items: ConnectorsAndTasks, *, for_good: bool = True
) -> HerderProcedure[None]:
    """Stop connectors and tasks.

    If `for_good` is True, also remove them from `running`, because they are no longer assigned to
    this worker.
    """
    if not items:
        return
    yield StopConnectorsAndTasks(items)
    if for_good:
        herder.running = herder.running.difference(items.items)
        herder.tasks_to_restart -= set(items.tasks)


def start_connectors_and_tasks(
    herder: HerderState, items: ConnectorsAndTasks
) -> HerderProcedure[ConnectorsAndTasksStarted]:
    """Start connectors and tasks."""
    if not items:
        return ConnectorsAndTasksStarted()
    outcome = yield StartConnectorsAndTasks(items)
    herder.running = herder.running.union(items)
    return (
        outcome if isinstance(outcome, ConnectorsAndTasksStarted) else ConnectorsAndTasksStarted()
    )


def read_config_topic(herder: HerderState) -> HerderProcedure[bool]:
    """Read the config topic to its end, and store the new configurations in `herder.config`. Return
    False on timeout."""
    outcome = yield ReadConfigTopic(herder.settings.sync_timeout_s)
    herder.is_config_topic_readable = isinstance(outcome, ActionSucceeded)
    if herder.is_config_topic_readable:
        herder.applied_config = herder.snapshot.config
    return herder.is_config_topic_readable


def write_to_config_topic(herder: HerderState, write: ConfigWrite) -> HerderProcedure[str | None]:
    """Write to the config topic. Return the reason if the write failed, otherwise None."""
    outcome = yield WriteConfigTopic(write)
    if isinstance(outcome, ActionFailed):
        herder.lost_write_privilege = herder.lost_write_privilege or outcome.is_fenced
        return outcome.reason
    return None
