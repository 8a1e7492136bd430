"""Drives the herder's machine: one thread that tells it what happened, and does what it says.

Everything is told with what can be seen then. While a question is answered events wait; they are
told before its answer, so that a write that was read back is known when it counts as written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base import clock as base_clock
from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.herder import events, instructions, machine, memory, stages
from connect_runtime.ports import group as group_port
from connect_runtime.ports import herder as port
from connect_runtime.runtime.herding import inbox as inboxes
from connect_runtime.runtime.herding import orders as orders_module
from connect_runtime.runtime.herding import questions as questions_module
from connect_runtime.runtime.stores import config_store, status_store
from connect_runtime.system import threads

_LOG = logging.getLogger(__name__)
_TURN_MAX_S = 1.0
LEAVE_S = 3.0
"""What leaving the group may take; then it finds out by itself."""


@dataclass(slots=True, kw_only=True)
class Standing:
    """How this worker stands in its group, as of the last round; written by the loop alone.

    `speaks`, before any round: what is offered. `generation` is what its statuses are said in,
    `assigned` what the round gave it to run, out of what was configured at `config_offset`;
    `leader_url` is what the leader tells its group, "" before any round.
    """

    speaks: protocol.Protocol
    generation: int = 0
    leads: bool = False
    leader_url: str = ""
    assigned: work.Work = work.NO_WORK
    config_offset: int = -1
    joined_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the loop drives the machine with. Before `start` the stores are started."""

    settings: memory.HerderSettings
    configs: config_store.ConfigStore
    statuses: status_store.StatusStore
    group: group_port.Group
    questions: questions_module.Questions
    orders: orders_module.Orders
    inbox: inboxes.Inbox
    standing: Standing
    on_end: Callable[[], None]
    clock: base_clock.Clock


class HerderLoop:
    """`start` once, then `ask_stop` and `join`; what is shown may be read by any thread.

    Invariant: the machine, the group's methods and the worker are used by its thread alone.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._machine = machine.Herder(around.settings, self._seen())
        self._threads = threads.Threads(on_unasked_end=_log_end)
        self._thread: threads.OwnedThread | None = None
        self.failure: str | None = None
        """Why it ended, if nobody had asked it to."""
        self.stage = port.Stage(description=stages.STARTING, started_ms=around.clock.wall_ms())

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
        self._around.inbox.post(events.ShutdownRequested())

    def join(self, timeout_s: float) -> bool:
        """Has it ended by then?"""
        return self._thread is None or self._thread.join(timeout_s)

    def _configured(self) -> work.Configured:
        view = self._around.configs.snapshot()
        counts = {name: len(view.tasks(name)) for name in view.connectors()}
        return work.Configured(offset=view.offset, task_counts=counts)

    def _run(self, stop: threading.Event) -> None:
        try:
            self._tell(events.Begun())
            self._begin_stage(stages.JOINING)
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
        self._begin_stage(stages.CLOSING)
        with contextlib.ExitStack() as last_first:
            last_first.callback(around.on_end)
            last_first.callback(around.group.close, LEAVE_S)
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
            self._tell(events.TimePassed())

    def _wait_s(self) -> float:
        due_s = self._machine.wake_at_s()
        if due_s is None:
            return _TURN_MAX_S
        return min(_TURN_MAX_S, due_s - self._around.clock.now_s())

    def _look_around(self) -> bool:
        """Tell what came since; False: nothing did."""
        told = self._around.inbox.take_all()  # first: what wakes it now will wake it again
        news = self._around.group.take()
        for each in news:
            self._hear(each)
        for event in told:
            if isinstance(event, events.ReconfigurationWanted):
                self._around.questions.wished(event.connector)
            self._tell(event)
        return bool(news or told)

    def _hear(self, news: group_port.News) -> None:
        match news:
            case group_port.Failed(error):
                self.failure = str(error)
                self._tell(events.ShutdownRequested())
            case events.RoundCompleted():
                self._stand(news)
                if self.stage.description == stages.JOINING:
                    self._complete_stage()
                self._tell(news)
            case _:
                self._tell(news)

    def _stand(self, completed: events.RoundCompleted) -> None:
        standing, speaks = self._around.standing, completed.speaks
        signed, signs = (each is protocol.Protocol.SESSIONED for each in (standing.speaks, speaks))
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

    def _answer(self, question: instructions.Question) -> None:
        self._begin_stage(stages.describe(question))
        outcome = self._around.questions.answer(question)
        self._complete_stage()
        self._look_around()
        self._tell(events.Answered(outcome))

    def _tell(self, event: events.Event) -> None:
        for said in self._machine.step(event, self._seen()):
            if not isinstance(said, instructions.QUESTIONS):
                self._obey(said)

    def _obey(self, order: instructions.Order) -> None:
        group = self._around.group
        match order:
            case instructions.Prepared():
                group.prepared()
                self._begin_stage(stages.JOINING)
            case instructions.Rejoin(reason):
                _LOG.info("asking the group to meet: %s", reason)
                group.rejoin(reason)
            case instructions.Leave(reason):
                _LOG.warning("leaving the group: %s", reason)
                group.leave(reason)
            case instructions.GiveUpWork():
                group.give_up_work()
            case _:
                self._around.orders.obey(order)

    def _begin_stage(self, description: str) -> None:
        now_ms = self._around.clock.wall_ms()
        self.stage = port.Stage(description=description, started_ms=now_ms)

    def _complete_stage(self) -> None:
        now_ms = self._around.clock.wall_ms()
        self.stage = dataclasses.replace(self.stage, completed_ms=now_ms)

    def _seen(self) -> events.Seen:
        around = self._around
        return events.Seen(
            now_s=around.clock.now_s(),
            wall_ms=around.clock.wall_ms(),
            config=around.configs.snapshot(),
            statuses=around.statuses.snapshot(),
        )


def _log_end(ended: threads.UnaskedEnd) -> None:
    _LOG.error("the herder ended: %s", ended.error, exc_info=ended.error)
