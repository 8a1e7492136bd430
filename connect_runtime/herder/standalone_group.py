"""`StandaloneGroup`: the group of a standalone worker, which has one member and needs no brokers.

The worker leads every rebalance and is assigned everything that is configured. Requests are not
signed, because there are no other members. Generations still increase, so that a status of an
earlier generation never replaces a later one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connect_protocol import ConnectAssignment, ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks, WorkItem
from connect_runtime.group.leader_assignment import AssignmentOwners
from connect_runtime.herder.herder_actions import (
    BackgroundAction,
    ConfirmJoinPrepared,
    LeaveGroup,
    LeaveGroupPermanently,
    RejoinGroup,
    RevokeAssignment,
)
from connect_runtime.herder.herder_events import AssignmentReceived, HerderEvent, JoinRequested
from connect_runtime.herder.worker_group_interface import (
    GetConfiguredWork,
    GroupEvent,
    OnGroupEvent,
)
from connect_runtime.storage.cluster_config_state import ClusterConfigState


@dataclass(slots=True, kw_only=True)
class StandaloneGroupStateMachine:
    """State machine of a standalone group. The caller must pass the events that it returns to the
    herder in order."""

    url: str
    """This worker's REST URL."""
    _running: ConnectorsAndTasks = connectors_and_tasks.NO_WORK
    _generation: int = 0
    _closed: bool = False

    def create_initial_events(self) -> list[HerderEvent]:
        """Return the first events, to be processed after `StoresLoaded`."""
        return [JoinRequested(connectors_and_tasks.NO_WORK)]

    def execute_group_action(
        self, order: BackgroundAction, config: ClusterConfigState
    ) -> list[HerderEvent]:
        """Execute a group action of the herder, and return the resulting events.

        Actions that do not concern the group are ignored. `config` must be the latest state of the
        config topic.
        """
        if self._closed:
            return []
        match order:
            case RejoinGroup():
                return [JoinRequested(connectors_and_tasks.NO_WORK)]
            case ConfirmJoinPrepared():
                return [self._complete_rebalance(config)]
            case RevokeAssignment():
                self._running = connectors_and_tasks.NO_WORK
            case LeaveGroupPermanently():
                self._closed = True
        return []

    def _complete_rebalance(self, config: ClusterConfigState) -> AssignmentReceived:
        configured = list_configured_connectors_and_tasks(config)
        stop = self._running.difference(configured.items)
        self._running = configured
        self._generation += 1
        owners: Mapping[WorkItem, str] = dict.fromkeys(configured.items, self.url)
        return AssignmentReceived(
            generation=self._generation,
            protocol=ConnectProtocol.COMPATIBLE,
            assignment=ConnectAssignment(
                leader=self.url,
                leader_url=self.url,
                config_offset=config.offset,
                assigned=configured,
            ),
            items_to_stop=stop,
            is_leader=True,
            owners=AssignmentOwners(urls={self.url: self.url}, members=owners),
        )


def list_configured_connectors_and_tasks(config: ClusterConfigState) -> ConnectorsAndTasks:
    """Return all connectors, and the tasks of connectors with a complete set of task configs."""
    names = config.connectors()
    return ConnectorsAndTasks(
        connectors=tuple(names),
        tasks=tuple(task for name in names for task in config.tasks(name)),
    )


class StandaloneGroup:
    """Implements `WorkerGroup` for a standalone worker. Used by the herder's thread only."""

    session_timeout_s = math.inf
    """Infinite, because no other worker can take over the tasks of a standalone worker."""

    def __init__(
        self,
        url: str,
        config: Callable[[], ClusterConfigState],
        *,
        clock: Clock,
    ) -> None:
        """Create the group. `url` is this worker's REST URL; `config` returns the latest
        configurations."""
        self._clock = clock
        self._machine = StandaloneGroupStateMachine(url=url)
        self._config = config
        self._events: list[GroupEvent] = []
        self._on_event: OnGroupEvent | None = None

    @property
    def member_id(self) -> str:
        """Member id: always "", because a standalone worker has no group coordinator."""
        return ""

    def start(self, on_event: OnGroupEvent, read_configured_work: GetConfiguredWork) -> None:
        del read_configured_work  # `config` has more detail
        self._on_event = on_event
        self._add_events(self._machine.create_initial_events())

    def pop_events(self) -> list[GroupEvent]:
        events, self._events = self._events, []
        return events

    def report_herder_loop_alive(self) -> None:
        """Do nothing, because no other worker waits for this worker in a rebalance."""

    def confirm_join_prepared(self) -> None:
        self._execute_group_action(ConfirmJoinPrepared())

    def rejoin_group(self, reason: str) -> None:
        self._execute_group_action(RejoinGroup(reason))

    def leave_group(self, reason: str) -> None:
        self._execute_group_action(LeaveGroup(reason))

    def revoke_all_work(self) -> None:
        self._execute_group_action(RevokeAssignment())

    def close(self, timeout_s: float) -> None:
        del timeout_s  # closing does not block
        self._execute_group_action(LeaveGroupPermanently())
        self._events.clear()

    def get_last_heartbeat_s(self) -> float:
        return self._clock.now_s()

    def request_heartbeat(self) -> None:
        """Do nothing, because membership never expires."""

    def _execute_group_action(self, order: BackgroundAction) -> None:
        if self._on_event is not None:
            self._add_events(self._machine.execute_group_action(order, self._config()))

    def _add_events(self, events: list[HerderEvent]) -> None:
        for each in events:
            assert isinstance(each, JoinRequested | AssignmentReceived), each
            self._events.append(each)
        if events and self._on_event is not None:
            self._on_event()  # otherwise the herder would see the events only at its next tick
