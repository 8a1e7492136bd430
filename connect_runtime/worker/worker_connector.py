"""Runs one connector on its own thread, as directed by `connector_state_machine`."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.api.connector import Connector
from connect_runtime.api.errors import FatalError
from connect_runtime.base import log_context
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.system.supervised_threads import StoppableThread, ThreadGroup
from connect_runtime.worker import worker_task
from connect_runtime.worker.config_provider_secret_masking import HideValues
from connect_runtime.worker.connector_state_machine import (
    CallConnectorInitialize,
    CallConnectorStart,
    CallConnectorStop,
    CloseConnector,
    CompleteTargetStateRequest,
    ConnectorAbandoned,
    ConnectorCallReturned,
    ConnectorFailed,
    ConnectorLifecycle,
    ConnectorLifecycleAction,
    ConnectorLifecycleEvent,
    ConnectorPhase,
    ConnectorShutdownRequested,
    ConnectorThreadStarted,
    PublishConnectorStatus,
    TargetStateRequested,
)
from connect_runtime.worker.plugin_contexts import WorkerConnectorContext
from connect_runtime.worker.worker_task import TaskStatusWriter

_LOG = logging.getLogger(__name__)
_IDLE_WAIT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConnectorDeps:
    """Dependencies of one `WorkerConnector`."""

    connector: Connector
    props: Callable[[], Mapping[str, str]] = field(repr=False)
    make_context: Callable[[Callable[[Exception], None]], WorkerConnectorContext]
    write_status: TaskStatusWriter
    hide: HideValues
    """Replaces config provider values in error messages."""
    on_target_state_reached: Callable[[TargetState, str | None], None]
    """Called once per target state request, with an error message if the state was not reached."""
    stopping: threading.Event
    given_up: threading.Event


class WorkerConnector:
    """Runs one connector on its own thread. The public methods are called from other threads.

    Invariant: `_todo` contains the actions that the connector's thread has not executed yet.
    """

    def __init__(self, name: str, deps: WorkerConnectorDeps) -> None:
        self.name = name
        self._deps = deps
        self._connector = deps.connector
        self._machine = ConnectorLifecycle()
        self._changed = threading.Condition(threading.RLock())
        self._todo: deque[ConnectorLifecycleAction] = deque()
        self._context = deps.make_context(self.mark_failed)
        self._last_token = 0
        self._thread: StoppableThread | None = None

    @property
    def subject(self) -> str:
        """Connector name under which the connector's statuses are published."""
        return self.name

    def start(self, owner: ThreadGroup, state: TargetState) -> None:
        self.request_target_state(state)
        self._thread = owner.start(f"connector-thread-{self.name}", self._run_connector_thread)

    def request_target_state(self, state: TargetState) -> None:
        """Request a target state for the connector."""
        with self._changed:
            self._last_token += 1
            self._process_event(TargetStateRequested(state=state, token=self._last_token))

    def is_running(self) -> bool:
        """True if the connector can generate task configs."""
        with self._changed:
            return self._machine.is_running

    def call_task_configs(self, max_tasks: int) -> object:
        """Call the connector's `task_configs` and return its unchecked result. Any exception
        propagates."""
        return self._connector.task_configs(max_tasks)

    def mark_failed(self, error: Exception) -> None:
        """Publish the connector as FAILED, because it reported an error or returned an invalid
        result."""
        trace = worker_task.format_exception_trace(error, hide=self._deps.hide)
        self._process_event(ConnectorFailed(trace))

    def request_stop(self) -> None:
        """Request the connector to stop, without waiting for it."""
        self._deps.stopping.set()
        if self._thread is not None:
            self._thread.stop.set()
        self._process_event(ConnectorShutdownRequested())

    def join(self, timeout_s: float) -> bool:
        """Wait for the connector's thread to end. Return False on timeout."""
        return self._thread is None or self._thread.join(timeout_s)

    def abandon(self) -> None:
        """Stop waiting for a connector that did not stop in time. Its thread keeps running, but its
        later statuses are ignored."""
        _LOG.error("connector %s did not stop in time and was abandoned", self.name)
        self._deps.given_up.set()
        self._context.close()
        self._process_event(ConnectorAbandoned())

    def _run_connector_thread(self, stop: threading.Event) -> None:
        with log_context.bind_log_fields(connector=self.name):
            self._process_event(ConnectorThreadStarted())
            while self._machine.phase is not ConnectorPhase.ENDED:
                call = self._wait_for_next_action()
                if call is not None:
                    self._execute_lifecycle_action(call)
            self._context.close()

    def _wait_for_next_action(self) -> ConnectorLifecycleAction | None:
        with self._changed:
            self._changed.wait_for(self._has_pending_actions_or_has_ended, _IDLE_WAIT_S)
            return self._todo.popleft() if self._todo else None

    def _has_pending_actions_or_has_ended(self) -> bool:
        return len(self._todo) > 0 or self._machine.phase is ConnectorPhase.ENDED

    def _execute_lifecycle_action(self, call: ConnectorLifecycleAction) -> None:
        trace = None
        try:
            self._call_connector_method(call)
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            hide = self._deps.hide
            worker_task.log_connector_or_task_failure(
                _LOG, f"connector {self.name}", error, hide=hide
            )
            trace = worker_task.format_exception_trace(error, hide=hide)
        self._process_event(ConnectorCallReturned(trace))

    def _call_connector_method(self, call: ConnectorLifecycleAction) -> None:
        match call:
            case CallConnectorInitialize():
                self._connector.initialize(self._context)
            case CallConnectorStart():
                self._connector.start(self._deps.props())
            case CallConnectorStop():
                self._connector.stop()
            case _:
                raise FatalError(f"unexpected action {call}")

    def _process_event(self, event: ConnectorLifecycleEvent) -> None:
        with self._changed:
            for each in self._machine.process_event(event):
                match each:
                    case PublishConnectorStatus(state=state, trace=trace, safe=safe):
                        self._deps.write_status(state, trace, safe=safe)
                    case CompleteTargetStateRequest(state=state, error=error):
                        self._deps.on_target_state_reached(state, error)
                    case CloseConnector():
                        pass  # the connector's thread closes the context when the thread ends
                    case _:
                        self._todo.append(each)
            self._changed.notify_all()
