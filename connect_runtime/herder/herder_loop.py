"""Runs the herder's state machine: one thread that passes it events and executes its actions.

Every event comes with the newest view of the stores. Events that arrive during a blocking action
are passed on before its outcome, so that a record that was read back is known before its write
counts as done.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base.timing import Clock
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from connect_runtime.herder import herder_actions, herder_requests
from connect_runtime.herder.background_actions import BackgroundActionRunner
from connect_runtime.herder.blocking_actions import BlockingActionRunner
from connect_runtime.herder.distributed_herder import DistributedHerder
from connect_runtime.herder.group_interface import GroupEvent, GroupFailed, WorkerGroup
from connect_runtime.herder.herder_actions import (
    BackgroundAction,
    BlockingAction,
    ConfirmJoinPrepared,
    LeaveGroup,
    RejoinGroup,
    RevokeAssignment,
)
from connect_runtime.herder.herder_api import HerderStage
from connect_runtime.herder.herder_events import (
    ActionCompleted,
    AssignmentReceived,
    EventSnapshot,
    HerderEvent,
    HerderShutdownRequested,
    HerderTick,
    RequestSubmitted,
    StoresLoaded,
    TaskReconfigurationRequested,
)
from connect_runtime.herder.herder_requests import HerderQueueFullError
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system.threads import OwnedThread, ThreadDied, ThreadGroup


class HerderInbox:
    """Any thread posts, one takes. Invariant: at most `herder_requests.MAX_QUEUED_REQUESTS` of
    askers, and one of each wish for other task configs, wait here; the rest is as much as was
    written and runs."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: deque[HerderEvent] = deque()
        self._asked = 0
        self._wishes: set[str] = set()
        self._woken = False
        self._closed = False

    def post(self, event: HerderEvent) -> bool:
        """False: it is closed, and nobody will look. Raises `QueueFull` for an asker's."""
        with self._changed:
            if self._closed:
                return False
            if isinstance(event, RequestSubmitted):
                if self._asked >= herder_requests.MAX_QUEUED_REQUESTS:
                    raise HerderQueueFullError(f"{self._asked} requests wait")
                self._asked += 1
            if isinstance(event, TaskReconfigurationRequested):
                if event.connector in self._wishes:
                    return True
                self._wishes.add(event.connector)
            self._events.append(event)
            self._changed.notify_all()
        return True

    def wake(self) -> None:
        """There is something to see elsewhere."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def take_all(self) -> list[HerderEvent]:
        """Without waiting, in the order in which they came."""
        with self._changed:
            taken, self._events = list(self._events), deque()
            self._asked, self._woken = 0, False
            self._wishes.clear()
            return taken

    def wait(self, timeout_s: float) -> None:
        """Until something comes, or time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._woken, timeout=max(0.0, timeout_s))

    def close(self) -> None:
        """Take no more. What is there already can still be taken: a herder that was slow to end
        must yet learn that it was to."""
        with self._changed:
            self._closed = True


_LOG = logging.getLogger(__name__)
_MAX_WAIT_S = 1.0
LEAVE_TIMEOUT_S = 3.0
"""What leaving the group may take; then it finds out by itself."""


@dataclass(slots=True, kw_only=True)
class WorkerGroupState:
    """How this worker stands in its group, as of the last round; written by the loop alone.

    `speaks`, before any round: what is offered. `generation` is what its statuses are said in,
    `assigned` what the round gave it to run, out of what was configured at `config_offset`;
    `leader_url` is what the leader tells its group, "" before any round.
    """

    speaks: ConnectProtocol
    generation: int = 0
    leads: bool = False
    leader_url: str = ""
    assigned: ConnectorsAndTasks = connectors_and_tasks.NO_WORK
    config_offset: int = -1
    joined_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderLoopDeps:
    """What the loop drives the machine with. Before `start` the stores are started."""

    settings: HerderSettings
    configs: ConfigBackingStore
    statuses: StatusBackingStore
    group: WorkerGroup
    questions: BlockingActionRunner
    orders: BackgroundActionRunner
    inbox: HerderInbox
    standing: WorkerGroupState
    on_end: Callable[[], None]
    clock: Clock


