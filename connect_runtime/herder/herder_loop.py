"""Runs the herder's state machine. One thread passes events to it and executes its actions.

Every event is processed with the latest snapshot of the stores. Events that arrive during a
blocking action are processed before the action's outcome, so that the herder processes a record
that it has written and read back before it learns that the write succeeded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from connect_runtime.herder import herder_actions, herder_requests
from connect_runtime.herder.background_actions import BackgroundActionRunner
from connect_runtime.herder.blocking_actions import BlockingActionRunner
from connect_runtime.herder.distributed_herder import DistributedHerder
from connect_runtime.herder.herder_actions import (
    BackgroundAction,
    BlockingAction,
    ConfirmJoinPrepared,
    LeaveGroup,
    RejoinGroup,
    RevokeAssignment,
)
from connect_runtime.herder.herder_events import (
    ActionCompleted,
    AssignmentReceived,
    HerderEvent,
    HerderShutdownRequested,
    HerderTick,
    RequestSubmitted,
    StoresLoaded,
    StoreSnapshot,
    TaskReconfigurationRequested,
)
from connect_runtime.herder.herder_interface import HerderStage
from connect_runtime.herder.herder_requests import HerderQueueFullError
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.herder.worker_group_interface import GroupEvent, GroupFailed, WorkerGroup
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system.supervised_threads import (
    StoppableThread,
    ThreadGroup,
    UnexpectedThreadEnd,
)


class HerderInbox:
    """Queue of events for the herder. Any thread posts events; only the herder's thread removes
    them.

    Invariant: at most `MAX_QUEUED_REQUESTS` requests and one reconfiguration per connector are
    queued. The number of other events is bounded by the numbers of written records and of running
    connectors and tasks.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: deque[HerderEvent] = deque()
        self._request_count = 0
        self._reconfigurations: set[str] = set()
        self._woken = False
        self._closed = False

    def post_event(self, event: HerderEvent) -> bool:
        """Queue an event. Return False if the inbox is closed.

        Raises `HerderQueueFullError` if the event is a request and too many requests are queued.
        """
        with self._changed:
            if self._closed:
                return False
            if isinstance(event, RequestSubmitted):
                if self._request_count >= herder_requests.MAX_QUEUED_REQUESTS:
                    raise HerderQueueFullError(f"{self._request_count} requests are already queued")
                self._request_count += 1
            if isinstance(event, TaskReconfigurationRequested):
                if event.connector in self._reconfigurations:
                    return True
                self._reconfigurations.add(event.connector)
            self._events.append(event)
            self._changed.notify_all()
        return True

    def wake_herder(self) -> None:
        """Wake the herder's thread from `wait_for_event`, because the worker group has new
        events."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def pop_all_events(self) -> list[HerderEvent]:
        """Return and remove all events in order of arrival, without waiting."""
        with self._changed:
            events, self._events = list(self._events), deque()
            self._request_count, self._woken = 0, False
            self._reconfigurations.clear()
            return events

    def wait_for_event(self, timeout_s: float) -> None:
        """Wait until an event arrives or the timeout expires."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._woken, timeout=max(0.0, timeout_s))

    def close(self) -> None:
        """Refuse new events. Events that are already queued, such as a shutdown request, can
        still be popped."""
        with self._changed:
            self._closed = True


_LOG = logging.getLogger(__name__)
_MAX_WAIT_S = 1.0
LEAVE_TIMEOUT_S = 3.0
"""Time limit for leaving the group. After it, the group removes the worker when its session timeout
expires."""


@dataclass(slots=True, kw_only=True)
class WorkerGroupState:
    """This worker's state in its group since the last rebalance. Written only by the herder's
    loop."""

    protocol: ConnectProtocol
    """The group's protocol; before the first rebalance, the protocol that this worker is configured
    to offer."""
    generation: int = 0
    """Group generation in which this worker publishes statuses."""
    is_leader: bool = False
    leader_url: str = ""
    """URL of the leader; "" before the first rebalance."""
    assigned: ConnectorsAndTasks = connectors_and_tasks.NO_WORK
    """Connectors and tasks that the last rebalance assigned to this worker."""
    config_offset: int = -1
    """Config offset on which the assignment is based."""
    has_joined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderLoopDeps:
    """Dependencies of `HerderLoop`. The stores must be started before the loop."""

    settings: HerderSettings
    configs: ConfigBackingStore
    statuses: StatusBackingStore
    group: WorkerGroup
    blocking_actions: BlockingActionRunner
    background_actions: BackgroundActionRunner
    inbox: HerderInbox
    group_state: WorkerGroupState
    on_end: Callable[[], None]
    clock: Clock


