"""Runs one task on its own thread, as `task_lifecycle` decides.

`TaskBody` is what differs between source, sink and pipeline tasks.

An exception of the body fails this task alone. A body that does not return is abandoned: its thread
is left to itself and its statuses are ignored.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable
from concurrent import futures
from typing import Protocol

from connect_runtime.base import log_context
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState
from connect_runtime.system.threads import OwnedThread, ThreadGroup
from connect_runtime.worker.task_lifecycle import (
    IterationDone,
    PublishStatus,
    Reconfigure,
    ReconfigureDone,
    ReconfigureOffered,
    RunOnce,
    StartTask,
    StayIdle,
    TaskAbandoned,
    TaskEnded,
    TaskLifecycle,
    TaskLifecycleAction,
    TaskLifecycleEvent,
    TaskPhase,
    TaskStarted,
    TaskStopRequested,
    TaskTargetStateRequested,
    TaskThreadStarted,
)


def format_trace(error: BaseException) -> str:
    """The error alone, since many a display has room for a line; below it the whole trace."""
    said = "".join(traceback.format_exception_only(error)).strip()
    return f"{said}\n{''.join(traceback.format_exception(error))}"


def log_failure(to: logging.Logger, who: str, error: BaseException) -> None:
    """`who` failed. Where in the code is for what nobody foresaw, and for who looks closely."""
    if isinstance(error, ConnectError):
        to.error("%s failed: %s", who, error)
        to.debug("%s failed in", who, exc_info=error)
    else:
        to.error("%s threw", who, exc_info=error)


_LOG = logging.getLogger(__name__)


class CloseSteps:
    """Each is taken, whatever another raised; the first failure is raised in the end."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._failure: BaseException | None = None

    def take(self, doing: str, step: Callable[[], object], *, fails: bool = True) -> None:
        """`fails` False: a failure is logged, and that is all."""
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            if isinstance(error, RetriableError):  # it says enough: a cluster is away
                _LOG.error("%s of %s failed: %s", doing, self._of, error)
            else:
                _LOG.error("%s of %s failed", doing, self._of, exc_info=error)
            if fails:
                self._failure = self._failure or error

    def raise_first(self) -> None:
        if self._failure is not None:
            raise self._failure


_IDLE_WAIT_S = 0.5


class TaskBody(Protocol):
    """On the task's thread, except where it says otherwise."""

    def start_up(self) -> None:
        """Make clients, initialise and start the plugin."""

    def come_round(self) -> None:
        """Poll or deliver once."""

    def rest(self) -> None:
        """Paused: move nothing, keep sessions alive, return soon. Also before `start_up`."""

    def close_down(self) -> None:
        """Commit what can be, stop the plugin if its start was tried, close everything."""

    def shown(self) -> tuple[RunState, str | None]:
        """As what a task that runs is shown, and why. From any thread."""

    def stop_asked(self) -> None:
        """From another thread: whatever waits is to return."""

    def given_up(self) -> None:
        """From another thread: let go of everything at once; must not wait."""


class WriteTaskStatus(Protocol):
    """Writes a status; never waits."""

    def __call__(self, state: RunState, trace: str | None, *, safe: bool) -> None: ...


ReconfigureCallback = Callable[[], bool]
"""Whether the task goes on, by another configuration. On the task's thread."""


