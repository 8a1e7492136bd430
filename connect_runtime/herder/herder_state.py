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


@dataclass(frozen=True, slots=True)
class SleepUntil:
    """Do nothing more of this script until then; the end of everything interrupts it."""

    until_s: float


T = TypeVar("T")
HerderScript: TypeAlias = Generator["HerderAction | SleepUntil", "ActionOutcome | None", T]


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderSettings:
    """The worker's settings that the herder decides by, in seconds where they are times."""

    sync_timeout_s: float = 3.0
    unsync_backoff_s: float = 300.0
    rebalance_delay_max_s: float = 300.0
    topics_tracked: bool = True
    session_keys: SessionKeySettings = field(default_factory=SessionKeySettings)


@dataclass(slots=True)
class PendingConfigChanges:
    """What the config topic brought and nobody has acted on yet.

    Invariant: nothing here is forgotten before it was acted on, or made moot by a rebalance.
    """

    rebalance: bool = False
    connectors: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    tasks: set[ConnectorTaskId] = field(default_factory=set)
    restarts: dict[str, RestartRequest] = field(default_factory=dict)
    levels: list[LoggerLevelSet] = field(default_factory=list)

    def any_configs(self) -> bool:
        return bool(self.rebalance or self.connectors or self.states or self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedTaskConfigs:
    """Task configs that are on their way to the leader."""

    request: ReconfigureConnectorTasks


@dataclass(slots=True)
class HerderState:
    """Invariants: `running` is what was begun and not stopped since, started well or not;
    `to_restart` is part of it; `joined` only with a `round`; `left` only without being joined."""

    settings: HerderSettings
    seen: EventSnapshot
    begun: bool = False
    config: ClusterConfigState = cluster_config_state.EMPTY_CONFIG_STATE
    """What this worker acts by: taken up when it can act on the difference."""
    can_read: bool = True
    """Whether the last attempt to read the config topic to its end succeeded."""

    arrived: AssignmentReceived | None = None
    """A round that was not taken up yet."""
    join_asked: ConnectorsAndTasks | None = None
    lost: str | None = None
    round: AssignmentReceived | None = None
    joined: bool = False
    """The round stands: no other was asked for, by us or by the group."""
    left: bool = False
    """This worker left the group of its own accord, and must ask to be a member again."""
    resolved: bool = False
    """What the round brought is begun."""
    led_before: bool = False
    """Whether this worker led by the last round whose work was begun."""
    due_s: float | None = None
    """When the group is to meet again, because the leader waits for a lost worker."""
    tries_left: int = MAX_SYNC_ATTEMPTS
    write_lost: bool = False
    """The privilege to write the config topic is lost, or was never gained."""

    running: ConnectorsAndTasks = connectors_and_tasks.NO_WORK
    to_restart: set[ConnectorTaskId] = field(default_factory=set)
    changes: PendingConfigChanges = field(default_factory=PendingConfigChanges)
    queue: RequestQueue = field(default_factory=RequestQueue)
    restarting: dict[str, list[int]] = field(default_factory=dict)
    """Who waits for a connector to be started again."""
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
        """Whether internal requests are signed, in this round."""
        return self.round is not None and self.round.speaks is ConnectProtocol.SESSIONED

    def standing(self) -> RoutingState:
        """Requests are judged by the newest configurations: what the one before wrote counts."""
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
        assert not (self.left and self.arrived is not None), "a round of a group it has left"
        assert self.to_restart <= set(self.running.tasks), (self.to_restart, self.running)
        assert 0 <= self.tries_left <= MAX_SYNC_ATTEMPTS, self.tries_left
        self.queue.check_invariants()


def rejoin_group(memory: HerderState, reason: str) -> HerderScript[None]:
    """Ask for another round; until it comes, nothing is decided by this one."""
    memory.joined = False
    memory.left = False
    yield RejoinGroup(reason)


def stop_items(
    memory: HerderState, what: ConnectorsAndTasks, *, for_good: bool = True
) -> HerderScript[None]:
    """Stop it; `for_good`: it is not this worker's any more, as far as it knows."""
    if not what:
        return
    yield StopConnectorsAndTasks(what)
    if for_good:
        memory.running = memory.running.without(what.items)
        memory.to_restart -= set(what.tasks)


def start_items(memory: HerderState, what: ConnectorsAndTasks) -> HerderScript[WorkStarted]:
    if not what:
        return WorkStarted()
    outcome = yield StartConnectorsAndTasks(what)
    memory.running = memory.running.then(what)
    return outcome if isinstance(outcome, WorkStarted) else WorkStarted()


def read_config_topic(memory: HerderState) -> HerderScript[bool]:
    """Read the config topic to its end, and act by what is there from now on."""
    outcome = yield ReadConfigTopic(memory.settings.sync_timeout_s)
    memory.can_read = isinstance(outcome, ActionDone)
    if memory.can_read:
        memory.config = memory.seen.config
    return memory.can_read


def write_config(memory: HerderState, what: ConfigWrite) -> HerderScript[str | None]:
    """Write to the config topic; why not, if it did not work."""
    outcome = yield WriteConfigTopic(what)
    if isinstance(outcome, ActionFailed):
        memory.write_lost = memory.write_lost or outcome.fenced
        return outcome.reason
    return None