class HerderLoop:
    """Thread of the herder. Call `start` once, then `request_stop` and `join`.

    Any thread may read the properties. Invariant: only the loop's thread uses the state machine,
    the group's methods and the worker.
    """

    def __init__(self, deps: HerderLoopDeps) -> None:
        self._deps = deps
        self._herder = DistributedHerder(deps.settings, self._take_store_snapshot())
        self._threads = ThreadGroup(on_unexpected_end=_log_thread_death)
        self._thread: StoppableThread | None = None
        self.failure: str | None = None
        """Reason why the herder ended without a stop request; otherwise None."""
        self.stage = HerderStage(
            description=herder_actions.STAGE_STARTING, started_ms=deps.clock.wall_ms()
        )

    def start(self) -> None:
        """Join the group and start the thread. Raises `FatalError` for invalid group settings."""
        self._deps.group.start(self._deps.inbox.wake_herder, self._read_configured_work)
        self._thread = self._threads.start("herder", self._run_herder_thread)

    @property
    def has_started(self) -> bool:
        """True if the loop was started, so that submitted requests will receive replies."""
        return self._thread is not None

    def request_stop(self) -> None:
        """Request that the loop stop all work, leave the group and end. May be called
        repeatedly."""
        self._deps.inbox.post_event(HerderShutdownRequested())

    def join(self, timeout_s: float) -> bool:
        """Wait for the herder's thread to end. Return False on timeout."""
        return self._thread is None or self._thread.join(timeout_s)

    def _read_configured_work(self) -> ConfiguredWork:
        view = self._deps.configs.snapshot()
        counts = {name: len(view.tasks(name)) for name in view.connectors()}
        return ConfiguredWork(offset=view.offset, task_counts=counts)

    def _run_herder_thread(self, stop: threading.Event) -> None:
        try:
            self._process_event(StoresLoaded())
            self._begin_stage(herder_actions.STAGE_JOINING)
            while not self._herder.is_closed:
                self._run_loop_iteration()
        except BaseException as error:
            self.failure = f"the herder failed with an unexpected error: {error!r}"
            raise
        finally:
            stop.set()  # only this thread uses the event
            self._shut_down()

    def _shut_down(self) -> None:
        """Clean up after the loop has stopped for any reason. Every step runs even if another step
        fails."""
        deps = self._deps
        self._begin_stage(herder_actions.STAGE_CLOSING)
        with contextlib.ExitStack() as last_first:
            last_first.callback(deps.on_end)
            last_first.callback(deps.group.close, LEAVE_TIMEOUT_S)
            last_first.callback(deps.blocking_actions.stop_all_work)  # before others get the work
            last_first.callback(deps.background_actions.refuse_all_requests)
            last_first.callback(deps.inbox.close)

    def _run_loop_iteration(self) -> None:
        deps = self._deps
        deps.group.report_herder_loop_alive()
        if self._herder.pending_blocking_action is not None:
            self._run_blocking_action(self._herder.pending_blocking_action)
            return
        deps.inbox.wait_for_event(self._compute_wait_s())
        if not self._process_new_events():
            self._process_event(HerderTick())

    def _compute_wait_s(self) -> float:
        due_s = self._herder.get_next_tick_s()
        if due_s is None:
            return _MAX_WAIT_S
        return min(_MAX_WAIT_S, due_s - self._deps.clock.now_s())

    def _process_new_events(self) -> bool:
        """Process all new events. Return False if there were none."""
        # Before the group's events, so that no wake-up is lost.
        posted = self._deps.inbox.pop_all_events()
        group_events = self._deps.group.pop_events()
        for each in group_events:
            self._handle_group_event(each)
        for event in posted:
            if isinstance(event, TaskReconfigurationRequested):
                self._deps.blocking_actions.record_reconfiguration_request(event.connector)
            self._process_event(event)
        return bool(group_events or posted)

    def _handle_group_event(self, event: GroupEvent) -> None:
        match event:
            case GroupFailed(error):
                self.failure = str(error)
                self._process_event(HerderShutdownRequested())
            case AssignmentReceived():
                self._update_group_state(event)
                if self.stage.description == herder_actions.STAGE_JOINING:
                    self._complete_stage()
                self._process_event(event)
            case _:
                self._process_event(event)

    def _update_group_state(self, completed: AssignmentReceived) -> None:
        group_state = self._deps.group_state
        _log_protocol_change(group_state.protocol, completed.protocol)
        group_state.config_offset = completed.assignment.config_offset
        group_state.assigned = completed.assignment.assigned
        group_state.leader_url = completed.assignment.leader_url
        (
            group_state.generation,
            group_state.protocol,
            group_state.is_leader,
            group_state.has_joined,
        ) = (
            completed.generation,
            completed.protocol,
            completed.is_leader,
            True,
        )

    def _run_blocking_action(self, action: BlockingAction) -> None:
        self._begin_stage(herder_actions.describe_action(action))
        outcome = self._deps.blocking_actions.execute_action(action)
        self._complete_stage()
        self._process_new_events()
        self._process_event(ActionCompleted(outcome))

    def _process_event(self, event: HerderEvent) -> None:
        for action in self._herder.process_event(event, self._take_store_snapshot()):
            if not isinstance(action, herder_actions.BLOCKING_ACTIONS):
                self._execute_herder_action(action)

    def _execute_herder_action(self, action: BackgroundAction) -> None:
        group = self._deps.group
        match action:
            case ConfirmJoinPrepared():
                group.confirm_join_prepared()
                self._begin_stage(herder_actions.STAGE_JOINING)
            case RejoinGroup(reason):
                _LOG.info("requesting a rebalance: %s", reason)
                group.rejoin_group(reason)
            case LeaveGroup(reason):
                _LOG.warning("leaving the group: %s", reason)
                group.leave_group(reason)
            case RevokeAssignment():
                group.revoke_all_work()
            case _:
                self._deps.background_actions.execute_action(action)

    def _begin_stage(self, description: str) -> None:
        now_ms = self._deps.clock.wall_ms()
        self.stage = HerderStage(description=description, started_ms=now_ms)

    def _complete_stage(self) -> None:
        now_ms = self._deps.clock.wall_ms()
        self.stage = dataclasses.replace(self.stage, completed_ms=now_ms)

    def _take_store_snapshot(self) -> StoreSnapshot:
        deps = self._deps
        return StoreSnapshot(
            now_s=deps.clock.now_s(),
            wall_ms=deps.clock.wall_ms(),
            config=deps.configs.snapshot(),
            statuses=deps.statuses.snapshot(),
        )