class WorkerTask:
    """One task, from `start` on. Its methods are for other threads than the task's.

    Invariants: `_todo` holds what the machine said and the task's thread has not taken; an offer
    is answered, at the latest when the task ends.
    """

    def __init__(
        self,
        task: ConnectorTaskId,
        *,
        body: TaskBody,
        target: TargetState,
        say: WriteTaskStatus,
    ) -> None:
        self.task = task
        self._body = body
        self._say = say
        self._machine = TaskLifecycle(target)
        self._changed = threading.Condition(threading.RLock())
        self._todo: deque[TaskLifecycleAction] = deque()
        self._trace: str | None = None
        self._offer: tuple[ReconfigureCallback, futures.Future[bool]] | None = None
        self._thread: OwnedThread | None = None

    @property
    def subject(self) -> ConnectorTaskId:
        """Of its statuses."""
        return self.task

    def start(self, owner: ThreadGroup) -> None:
        self._thread = owner.start(f"task-thread-{self.task}", self._run)

    def set_target_state(self, state: TargetState) -> None:
        self._tell(TaskTargetStateRequested(state))
        if state is TargetState.STOPPED:
            self._body.stop_asked()

    def offer(self, take_up: ReconfigureCallback) -> futures.Future[bool]:
        """Have it called when the task next comes round: what it answers; False where the task has
        ended, fails over it, or is made another offer."""
        answer: futures.Future[bool] = futures.Future()
        with self._changed:
            self._decline()
            if self._machine.phase is TaskPhase.ENDED:
                answer.set_result(False)
            else:
                self._offer = (take_up, answer)
                self._tell(ReconfigureOffered())
        return answer

    @property
    def ended(self) -> bool:
        """By itself, or because it was stopped."""
        return self._machine.phase is TaskPhase.ENDED

    def ask_stop(self) -> None:
        if self._thread is not None:
            self._thread.stop.set()
        self._tell(TaskStopRequested())
        self._body.stop_asked()

    def join(self, timeout_s: float) -> bool:
        """Has it ended by then?"""
        return self._thread is None or self._thread.join(timeout_s)

    def give_up(self) -> None:
        _LOG.error("task %s did not stop in time and is left to itself", self.task)
        self._tell(TaskAbandoned())
        try:
            self._body.given_up()
        except Exception:  # noqa: BLE001 - of a plugin, of which nothing is expected any more
            _LOG.exception("task %s could not be ended", self.task)

    def show_again(self) -> None:
        """What `TaskBody.shown` says has changed. From any thread."""
        with self._changed:
            if self._machine.phase is TaskPhase.RUNNING and not self._machine.stopping:
                self._say_running(safe=False)

    def _run(self, stop: threading.Event) -> None:
        with log_context.bind_fields(connector=self.task.connector, task=self.task.task):
            self._tell(TaskThreadStarted())
            while self._machine.phase is not TaskPhase.ENDED:
                self._tell(self._carry_out(self._next()))
            with self._changed:
                self._decline()

    def _next(self) -> TaskLifecycleAction:
        with self._changed:
            return self._todo.popleft()

    def _carry_out(self, instruction: TaskLifecycleAction) -> TaskLifecycleEvent | None:
        try:
            match instruction:
                case StartTask():
                    self._body.start_up()
                    return TaskStarted()
                case RunOnce():
                    self._body.come_round()
                    return IterationDone()
                case StayIdle():
                    self._rest()
                    return None
                case Reconfigure():
                    self._consider()
                    return ReconfigureDone()
                case _:
                    return self._close()
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            self._note(error)
        return self._close()

    def _rest(self) -> None:
        while True:
            self._body.rest()
            with self._changed:
                self._changed.wait_for(lambda: len(self._todo) > 0, _IDLE_WAIT_S)
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

    def _close(self) -> TaskEnded:
        try:
            self._body.close_down()
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            self._note(error)
        return TaskEnded(self._trace)

    def _note(self, error: BaseException) -> None:
        """The first one is the status's."""
        log_failure(_LOG, f"task {self.task}", error)
        if self._trace is None:
            self._trace = format_trace(error)

    def _tell(self, event: TaskLifecycleEvent | None) -> None:
        if event is None:
            return
        with self._changed:
            for each in self._machine.step(event):
                if not isinstance(each, PublishStatus):
                    self._todo.append(each)
                elif each.state is RunState.RUNNING:
                    self._say_running(safe=each.safe)
                else:
                    self._say(each.state, each.trace, safe=each.safe)
            self._changed.notify_all()

    def _say_running(self, *, safe: bool) -> None:
        state, trace = self._body.shown()
        self._say(state, trace, safe=safe)
