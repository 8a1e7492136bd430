"""Runs one task on its own thread, as directed by `task_state_machine`.

`WorkerTask` contains the behavior that all tasks share. `TypeSpecificTask` has one implementation
each for source, sink and pipeline tasks. An exception of the `TypeSpecificTask` or the plugin fails
only this task. A task that does not stop in time is abandoned: its thread keeps running, but its
later statuses are ignored.
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
from connect_runtime.system.supervised_threads import StoppableThread, ThreadGroup
from connect_runtime.worker.config_provider_secret_masking import HideValues
from connect_runtime.worker.task_state_machine import (
    IterationDone,
    KeepTaskIdle,
    PublishStatus,
    ReconfigurationDone,
    ReconfigurationRequested,
    ReconfigureTask,
    RunTaskOnce,
    StartTask,
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


def format_exception_trace(error: BaseException, *, hide: HideValues) -> str:
    """Format an exception for a connector or task status: the error message on the first lines,
    followed by the stack trace. User interfaces may show only the first line. `hide` is a
    function that replaces values of config providers with their `${…}` references."""
    said = "".join(traceback.format_exception_only(error)).strip()
    return hide(f"{said}\n{_format_exception_stack(error)}")


def log_connector_or_task_failure(
    logger: logging.Logger, subject: str, error: BaseException, *, hide: HideValues
) -> None:
    """Log that a connector or task (`subject`) failed. For expected errors, the stack trace is
    logged only at DEBUG. `hide` is a function that replaces values of config providers with their
    `${…}` references."""
    stack = _format_exception_stack(error)
    hidden = hide(stack)
    more, exc_info = ("", error) if hidden == stack else (f"\n{hidden}", None)
    if isinstance(error, ConnectError):
        logger.error("%s failed: %s", subject, hide(str(error)))
        logger.debug("%s failed in%s", subject, more, exc_info=exc_info)
    else:
        logger.error("%s failed with an unexpected error%s", subject, more, exc_info=exc_info)


def _format_exception_stack(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


_LOG = logging.getLogger(__name__)


class CloseSteps:
    """Runs all steps of a task's shutdown even if some steps fail. `raise_first_error` raises the
    first failure at the end."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._failure: BaseException | None = None

    def run_shutdown_step(
        self, doing: str, step: Callable[[], object], *, is_fatal: bool = True
    ) -> None:
        """Run one shutdown step. If `is_fatal` is False, a failure of the step is only logged."""
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            if isinstance(error, RetriableError):  # the message is enough: a cluster is unavailable
                _LOG.error("%s of %s failed: %s", doing, self._of, error)
            else:
                _LOG.error("%s of %s failed", doing, self._of, exc_info=error)
            if is_fatal:
                self._failure = self._failure or error

    def raise_first_error(self) -> None:
        if self._failure is not None:
            raise self._failure


_IDLE_WAIT_S = 0.5


class TypeSpecificTask(Protocol):
    """The part of a worker task that depends on the task type. Called on the task's thread unless
    stated otherwise."""

    def start_up(self) -> None:
        """Create the task's clients, then initialize and start the plugin."""

    def run_once(self) -> None:
        """Poll records from a source task, or deliver records to a sink task, once."""

    def keep_paused_task_alive(self) -> None:
        """Keep the task's client sessions alive and return quickly. Called repeatedly while the
        task is paused, even before `start_up`."""

    def shut_down(self) -> None:
        """Commit offsets, stop the plugin if its start was attempted, and close all resources."""

    def get_status(self) -> tuple[RunState, str | None]:
        """Return the status to publish while the task runs, and the reason for this status (None if
        no reason is reported). May be called from any thread."""

    def on_stop_requested(self) -> None:
        """End all waits of the task, because it must stop. Called from another thread."""

    def on_abandoned(self) -> None:
        """Release all resources immediately, because the task was abandoned.

        Called from another thread.
        """


class TaskStatusWriter(Protocol):
    """Publishes a task's status. Never blocks. If `safe` is true, the status is written only if no
    other worker has written a status of this task in a newer group generation."""

    def __call__(self, state: RunState, trace: str | None, *, safe: bool) -> None: ...


ReconfigureCallback = Callable[[], bool]
"""Offers a new configuration to the task and returns True if the task accepts it. Called on the
task's thread."""