def _log_protocol_change(before: ConnectProtocol, after: ConnectProtocol) -> None:
    """If the group's protocol has changed, log which parts of requests between workers are
    signed now."""
    if before.signs_requests and not after.signs_requests:
        _LOG.warning(
            "the group fell back to protocol %s because a member supports nothing newer:"
            " requests between workers are not signed, so anyone who can reach the REST API can"
            " impersonate a worker (KIP-507). With basic authentication, task configurations"
            " from other workers are refused instead. Set connect.protocol=sessioned on all"
            " workers",
            after.wire_name,
        )
    elif after.signs_requests and not before.signs_requests:
        _LOG.info(
            "all members support protocol %s again: requests between workers are signed",
            after.wire_name,
        )
    elif (before, after) == (ConnectProtocol.SESSIONED_WHOLE, ConnectProtocol.SESSIONED):
        _LOG.warning(
            "a Java worker is in the group: until it has left, task-configuration and fencing"
            " requests are accepted with Java's signature, which covers only their body. Without"
            " https, anyone who can read the network can repeat such a request to any worker and"
            " connector until the session key changes (inter.worker.key.ttl.ms)"
        )


def _log_thread_death(ended: UnexpectedThreadEnd) -> None:
    _LOG.error("the herder's thread died: %s", ended.error, exc_info=ended.error)
