"""State machine of one connector on a worker, like Java's WorkerConnector.

The connector's methods (initialize, start, stop) are called one at a time on the connector's
thread. If several target states are requested during a call, only the last one is applied, and the
earlier requests are completed as superseded. Unlike in Java, a connector that failed after its
start is stopped too.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState

State = RunState


class ConnectorPhase(enum.Enum):
    """Phase of a connector's lifecycle. A call of a connector method changes the phase when the
    method returns, not when it is called."""

    NEW = "new"
    INIT = "init"
    STARTED = "started"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    ENDED = "ended"


# Events


@dataclass(frozen=True, slots=True)
class ConnectorThreadStarted:
    """Event: the connector's thread has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStateRequested:
    """Event: a target state (running, paused or stopped) was requested.
    `CompleteTargetStateRequest` with the same `token` follows."""

    state: TargetState
    token: int


@dataclass(frozen=True, slots=True)
class ConnectorCallReturned:
    """Event: the connector method called last has returned, or has raised an exception whose stack
    trace is `trace`."""

    trace: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorFailed:
    """Event: the connector reported that it has failed."""

    trace: str


@dataclass(frozen=True, slots=True)
class ConnectorShutdownRequested:
    """Event: the connector must stop."""


@dataclass(frozen=True, slots=True)
class ConnectorAbandoned:
    """Event: the connector did not stop in time. The statuses it publishes from now on are
    ignored."""


ConnectorLifecycleEvent: TypeAlias = (
    ConnectorThreadStarted
    | TargetStateRequested
    | ConnectorCallReturned
    | ConnectorFailed
    | ConnectorShutdownRequested
    | ConnectorAbandoned
)

# Actions


@dataclass(frozen=True, slots=True)
class CallConnectorInitialize:
    """Action: open the offset reader of a source connector and initialize the connector.

    `ConnectorCallReturned` follows.
    """


@dataclass(frozen=True, slots=True)
class CallConnectorStart:
    """Action: start the connector. `ConnectorCallReturned` follows."""


@dataclass(frozen=True, slots=True)
class CallConnectorStop:
    """Action: stop the connector. `ConnectorCallReturned` follows."""


