"""Runs one connector on its own thread, as `connector_lifecycle` decides."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.api.connector import Connector
from connect_runtime.api.errors import FatalError
from connect_runtime.base import log_context
from connect_runtime.storage import cluster_config_state
from connect_runtime.system.threads import OwnedThread, ThreadGroup
from connect_runtime.worker import worker_task
from connect_runtime.worker.connector_lifecycle import (
    CallInitialize,
    CallStart,
    CallStop,
    CloseConnector,
    CompleteRequest,
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
from connect_runtime.worker.worker_task import WriteTaskStatus

_LOG = logging.getLogger(__name__)
TargetState = cluster_config_state.TargetState
_IDLE_WAIT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConnectorDeps:
    """What one connector is run with; `on_reached` is told of every wish, once."""

    connector: Connector
    props: Callable[[], Mapping[str, str]] = field(repr=False)
    make_context: Callable[[Callable[[Exception], None]], WorkerConnectorContext]
    say: WriteTaskStatus
    on_reached: Callable[[TargetState, str | None], None]
    stopping: threading.Event
    given_up: threading.Event


class WorkerConnector:
    """One connector, from `start` on. Its methods are for other threads than the connector's.

    Invariant: `_todo` holds the calls that the machine asks for and the thread has not made.
    """

    def __init__(self, name: str, parts: WorkerConnectorDeps) -> None:
        self.name = name
        self._parts = parts
        self._connector = parts.connector
        self._machine = ConnectorLifecycle()
        self._changed = threading.Condition(threading.RLock())
        self._todo: deque[ConnectorLifecycleAction] = deque()
        self._context = parts.make_context(self.fail)
        self._tokens = 0
        self._thread: OwnedThread | None = None

    @property
    def subject(self) -> str:
        """Of its statuses."""
        return self.name

    def start(self, owner: ThreadGroup, state: TargetState) -> None:
        self.wish(state)
        self._thread = owner.start(f"connector-thread-{self.name}", self._run)

    def wish(self, state: TargetState) -> None:
        with self._changed:
            self._tokens += 1
            self._tell(TargetStateRequested(state=state, token=self._tokens))

    def is_running(self) -> bool:
        """Can it be asked for task configs?"""
        with self._changed:
            return self._machine.running

    def task_configs(self, max_tasks: int) -> object:
        """What the connector answers. Raises what it raises."""
        return self._connector.task_configs(max_tasks)

    def fail(self, error: Exception) -> None:
        """The connector says that it has failed, or has done what it may not."""
        self._tell(ConnectorFailed(worker_task.format_trace(error)))

    def ask_stop(self) -> None:
        self._parts.stopping.set()
        if self._thread is not None:
            self._thread.stop.set()
        self._tell(ConnectorShutdownRequested())

    def join(self, timeout_s: float) -> bool:
        """Has it ended by then?"""
        return self._thread is None or self._thread.join(timeout_s)

    def give_up(self) -> None:
        _LOG.error("connector %s did not stop in time and is left to itself", self.name)
        self._parts.given_up.set()
        self._context.close()
        self._tell(ConnectorAbandoned())

    def _run(self, stop: threading.Event) -> None:
        with log_context.bind_fields(connector=self.name):
            self._tell(ConnectorThreadStarted())
            while self._machine.phase is not ConnectorPhase.ENDED:
                call = self._next()
                if call is not None:
                    self._carry_out(call)
            self._context.close()

    def _next(self) -> ConnectorLifecycleAction | None:
        with self._changed:
            self._changed.wait_for(self._has_news, _IDLE_WAIT_S)
            return self._todo.popleft() if self._todo else None

    def _has_news(self) -> bool:
        return len(self._todo) > 0 or self._machine.phase is ConnectorPhase.ENDED

    def _carry_out(self, call: ConnectorLifecycleAction) -> None:
        trace = None
        try:
            self._call(call)
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            worker_task.log_failure(_LOG, f"connector {self.name}", error)
            trace = worker_task.format_trace(error)
        self._tell(ConnectorCallReturned(trace))

    def _call(self, call: ConnectorLifecycleAction) -> None:
        match call:
            case CallInitialize():
                self._connector.initialize(self._context)
            case CallStart():
                self._connector.start(self._parts.props())
            case CallStop():
                self._connector.stop()
            case _:
                raise FatalError(f"nothing is known of {call}")

    def _tell(self, event: ConnectorLifecycleEvent) -> None:
        with self._changed:
            for each in self._machine.step(event):
                match each:
                    case PublishConnectorStatus(state=state, trace=trace, safe=safe):
                        self._parts.say(state, trace, safe=safe)
                    case CompleteRequest(state=state, error=error):
                        self._parts.on_reached(state, error)
                    case CloseConnector():
                        pass  # by the thread, which ends
                    case _:
                        self._todo.append(each)
            self._changed.notify_all()
