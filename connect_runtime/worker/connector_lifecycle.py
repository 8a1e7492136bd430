"""State machine of one connector on a worker, as Java's WorkerConnector.

Its calls (initialize, start, stop) run one at a time on the connector's thread. Of the target
states that are requested meanwhile only the last is applied; the request before it is completed as
superseded. Unlike in Java, a connector that failed after its start is stopped too.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.status_records import RunState

TargetState = cluster_config_state.TargetState
State = RunState


class ConnectorPhase(enum.Enum):
    """What it is when no call is being made."""

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
    """The connector's thread runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStateRequested:
    """It should be in this state; `token` is told how that went."""

    state: TargetState
    token: int


@dataclass(frozen=True, slots=True)
class ConnectorCallReturned:
    """The last call has returned, or has thrown what `trace` says."""

    trace: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorFailed:
    """The connector says of itself that it has failed."""

    trace: str


@dataclass(frozen=True, slots=True)
class ConnectorShutdownRequested:
    """It is not to run here any longer."""


@dataclass(frozen=True, slots=True)
class ConnectorAbandoned:
    """It did not stop in time; nobody listens to it any more."""


ConnectorLifecycleEvent: TypeAlias = (
    ConnectorThreadStarted
    | TargetStateRequested
    | ConnectorCallReturned
    | ConnectorFailed
    | ConnectorShutdownRequested
    | ConnectorAbandoned
)

# Instructions


@dataclass(frozen=True, slots=True)
class CallInitialize:
    """Open its offsets if it is a source, initialise it; tell `ConnectorCallReturned`."""


@dataclass(frozen=True, slots=True)
class CallStart:
    """Start it; tell `ConnectorCallReturned`."""


@dataclass(frozen=True, slots=True)
class CallStop:
    """Stop it; tell `ConnectorCallReturned`."""