@dataclass(frozen=True, slots=True)
class CloseConnector:
    """Action: close the connector's context and offset reader. This is the last action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishConnectorStatus:
    """Action: write the connector's status. If `safe` is true, write it only if no other worker has
    written a status in a newer group generation."""

    state: State
    trace: str | None = None
    safe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteTargetStateRequest:
    """Action: complete a target state request. `error` says why the target state was not reached;
    None on success."""

    token: int
    state: TargetState
    error: str | None = None


ConnectorLifecycleAction: TypeAlias = (
    CallConnectorInitialize
    | CallConnectorStart
    | CallConnectorStop
    | CloseConnector
    | PublishConnectorStatus
    | CompleteTargetStateRequest
)

_PHASE_AND_STATUS = {
    TargetState.STARTED: (ConnectorPhase.STARTED, State.RUNNING),
    TargetState.PAUSED: (ConnectorPhase.PAUSED, State.PAUSED),
    TargetState.STOPPED: (ConnectorPhase.STOPPED, State.STOPPED),
}


class ConnectorLifecycle:
    """State machine of a connector.

    Invariants: at most one connector method is being called; every target state request is
    completed exactly once; no action follows after the phase ENDED.
    """

    def __init__(self) -> None:
        self._phase = ConnectorPhase.NEW
        self._call: CallConnectorInitialize | CallConnectorStart | CallConnectorStop | None = None
        self._request: TargetStateRequested | None = None
        self._next: TargetStateRequested | None = None
        self._shutdown = False
        self._abandoned = False
        self._started = False  # the connector was started and has not been stopped since then

    @property
    def phase(self) -> ConnectorPhase:
        return self._phase

    @property
    def is_running(self) -> bool:
        """True if the connector can generate task configs."""
        return self._phase is ConnectorPhase.STARTED and not isinstance(
            self._call, CallConnectorStop
        )

    def process_event(self, event: ConnectorLifecycleEvent) -> list[ConnectorLifecycleAction]:
        actions = self._handle_event(event)
        if self._call is None and self._phase not in (ConnectorPhase.NEW, ConnectorPhase.ENDED):
            actions += self._start_next_action()
        if self._abandoned and not isinstance(event, ConnectorAbandoned):
            actions = [each for each in actions if not isinstance(each, PublishConnectorStatus)]
        return actions

    def _handle_event(self, event: ConnectorLifecycleEvent) -> list[ConnectorLifecycleAction]:
        match event:
            case ConnectorThreadStarted():
                assert self._phase is ConnectorPhase.NEW, self._phase
                self._phase, self._call = ConnectorPhase.INIT, CallConnectorInitialize()
                return [CallConnectorInitialize()]
            case TargetStateRequested():
                return self._queue_target_state_request(event)
            case ConnectorFailed(trace):
                return self._publish_failure(trace)
            case ConnectorShutdownRequested():
                self._shutdown = True
                return []
            case ConnectorAbandoned():
                if self._abandoned or self._phase is ConnectorPhase.ENDED:
                    return []
                self._abandoned = True
                return [PublishConnectorStatus(state=State.UNASSIGNED, safe=True)]
            case ConnectorCallReturned(trace):
                assert self._call is not None, event
                return self._finish_connector_call(trace)

    def _queue_target_state_request(
        self, request: TargetStateRequested
    ) -> list[ConnectorLifecycleAction]:
        if self._shutdown or self._phase is ConnectorPhase.ENDED:
            return [_build_request_failure(request, "the connector is shutting down")]
        superseded, self._next = self._next, request
        if superseded is None:
            return []
        return [
            _build_request_failure(superseded, f"superseded by a request for {request.state.value}")
        ]

    def _publish_failure(self, trace: str) -> list[ConnectorLifecycleAction]:
        """Publish the status FAILED, unless a failure has already been published."""
        if self._phase in (ConnectorPhase.FAILED, ConnectorPhase.ENDED):
            return []
        self._phase = ConnectorPhase.FAILED
        return [PublishConnectorStatus(state=State.FAILED, trace=trace, safe=True)]

    def _finish_connector_call(self, trace: str | None) -> list[ConnectorLifecycleAction]:
        call, self._call = self._call, None
        self._started = isinstance(call, CallConnectorStart) and trace is None
        if isinstance(call, CallConnectorInitialize):
            return [] if trace is None else self._publish_failure(trace)
        if self._shutdown and self._request is None:
            return self._end_lifecycle(trace)
        request, self._request = self._request, None
        assert request is not None, call
        if trace is None or request.state is TargetState.STOPPED:
            return self._complete_target_state_request(
                request
            )  # the connector counts as stopped even if `stop` raised an exception
        return [*self._publish_failure(trace), _build_request_failure(request, trace)]

    def _complete_target_state_request(
        self, request: TargetStateRequested
    ) -> list[ConnectorLifecycleAction]:
        if self._phase is ConnectorPhase.FAILED and request.state is not TargetState.STOPPED:
            return [
                _build_request_failure(request, "the connector has failed")
            ]  # the connector reported its failure during the call
        self._phase, state = _PHASE_AND_STATUS[request.state]
        return [
            PublishConnectorStatus(state=state),
            CompleteTargetStateRequest(token=request.token, state=request.state),
        ]

    def _start_next_action(self) -> list[ConnectorLifecycleAction]:
        if self._shutdown:
            return self._begin_shutdown()
        request, self._next = self._next, None
        if request is None:
            return []
        phase, _ = _PHASE_AND_STATUS[request.state]
        if self._phase is phase:
            return [CompleteTargetStateRequest(token=request.token, state=request.state)]
        if self._phase is ConnectorPhase.FAILED and request.state is not TargetState.STOPPED:
            return [_build_request_failure(request, "the connector has failed")]
        call: CallConnectorStart | CallConnectorStop | None = None
        if request.state is TargetState.STARTED:
            call = CallConnectorStart()
        elif self._started:
            call = CallConnectorStop()
        if call is None:
            return self._complete_target_state_request(request)
        self._request, self._call = request, call
        return [call]

    def _begin_shutdown(self) -> list[ConnectorLifecycleAction]:
        actions: list[ConnectorLifecycleAction] = []
        if self._next is not None:
            actions.append(_build_request_failure(self._next, "the connector is shutting down"))
            self._next = None
        if self._started:
            self._call = CallConnectorStop()
            return [*actions, CallConnectorStop()]
        return actions + self._end_lifecycle(None)

    def _end_lifecycle(self, trace: str | None) -> list[ConnectorLifecycleAction]:
        self._phase = ConnectorPhase.ENDED
        if trace is not None:
            return [
                PublishConnectorStatus(state=State.FAILED, trace=trace, safe=True),
                CloseConnector(),
            ]
        return [PublishConnectorStatus(state=State.UNASSIGNED, safe=True), CloseConnector()]


def _build_request_failure(
    request: TargetStateRequested, reason: str
) -> CompleteTargetStateRequest:
    return CompleteTargetStateRequest(token=request.token, state=request.state, error=reason)
