"""State of the herder between events, and the steps that its procedures share.

A procedure (`HerderScript`) is a generator: it yields actions, receives the outcome of a blocking
action (None after a background action), and may yield `SleepUntil`. One procedure runs at a time.
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
    ActionDone,
    ActionFailed,
    ActionOutcome,
    AssignmentReceived,
    EventSnapshot,
    WorkStarted,
)
from connect_runtime.herder.herder_requests import ReconfigureConnectorTasks, RequestQueue
from connect_runtime.herder.request_routing import RoutingState
from connect_runtime.herder.session_keys import SessionKeySettings
from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.cluster_config_state import ClusterConfigState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.config_topic import LoggerLevelSet

MAX_SYNC_ATTEMPTS = 5
"""Failed reads of the config topic after which a worker stops all work."""


@dataclass(frozen=True, slots=True)
class SleepUntil:
    """Suspend the procedure; shutdown or a lost coordinator interrupts the sleep."""

    until_s: float


T = TypeVar("T")
HerderScript: TypeAlias = Generator["HerderAction | SleepUntil", "ActionOutcome | None", T]


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderSettings:
    """The worker settings that the herder uses; times are in seconds."""

    sync_timeout_s: float = 3.0
    unsync_backoff_s: float = 300.0
    rebalance_delay_max_s: float = 300.0
    topics_tracked: bool = True
    session_keys: SessionKeySettings = field(default_factory=SessionKeySettings)


@dataclass(slots=True)
class PendingConfigChanges:
    """Changes read from the config topic that no tick has handled yet.

    Invariant: a change is dropped only after it was handled or a rebalance made it irrelevant.
    """

    rebalance: bool = False
    """True if a change requires a rebalance."""
    connectors: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    tasks: set[ConnectorTaskId] = field(default_factory=set)
    restarts: dict[str, RestartRequest] = field(default_factory=dict)
    levels: list[LoggerLevelSet] = field(default_factory=list)

    def any_configs(self) -> bool:
        return bool(self.rebalance or self.connectors or self.states or self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedTaskConfigs:
    """Task configs that are being sent to the leader."""

    request: ReconfigureConnectorTasks


@dataclass(slots=True)
class HerderState:
    """State of the herder between events.

    Invariants: `to_restart` is part of `running`; `joined` implies a `round`; `left` excludes
    `joined`.
    """

    settings: HerderSettings
    seen: EventSnapshot
    begun: bool = False
    config: ClusterConfigState = cluster_config_state.EMPTY_CONFIG_STATE
    """The configurations that this worker acts on; updated when it can apply the differences."""
    can_read: bool = True
    """Whether the last attempt to read the config topic to its end succeeded."""

    arrived: AssignmentReceived | None = None
    """A new assignment that no tick has handled yet."""
    join_asked: ConnectorsAndTasks | None = None
    """Items to stop for a requested rebalance that no tick has handled yet."""
    lost: str | None = None
    """Why the coordinator was lost, until a tick has handled it."""
    round: AssignmentReceived | None = None
    """The last completed rebalance."""
    joined: bool = False
    """True if the assignment is valid: no newer rebalance was requested by this worker or the
    group."""
    left: bool = False
    """True if this worker left the group by itself and must request to rejoin."""
    resolved: bool = False
    """True if the assigned work has been started."""
    led_before: bool = False
    """Whether this worker was the leader in the last assignment that it started."""
    due_s: float | None = None
    """When to rejoin, because the leader delayed the reassignment of a lost worker's items."""
    tries_left: int = MAX_SYNC_ATTEMPTS
    write_lost: bool = False
    """True if this worker cannot write to the config topic, because it is or was never the
    fencing leader."""

    running: ConnectorsAndTasks = connectors_and_tasks.NO_WORK
    """Items that were started and not stopped since, failed ones included."""
    to_restart: set[ConnectorTaskId] = field(default_factory=set)
    """Tasks to restart after the next rebalance."""
    changes: PendingConfigChanges = field(default_factory=PendingConfigChanges)
    queue: RequestQueue = field(default_factory=RequestQueue)
    restarting: dict[str, list[int]] = field(default_factory=dict)
    """Tickets that wait for a connector to restart."""
    forwarded: dict[int, ForwardedTaskConfigs] = field(default_factory=dict)
    last_token: int = 0
    closing: bool = False

    @property
    def leads(self) -> bool:
        return self.round is not None and self.round.leads

    @property
    def leader_url(self) -> str | None:
        return None if self.round is None else self.round.assignment.leader_url or None

    @property
    def assigned(self) -> ConnectorsAndTasks:
        return (
            connectors_and_tasks.NO_WORK if self.round is None else self.round.assignment.assigned
        )

    @property
    def eager(self) -> bool:
        return self.round is not None and self.round.speaks is ConnectProtocol.EAGER

    @property
    def signs(self) -> bool:
        """Whether the group's protocol signs internal requests."""
        return self.round is not None and self.round.speaks is ConnectProtocol.SESSIONED

    def standing(self) -> RoutingState:
        """Return the routing state, with the newest configurations, so that earlier requests
        count."""
        return RoutingState(
            config=self.seen.config,
            leads=self.leads,
            leader_url=self.leader_url,
            assigned=self.assigned,
            owners=None if self.round is None else self.round.owners,
            rebalance_pending=self.changes.rebalance,
        )

    def check_invariants(self) -> None:
        assert not self.joined or self.round is not None
        assert not (self.left and self.joined)
        assert not (self.left and self.arrived is not None), "assignment of a group it has left"
        assert self.to_restart <= set(self.running.tasks), (self.to_restart, self.running)
        assert 0 <= self.tries_left <= MAX_SYNC_ATTEMPTS, self.tries_left
        self.queue.check_invariants()


def rejoin_group(herder: HerderState, reason: str) -> HerderScript[None]:
    """Request a rebalance; the current assignment is no longer acted on."""
    herder.joined = False
    herder.left = False
    yield RejoinGroup(reason)


def stop_items(
    herder: HerderState, what: ConnectorsAndTasks, *, for_good: bool = True
) -> HerderScript[None]:
    """Stop connectors and tasks.

    With `for_good` they also leave `running`, because they are no longer this worker's.
    """
    if not what:
        return
    yield StopConnectorsAndTasks(what)
    if for_good:
        herder.running = herder.running.without(what.items)
        herder.to_restart -= set(what.tasks)


def start_items(herder: HerderState, what: ConnectorsAndTasks) -> HerderScript[WorkStarted]:
    """Start connectors and tasks."""
    if not what:
        return WorkStarted()
    outcome = yield StartConnectorsAndTasks(what)
    herder.running = herder.running.then(what)
    return outcome if isinstance(outcome, WorkStarted) else WorkStarted()


def read_config_topic(herder: HerderState) -> HerderScript[bool]:
    """Read the config topic to its end and use its configurations; returns False if it timed
    out."""
    outcome = yield ReadConfigTopic(herder.settings.sync_timeout_s)
    herder.can_read = isinstance(outcome, ActionDone)
    if herder.can_read:
        herder.config = herder.seen.config
    return herder.can_read


def write_config(herder: HerderState, what: ConfigWrite) -> HerderScript[str | None]:
    """Write to the config topic; returns the reason if it failed, otherwise None."""
    outcome = yield WriteConfigTopic(what)
    if isinstance(outcome, ActionFailed):
        herder.write_lost = herder.write_lost or outcome.fenced
        return outcome.reason
    return None
