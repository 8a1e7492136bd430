"""Runs one task on its thread, as `core.task.lifecycle` says; what kind of task, its body knows.

Whatever the body raises fails this task alone. A body that does not come back is given up on: its
thread is left to itself, and what it says is heard no more.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from typing import Protocol

from connect_runtime.base import ids, log_context
from connect_runtime.core.state import cluster_config, status_records
from connect_runtime.core.task import lifecycle
from connect_runtime.runtime import traces
from connect_runtime.system import threads

_LOG = logging.getLogger(__name__)
_REST_S = 0.5


class Body(Protocol):
    """On the task's thread, except where it says otherwise."""

    def start_up(self) -> None:
        """Make clients, initialise and start the plugin."""

    def come_round(self) -> None:
        """Poll or deliver once."""

    def rest(self) -> None:
        """Paused: move nothing, keep sessions alive, return soon. Also before `start_up`."""

    def close_down(self) -> None:
        """Commit what can be, stop the plugin if its start was tried, close everything."""

    def shown(self) -> tuple[status_records.State, str | None]:
        """As what a task that runs is shown, and why. From any thread."""

    def stop_asked(self) -> None:
        """From another thread: whatever waits is to return."""

    def given_up(self) -> None:
        """From another thread: let go of everything at once; must not wait."""


class Say(Protocol):
    """Writes a status; never waits."""

    def __call__(self, state: status_records.State, trace: str | None, *, safe: bool) -> None: ...


TakeUp = Callable[[], bool]
"""Whether the task goes on, by another configuration. On the task's thread."""


class TaskRun:
    """One task, from `start` on. Its methods are for other threads than the task's.

    Invariants: `_todo` holds what the machine said and the task's thread has not taken; an offer
    is answered, at the latest when the task ends.
    """

    def __init__(
        self,
        task: ids.ConnectorTaskId,
        *,
        body: Body,
        target: cluster_config.TargetState,
        say: Say,
    ) -> None:
        self.task = task
        self._body = body
        self._say = say
        self._machine = lifecycle.TaskLifecycle(target)
        self._changed = threading.Condition(threading.RLock())
        self._todo: deque[lifecycle.Instruction] = deque()
        self._trace: str | None = None
        self._offer: tuple[TakeUp, futures.Future[bool]] | None = None
        self._thread: threads.OwnedThread | None = None

    @property
    def subject(self) -> ids.ConnectorTaskId:
        """Of its statuses."""
        return self.task

    def start(self, owner: threads.Threads) -> None:
        self._thread = owner.start(f"task-thread-{self.task}", self._run)

    def set_target_state(self, state: cluster_config.TargetState) -> None:
        self._tell(lifecycle.TargetStateSet(state))
        if state is cluster_config.TargetState.STOPPED:
            self._body.stop_asked()

    def offer(self, take_up: TakeUp) -> futures.Future[bool]:
        """Have it called when the task next comes round: what it answers; False where the task has
        ended, fails over it, or is made another offer."""
        answer: futures.Future[bool] = futures.Future()
        with self._changed:
            self._decline()
            if self._machine.phase is lifecycle.Phase.ENDED:
                answer.set_result(False)
            else:
                self._offer = (take_up, answer)
                self._tell(lifecycle.Offered())
        return answer

    @property
    def ended(self) -> bool:
        """By itself, or because it was stopped."""
        return self._machine.phase is lifecycle.Phase.ENDED

    def ask_stop(self) -> None:
        if self._thread is not None:
            self._thread.stop.set()
        self._tell(lifecycle.StopAsked())
        self._body.stop_asked()

    def join(self, timeout_s: float) -> bool:
        """Has it ended by then?"""
        return self._thread is None or self._thread.join(timeout_s)

    def give_up(self) -> None:
        _LOG.error("task %s did not stop in time and is left to itself", self.task)
        self._tell(lifecycle.GivenUp())
        try:
            self._body.given_up()
        except Exception:  # noqa: BLE001 - of a plugin, of which nothing is expected any more
            _LOG.exception("task %s could not be ended", self.task)

    def show_again(self) -> None:
        """What `Body.shown` says has changed. From any thread."""
        with self._changed:
            if self._machine.phase is lifecycle.Phase.RUNNING and not self._machine.stopping:
                self._say_running(safe=False)

    def _run(self, stop: threading.Event) -> None:
        with log_context.within(connector=self.task.connector, task=self.task.task):
            self._tell(lifecycle.Begun())
            while self._machine.phase is not lifecycle.Phase.ENDED:
                self._tell(self._carry_out(self._next()))
            with self._changed:
                self._decline()

    def _next(self) -> lifecycle.Instruction:
        with self._changed:
            return self._todo.popleft()

    def _carry_out(self, instruction: lifecycle.Instruction) -> lifecycle.Event | None:
        try:
            match instruction:
                case lifecycle.StartUp():
                    self._body.start_up()
                    return lifecycle.StartedUp()
                case lifecycle.GoOn():
                    self._body.come_round()
                    return lifecycle.CameRound()
                case lifecycle.Rest():
                    self._rest()
                    return None
                case lifecycle.TakeUp():
                    self._consider()
                    return lifecycle.Considered()
                case _:
                    return self._close()
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            self._note(error)
        return self._close()

    def _rest(self) -> None:
        while True:
            self._body.rest()
            with self._changed:
                self._changed.wait_for(lambda: len(self._todo) > 0, _REST_S)
                if self._todo:
                    return

    def _consider(self) -> None:
        with self._changed:
            offer, self._offer = self._offer, None
        if offer is None:
            return
        take_up, answer = offer
        taken = False
        try:
            taken = take_up()
        except Exception:  # noqa: BLE001 - of plugins: it will be started anew
            _LOG.exception("task %s could not take up its new configuration", self.task)
        finally:
            answer.set_result(taken)

    def _decline(self) -> None:
        """Under the lock."""
        offer, self._offer = self._offer, None
        if offer is not None:
            offer[1].set_result(False)

    def _close(self) -> lifecycle.Ended:
        try:
            self._body.close_down()
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            self._note(error)
        return lifecycle.Ended(self._trace)

    def _note(self, error: BaseException) -> None:
        """The first one is the status's."""
        traces.log(_LOG, f"task {self.task}", error)
        if self._trace is None:
            self._trace = traces.of(error)

    def _tell(self, event: lifecycle.Event | None) -> None:
        if event is None:
            return
        with self._changed:
            for each in self._machine.step(event):
                if not isinstance(each, lifecycle.Say):
                    self._todo.append(each)
                elif each.state is status_records.State.RUNNING:
                    self._say_running(safe=each.safe)
                else:
                    self._say(each.state, each.trace, safe=each.safe)
            self._changed.notify_all()

    def _say_running(self, *, safe: bool) -> None:
        state, trace = self._body.shown()
        self._say(state, trace, safe=safe)