class WorkerTask:
    """Runs one task on its own thread. The public methods are called from other threads.

    Invariants: `_todo` contains the actions that the task's thread has not executed yet; each
    offered configuration is accepted or declined before or when the task ends.
    """

    def __init__(
        self,
        task: ConnectorTaskId,
        *,
        body: TypeSpecificTask,
        target: TargetState,
        write_status: TaskStatusWriter,
        hide: HideValues,
    ) -> None:
        """Create a worker task without starting it. `hide` replaces config provider values in error
        messages."""
        self.task = task
        self._hide = hide
        self._body = body
        self._write_status = write_status
        self._machine = TaskLifecycle(target)
        self._changed = threading.Condition(threading.RLock())
        self._todo: deque[TaskLifecycleAction] = deque()
        self._trace: str | None = None
        self._offer: tuple[ReconfigureCallback, futures.Future[bool]] | None = None
        self._thread: StoppableThread | None = None

    @property
    def subject(self) -> ConnectorTaskId:
        """Task id under which the task's statuses are published."""
        return self.task

    def start(self, owner: ThreadGroup) -> None:
        self._thread = owner.start(f"task-thread-{self.task}", self._run_task_thread)

    def set_target_state(self, state: TargetState) -> None:
        self._process_event(TaskTargetStateRequested(state))
        if state is TargetState.STOPPED:
            self._body.on_stop_requested()

    def request_reconfiguration(self, take_up: ReconfigureCallback) -> futures.Future[bool]:
        """Offer a new configuration to the task.

        `take_up` passes the configuration to the task and returns True if the task accepts it. It
        is called on the task's thread after the current iteration. The returned future contains its
        result, or False if the task has ended, fails, or receives another offer first.
        """
        answer: futures.Future[bool] = futures.Future()
        with self._changed:
            self._decline_pending_reconfiguration()
            if self._machine.phase is TaskPhase.ENDED:
                answer.set_result(False)
            else:
                self._offer = (take_up, answer)
                self._process_event(ReconfigurationRequested())
        return answer

    @property
    def has_ended(self) -> bool:
        """True if the task has finished, failed or been stopped."""
        return self._machine.phase is TaskPhase.ENDED

    def request_stop(self) -> None:
        """Request the task to stop, without waiting for it."""
        if self._thread is not None:
            self._thread.stop.set()
        self._process_event(TaskStopRequested())
        self._body.on_stop_requested()

    def join(self, timeout_s: float) -> bool:
        """Wait for the task's thread to end. Return False on timeout."""
        return self._thread is None or self._thread.join(timeout_s)

    def abandon(self) -> None:
        """Stop waiting for a task that did not stop in time. Its thread keeps running, but its
        later statuses are ignored."""
        _LOG.error("task %s did not stop in time and was abandoned", self.task)
        self._process_event(TaskAbandoned())
        try:
            self._body.on_abandoned()
        except Exception:  # noqa: BLE001 - of a plugin; its task is abandoned in any case
            _LOG.exception("failed to release the resources of abandoned task %s", self.task)

    def republish_status(self) -> None:
        """Publish the task's status again, because the result of `TypeSpecificTask.get_status` has
        changed.

        May be called from any thread.
        """
        with self._changed:
            if self._machine.phase is TaskPhase.RUNNING and not self._machine.is_stopping:
                self._publish_running_status(safe=False)

    def _run_task_thread(self, stop: threading.Event) -> None:
        with log_context.bind_log_fields(connector=self.task.connector, task=self.task.task):
            self._process_event(TaskThreadStarted())
            while self._machine.phase is not TaskPhase.ENDED:
                self._process_event(self._execute_lifecycle_action(self._take_next_action()))
            with self._changed:
                self._decline_pending_reconfiguration()

    def _take_next_action(self) -> TaskLifecycleAction:
        with self._changed:
            return self._todo.popleft()

    def _execute_lifecycle_action(
        self, instruction: TaskLifecycleAction
    ) -> TaskLifecycleEvent | None:
        try:
            match instruction:
                case StartTask():
                    self._body.start_up()
                    return TaskStarted()
                case RunTaskOnce():
                    self._body.run_once()
                    return IterationDone()
                case KeepTaskIdle():
                    self._keep_task_idle()
                    return None
                case ReconfigureTask():
                    self._run_requested_reconfiguration()
                    return ReconfigurationDone()
                case _:
                    return self._shut_down_task()
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            self._record_error(error)
        return self._shut_down_task()

    def _keep_task_idle(self) -> None:
        while True:
            self._body.keep_paused_task_alive()
            with self._changed:
                self._changed.wait_for(lambda: len(self._todo) > 0, _IDLE_WAIT_S)
                if self._todo:
                    return

    def _run_requested_reconfiguration(self) -> None:
        with self._changed:
            offer, self._offer = self._offer, None
        if offer is None:
            return
        take_up, answer = offer
        taken = False
        try:
            taken = take_up()
        except Exception:  # noqa: BLE001 - raised by a plugin; the task is restarted
            _LOG.exception("task %s failed to apply its new configuration", self.task)
        finally:
            answer.set_result(taken)

    def _decline_pending_reconfiguration(self) -> None:
        """Decline a pending reconfiguration offer. The caller must hold the lock."""
        offer, self._offer = self._offer, None
        if offer is not None:
            offer[1].set_result(False)

    def _shut_down_task(self) -> TaskEnded:
        try:
            self._body.shut_down()
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            self._record_error(error)
        return TaskEnded(self._trace)

    def _record_error(self, error: BaseException) -> None:
        """Log an exception of the task. Only the first one is published in the task's status."""
        log_connector_or_task_failure(_LOG, f"task {self.task}", error, hide=self._hide)
        if self._trace is None:
            self._trace = format_exception_trace(error, hide=self._hide)

    def _process_event(self, event: TaskLifecycleEvent | None) -> None:
        if event is None:
            return
        with self._changed:
            for each in self._machine.process_event(event):
                if not isinstance(each, PublishStatus):
                    self._todo.append(each)
                elif each.state is RunState.RUNNING:
                    self._publish_running_status(safe=each.safe)
                else:
                    self._write_status(each.state, each.trace, safe=each.safe)
            self._changed.notify_all()

    def _publish_running_status(self, *, safe: bool) -> None:
        state, trace = self._body.get_status()
        self._write_status(state, trace, safe=safe)
