"""`StandaloneGroup`: the group of a standalone worker, which has one member and needs no brokers.

The worker leads every rebalance and is assigned everything that is configured. Nothing is signed,
because there are no other members. Generations are counted all the same, so that a status of an
earlier generation never replaces a later one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect_runtime.base.timing import Clock
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connect_protocol import ConnectAssignment, ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks, WorkItem
from connect_runtime.group.rebalance_rounds import AssignmentOwners
from connect_runtime.herder.group_interface import GetConfiguredWork, GroupEvent, OnGroupEvent
from connect_runtime.herder.herder_actions import (
    BackgroundAction,
    CloseGroup,
    ConfirmJoinPrepared,
    LeaveGroup,
    RejoinGroup,
    RevokeAssignment,
)
from connect_runtime.herder.herder_events import AssignmentReceived, HerderEvent, JoinRequested
from connect_runtime.storage.cluster_config_state import ClusterConfigState


@dataclass(slots=True, kw_only=True)
class StandaloneGroupMachine:
    """`url` is where this worker answers. Events must reach the herder in the order given."""

    url: str
    _running: ConnectorsAndTasks = connectors_and_tasks.NO_WORK
    _generation: int = 0
    _closed: bool = False

    def begin(self) -> list[HerderEvent]:
        """To be told after `Begun`."""
        return [JoinRequested(connectors_and_tasks.NO_WORK)]

    def obey(self, order: BackgroundAction, config: ClusterConfigState) -> list[HerderEvent]:
        """What a group would come back with; nothing for orders that are not for a group.

        `config` is the newest view.
        """
        if self._closed:
            return []
        match order:
            case RejoinGroup():
                return [JoinRequested(connectors_and_tasks.NO_WORK)]
            case ConfirmJoinPrepared():
                return [self._round(config)]
            case RevokeAssignment():
                self._running = connectors_and_tasks.NO_WORK
            case CloseGroup():
                self._closed = True
        return []

    def _round(self, config: ClusterConfigState) -> AssignmentReceived:
        configured = collect_configured_work(config)
        stop = self._running.without(configured.items)
        self._running = configured
        self._generation += 1
        owners: Mapping[WorkItem, str] = dict.fromkeys(configured.items, self.url)
        return AssignmentReceived(
            generation=self._generation,
            speaks=ConnectProtocol.COMPATIBLE,
            assignment=ConnectAssignment(
                leader=self.url,
                leader_url=self.url,
                config_offset=config.offset,
                assigned=configured,
            ),
            stop=stop,
            leads=True,
            owners=AssignmentOwners(urls={self.url: self.url}, members=owners),
        )


def collect_configured_work(config: ClusterConfigState) -> ConnectorsAndTasks:
    """All connectors, and all tasks whose configs are whole."""
    names = config.connectors()
    return ConnectorsAndTasks(
        connectors=tuple(names),
        tasks=tuple(task for name in names for task in config.tasks(name)),
    )


class StandaloneGroup:
    """Implements `ports.group.Group`; for the herder's thread alone."""

    session_timeout_s = math.inf
    """Nobody else is ever given a task, however silent this worker is."""

    def __init__(
        self,
        url: str,
        config: Callable[[], ClusterConfigState],
        *,
        clock: Clock,
    ) -> None:
        """`url` is where this worker answers, `config` the newest view."""
        self._clock = clock
        self._alone = StandaloneGroupMachine(url=url)
        self._config = config
        self._news: list[GroupEvent] = []
        self._on_news: OnGroupEvent | None = None

    @property
    def member_id(self) -> str:
        """See `ports.group.Group`; so for all below."""
        return ""

    def start(self, on_news: OnGroupEvent, configured: GetConfiguredWork) -> None:
        del configured  # its own view has more
        self._on_news = on_news
        self._hear(self._alone.begin())

    def take(self) -> list[GroupEvent]:
        taken, self._news = self._news, []
        return taken

    def ticked(self) -> None:
        """Nobody waits for that."""

    def prepared(self) -> None:
        self._obey(ConfirmJoinPrepared())

    def rejoin(self, reason: str) -> None:
        self._obey(RejoinGroup(reason))

    def leave(self, reason: str) -> None:
        self._obey(LeaveGroup(reason))

    def give_up_work(self) -> None:
        self._obey(RevokeAssignment())

    def close(self, timeout_s: float) -> None:
        del timeout_s  # there is nothing to wait for
        self._obey(CloseGroup())
        self._news.clear()

    def confirmed_at_s(self) -> float:
        return self._clock.now_s()

    def confirm_soon(self) -> None:
        """It is."""

    def _obey(self, order: BackgroundAction) -> None:
        if self._on_news is not None:
            self._hear(self._alone.obey(order, self._config()))

    def _hear(self, told: list[HerderEvent]) -> None:
        for each in told:
            assert isinstance(each, JoinRequested | AssignmentReceived), each
            self._news.append(each)
        if told and self._on_news is not None:
            self._on_news()  # the herder would find it, but only when it next comes round
