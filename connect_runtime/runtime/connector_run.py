"""Runs one connector on its thread, as `core.task.connector_lifecycle` says."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.api import connector, errors
from connect_runtime.base import log_context
from connect_runtime.core.state import cluster_config
from connect_runtime.core.task import connector_lifecycle as lifecycle
from connect_runtime.runtime import contexts, task_run, traces
from connect_runtime.system import threads

_LOG = logging.getLogger(__name__)
TargetState = cluster_config.TargetState
_IDLE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorParts:
    """What one connector is run with; `on_reached` is told of every wish, once."""

    connector: connector.Connector
    props: Callable[[], Mapping[str, str]] = field(repr=False)
    make_context: Callable[[Callable[[Exception], None]], contexts.ConnectorContext]
    say: task_run.Say
    on_reached: Callable[[TargetState, str | None], None]
    stopping: threading.Event
    given_up: threading.Event


class ConnectorRun:
    """One connector, from `start` on. Its methods are for other threads than the connector's.

    Invariant: `_todo` holds the calls that the machine asks for and the thread has not made.
    """

    def __init__(self, name: str, parts: ConnectorParts) -> None:
        self.name = name
        self._parts = parts
        self._connector = parts.connector
        self._machine = lifecycle.ConnectorLifecycle()
        self._changed = threading.Condition(threading.RLock())
        self._todo: deque[lifecycle.Instruction] = deque()
        self._context = parts.make_context(self.fail)
        self._tokens = 0
        self._thread: threads.OwnedThread | None = None

    @property
    def subject(self) -> str:
        """Of its statuses."""
        return self.name

    def start(self, owner: threads.Threads, state: TargetState) -> None:
        self.wish(state)
        self._thread = owner.start(f"connector-thread-{self.name}", self._run)

    def wish(self, state: TargetState) -> None:
        with self._changed:
            self._tokens += 1
            self._tell(lifecycle.Wished(state=state, token=self._tokens))

    def is_running(self) -> bool:
        """Can it be asked for task configs?"""
        with self._changed:
            return self._machine.running

    def task_configs(self, max_tasks: int) -> object:
        """What the connector answers. Raises what it raises."""
        return self._connector.task_configs(max_tasks)

    def fail(self, error: Exception) -> None:
        """The connector says that it has failed, or has done what it may not."""
        self._tell(lifecycle.Raised(traces.of(error)))

    def ask_stop(self) -> None:
        self._parts.stopping.set()
        if self._thread is not None:
            self._thread.stop.set()
        self._tell(lifecycle.ShutdownAsked())

    def join(self, timeout_s: float) -> bool:
        """Has it ended by then?"""
        return self._thread is None or self._thread.join(timeout_s)

    def give_up(self) -> None:
        _LOG.error("connector %s did not stop in time and is left to itself", self.name)
        self._parts.given_up.set()
        self._context.close()
        self._tell(lifecycle.GivenUp())

    def _run(self, stop: threading.Event) -> None:
        with log_context.within(connector=self.name):
            self._tell(lifecycle.Begun())
            while self._machine.phase is not lifecycle.Phase.ENDED:
                call = self._next()
                if call is not None:
                    self._carry_out(call)
            self._context.close()

    def _next(self) -> lifecycle.Instruction | None:
        with self._changed:
            self._changed.wait_for(self._has_news, _IDLE_S)
            return self._todo.popleft() if self._todo else None

    def _has_news(self) -> bool:
        return len(self._todo) > 0 or self._machine.phase is lifecycle.Phase.ENDED

    def _carry_out(self, call: lifecycle.Instruction) -> None:
        trace = None
        try:
            self._call(call)
        except BaseException as error:  # noqa: BLE001 - of plugins, which may raise anything
            traces.log(_LOG, f"connector {self.name}", error)
            trace = traces.of(error)
        self._tell(lifecycle.Called(trace))

    def _call(self, call: lifecycle.Instruction) -> None:
        match call:
            case lifecycle.Initialise():
                self._connector.initialize(self._context)
            case lifecycle.Start():
                self._connector.start(self._parts.props())
            case lifecycle.Stop():
                self._connector.stop()
            case _:
                raise errors.FatalError(f"nothing is known of {call}")

    def _tell(self, event: lifecycle.Event) -> None:
        with self._changed:
            for each in self._machine.step(event):
                match each:
                    case lifecycle.Say(state=state, trace=trace, safe=safe):
                        self._parts.say(state, trace, safe=safe)
                    case lifecycle.Tell(state=state, error=error):
                        self._parts.on_reached(state, error)
                    case lifecycle.Close():
                        pass  # by the thread, which ends
                    case _:
                        self._todo.append(each)
            self._changed.notify_all()