@dataclass(frozen=True, slots=True)
class CloseConnector:
    """Close its context and its offsets; nothing more comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishConnectorStatus:
    """Write the status; `safe`: only where no newer worker has spoken."""

    state: State
    trace: str | None = None
    safe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteRequest:
    """The wish of `token` is fulfilled, or `error` says why it is not."""

    token: int
    state: TargetState
    error: str | None = None


ConnectorLifecycleAction: TypeAlias = (
    CallInitialize
    | CallStart
    | CallStop
    | CloseConnector
    | PublishConnectorStatus
    | CompleteRequest
)

_PHASE_AND_STATUS = {
    TargetState.STARTED: (ConnectorPhase.STARTED, State.RUNNING),
    TargetState.PAUSED: (ConnectorPhase.PAUSED, State.PAUSED),
    TargetState.STOPPED: (ConnectorPhase.STOPPED, State.STOPPED),
}


class ConnectorLifecycle:
    """Invariants: at most one call is being made; every wish is told of exactly once; nothing is
    said after the end."""

    def __init__(self) -> None:
        self._phase = ConnectorPhase.NEW
        self._calling: CallInitialize | CallStart | CallStop | None = None
        self._wish: TargetStateRequested | None = None
        self._next: TargetStateRequested | None = None
        self._shutdown = False
        self._given_up = False
        self._started = False  # and not stopped since

    @property
    def phase(self) -> ConnectorPhase:
        return self._phase

    @property
    def running(self) -> bool:
        """Whether it can be asked for task configs."""
        return self._phase is ConnectorPhase.STARTED and not isinstance(self._calling, CallStop)

    def step(self, event: ConnectorLifecycleEvent) -> list[ConnectorLifecycleAction]:
        said = self._note(event)
        if self._calling is None and self._phase not in (ConnectorPhase.NEW, ConnectorPhase.ENDED):
            said += self._go_on()
        if self._given_up and not isinstance(event, ConnectorAbandoned):
            said = [each for each in said if not isinstance(each, PublishConnectorStatus)]
        return said

    def _note(self, event: ConnectorLifecycleEvent) -> list[ConnectorLifecycleAction]:
        match event:
            case ConnectorThreadStarted():
                assert self._phase is ConnectorPhase.NEW, self._phase
                self._phase, self._calling = ConnectorPhase.INIT, CallInitialize()
                return [CallInitialize()]
            case TargetStateRequested():
                return self._wished(event)
            case ConnectorFailed(trace):
                return self._fail(trace)
            case ConnectorShutdownRequested():
                self._shutdown = True
                return []
            case ConnectorAbandoned():
                if self._given_up or self._phase is ConnectorPhase.ENDED:
                    return []
                self._given_up = True
                return [PublishConnectorStatus(state=State.UNASSIGNED, safe=True)]
            case ConnectorCallReturned(trace):
                assert self._calling is not None, event
                return self._called(trace)

    def _wished(self, wish: TargetStateRequested) -> list[ConnectorLifecycleAction]:
        if self._shutdown or self._phase is ConnectorPhase.ENDED:
            return [_build_request_failure(wish, "the connector is being shut down")]
        overtaken, self._next = self._next, wish
        if overtaken is None:
            return []
        return [_build_request_failure(overtaken, f"overtaken by the wish for {wish.state.value}")]

    def _fail(self, trace: str) -> list[ConnectorLifecycleAction]:
        """The first failure is the one that is told."""
        if self._phase in (ConnectorPhase.FAILED, ConnectorPhase.ENDED):
            return []
        self._phase = ConnectorPhase.FAILED
        return [PublishConnectorStatus(state=State.FAILED, trace=trace, safe=True)]

    def _called(self, trace: str | None) -> list[ConnectorLifecycleAction]:
        call, self._calling = self._calling, None
        self._started = isinstance(call, CallStart) and trace is None
        if isinstance(call, CallInitialize):
            return [] if trace is None else self._fail(trace)
        if self._shutdown and self._wish is None:
            return self._end(trace)
        wish, self._wish = self._wish, None
        assert wish is not None, call
        if trace is None or wish.state is TargetState.STOPPED:
            return self._reached(wish)  # it counts as stopped even if stopping threw
        return [*self._fail(trace), _build_request_failure(wish, trace)]

    def _reached(self, wish: TargetStateRequested) -> list[ConnectorLifecycleAction]:
        if self._phase is ConnectorPhase.FAILED and wish.state is not TargetState.STOPPED:
            return [
                _build_request_failure(wish, "the connector has failed")
            ]  # it said so while being called
        self._phase, state = _PHASE_AND_STATUS[wish.state]
        return [
            PublishConnectorStatus(state=state),
            CompleteRequest(token=wish.token, state=wish.state),
        ]

    def _go_on(self) -> list[ConnectorLifecycleAction]:
        if self._shutdown:
            return self._shut_down()
        wish, self._next = self._next, None
        if wish is None:
            return []
        phase, _ = _PHASE_AND_STATUS[wish.state]
        if self._phase is phase:
            return [CompleteRequest(token=wish.token, state=wish.state)]
        if self._phase is ConnectorPhase.FAILED and wish.state is not TargetState.STOPPED:
            return [_build_request_failure(wish, "the connector has failed")]
        call: CallStart | CallStop | None = None
        if wish.state is TargetState.STARTED:
            call = CallStart()
        elif self._started:
            call = CallStop()
        if call is None:
            return self._reached(wish)
        self._wish, self._calling = wish, call
        return [call]

    def _shut_down(self) -> list[ConnectorLifecycleAction]:
        said: list[ConnectorLifecycleAction] = []
        if self._next is not None:
            said.append(_build_request_failure(self._next, "the connector is being shut down"))
            self._next = None
        if self._started:
            self._calling = CallStop()
            return [*said, CallStop()]
        return said + self._end(None)

    def _end(self, trace: str | None) -> list[ConnectorLifecycleAction]:
        self._phase = ConnectorPhase.ENDED
        if trace is not None:
            return [
                PublishConnectorStatus(state=State.FAILED, trace=trace, safe=True),
                CloseConnector(),
            ]
        return [PublishConnectorStatus(state=State.UNASSIGNED, safe=True), CloseConnector()]


def _build_request_failure(wish: TargetStateRequested, why: str) -> CompleteRequest:
    return CompleteRequest(token=wish.token, state=wish.state, error=why)