class HerderLoop:
    """`start` once, then `ask_stop` and `join`; what is shown may be read by any thread.

    Invariant: the machine, the group's methods and the worker are used by its thread alone.
    """

    def __init__(self, around: HerderLoopDeps) -> None:
        self._around = around
        self._machine = DistributedHerder(around.settings, self._seen())
        self._threads = ThreadGroup(on_unasked_end=_log_thread_death)
        self._thread: OwnedThread | None = None
        self.failure: str | None = None
        """Why it ended, if nobody had asked it to."""
        self.stage = HerderStage(
            description=herder_actions.STAGE_STARTING, started_ms=around.clock.wall_ms()
        )

    def start(self) -> None:
        """Raises `FatalError` for settings of the group that cannot work."""
        self._around.group.start(self._around.inbox.wake, self._configured)
        self._thread = self._threads.start("herder", self._run)

    @property
    def begun(self) -> bool:
        """Was it started, so that what it is asked will be answered?"""
        return self._thread is not None

    def ask_stop(self) -> None:
        """Stop all work, leave the group, end. Again: nothing happens."""
        self._around.inbox.post(HerderShutdownRequested())

    def join(self, timeout_s: float) -> bool:
        """Has it ended by then?"""
        return self._thread is None or self._thread.join(timeout_s)

    def _configured(self) -> ConfiguredWork:
        view = self._around.configs.snapshot()
        counts = {name: len(view.tasks(name)) for name in view.connectors()}
        return ConfiguredWork(offset=view.offset, task_counts=counts)

    def _run(self, stop: threading.Event) -> None:
        try:
            self._tell(StoresLoaded())
            self._begin_stage(herder_actions.STAGE_JOINING)
            while not self._machine.closed:
                self._turn()
        except BaseException as error:
            self.failure = f"the herder ended by a mistake: {error!r}"
            raise
        finally:
            stop.set()  # it ends when it is done, not when it is told
            self._end()

    def _end(self) -> None:
        """What must be done whatever came before, and whatever comes of the rest of it."""
        around = self._around
        self._begin_stage(herder_actions.STAGE_CLOSING)
        with contextlib.ExitStack() as last_first:
            last_first.callback(around.on_end)
            last_first.callback(around.group.close, LEAVE_TIMEOUT_S)
            last_first.callback(around.questions.stop_all)  # before others are given it
            last_first.callback(around.orders.refuse_all)
            last_first.callback(around.inbox.close)

    def _turn(self) -> None:
        around = self._around
        around.group.ticked()
        if self._machine.question is not None:
            self._answer(self._machine.question)
            return
        around.inbox.wait(self._wait_s())
        if not self._look_around():
            self._tell(HerderTick())

    def _wait_s(self) -> float:
        due_s = self._machine.wake_at_s()
        if due_s is None:
            return _MAX_WAIT_S
        return min(_MAX_WAIT_S, due_s - self._around.clock.now_s())

    def _look_around(self) -> bool:
        """Tell what came since; False: nothing did."""
        told = self._around.inbox.take_all()  # first: what wakes it now will wake it again
        news = self._around.group.take()
        for each in news:
            self._hear(each)
        for event in told:
            if isinstance(event, TaskReconfigurationRequested):
                self._around.questions.wished(event.connector)
            self._tell(event)
        return bool(news or told)

    def _hear(self, news: GroupEvent) -> None:
        match news:
            case GroupFailed(error):
                self.failure = str(error)
                self._tell(HerderShutdownRequested())
            case AssignmentReceived():
                self._stand(news)
                if self.stage.description == herder_actions.STAGE_JOINING:
                    self._complete_stage()
                self._tell(news)
            case _:
                self._tell(news)

    def _stand(self, completed: AssignmentReceived) -> None:
        standing, speaks = self._around.standing, completed.speaks
        signed, signs = (each is ConnectProtocol.SESSIONED for each in (standing.speaks, speaks))
        if signed and not signs:
            _LOG.warning(
                "the group fell back to %s because a member supports nothing newer: requests"
                " between workers are not signed, so anyone who can reach the REST API can"
                " impersonate a worker (KIP-507). With basic authentication, task configurations"
                " from other workers are refused instead. Set connect.protocol=sessioned on all"
                " workers",
                speaks.name.lower(),
            )
        elif signs and not signed:
            _LOG.info(
                "all members speak %s again: requests between them are signed", speaks.name.lower()
            )
        standing.config_offset = completed.assignment.config_offset
        standing.assigned = completed.assignment.assigned
        standing.leader_url = completed.assignment.leader_url
        standing.generation, standing.speaks, standing.leads, standing.joined_once = (
            completed.generation,
            speaks,
            completed.leads,
            True,
        )

    def _answer(self, question: BlockingAction) -> None:
        self._begin_stage(herder_actions.describe_action(question))
        outcome = self._around.questions.answer(question)
        self._complete_stage()
        self._look_around()
        self._tell(ActionCompleted(outcome))

    def _tell(self, event: HerderEvent) -> None:
        for said in self._machine.step(event, self._seen()):
            if not isinstance(said, herder_actions.BLOCKING_ACTIONS):
                self._obey(said)

    def _obey(self, order: BackgroundAction) -> None:
        group = self._around.group
        match order:
            case ConfirmJoinPrepared():
                group.prepared()
                self._begin_stage(herder_actions.STAGE_JOINING)
            case RejoinGroup(reason):
                _LOG.info("asking the group to meet: %s", reason)
                group.rejoin(reason)
            case LeaveGroup(reason):
                _LOG.warning("leaving the group: %s", reason)
                group.leave(reason)
            case RevokeAssignment():
                group.give_up_work()
            case _:
                self._around.orders.obey(order)

    def _begin_stage(self, description: str) -> None:
        now_ms = self._around.clock.wall_ms()
        self.stage = HerderStage(description=description, started_ms=now_ms)

    def _complete_stage(self) -> None:
        now_ms = self._around.clock.wall_ms()
        self.stage = dataclasses.replace(self.stage, completed_ms=now_ms)

    def _seen(self) -> EventSnapshot:
        around = self._around
        return EventSnapshot(
            now_s=around.clock.now_s(),
            wall_ms=around.clock.wall_ms(),
            config=around.configs.snapshot(),
            statuses=around.statuses.snapshot(),
        )


def _log_thread_death(ended: ThreadDied) -> None:
    _LOG.error("the herder ended: %s", ended.error, exc_info=ended.error)
