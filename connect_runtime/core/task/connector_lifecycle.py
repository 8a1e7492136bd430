"""One connector's life on a worker: WorkerConnector's states and what leads from one to another.

Its calls (initialise, start, stop) are made one at a time on a thread of its own. Of wishes that
come meanwhile only the last is kept; who wished the one before is told that it was overtaken.
Other than in Java, one that was started and has failed since is stopped too, when it comes to that.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.core.state import cluster_config, status_records

TargetState = cluster_config.TargetState
State = status_records.State


class Phase(enum.Enum):
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
class Begun:
    """The connector's thread runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wished:
    """It should be in this state; `token` is told how that went."""

    state: TargetState
    token: int


@dataclass(frozen=True, slots=True)
class Called:
    """The last call has returned, or has thrown what `trace` says."""

    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """The connector says of itself that it has failed."""

    trace: str


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """It is not to run here any longer."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """It did not stop in time; nobody listens to it any more."""


Event: TypeAlias = Begun | Wished | Called | Raised | ShutdownAsked | GivenUp

# Instructions


@dataclass(frozen=True, slots=True)
class Initialise:
    """Open its offsets if it is a source, initialise it; tell `Called`."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start it; tell `Called`."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop it; tell `Called`."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close its context and its offsets; nothing more comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Write the status; `safe`: only where no newer worker has spoken."""

    state: State
    trace: str | None = None
    safe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """The wish of `token` is fulfilled, or `error` says why it is not."""

    token: int
    state: TargetState
    error: str | None = None


Instruction: TypeAlias = Initialise | Start | Stop | Close | Say | Tell

_REACHED = {
    TargetState.STARTED: (Phase.STARTED, State.RUNNING),
    TargetState.PAUSED: (Phase.PAUSED, State.PAUSED),
    TargetState.STOPPED: (Phase.STOPPED, State.STOPPED),
}


class ConnectorLifecycle:
    """Invariants: at most one call is being made; every wish is told of exactly once; nothing is
    said after the end."""

    def __init__(self) -> None:
        self._phase = Phase.NEW
        self._calling: Initialise | Start | Stop | None = None
        self._wish: Wished | None = None
        self._next: Wished | None = None
        self._shutdown = False
        self._given_up = False
        self._started = False  # and not stopped since

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def running(self) -> bool:
        """Whether it can be asked for task configs."""
        return self._phase is Phase.STARTED and not isinstance(self._calling, Stop)

    def step(self, event: Event) -> list[Instruction]:
        said = self._note(event)
        if self._calling is None and self._phase not in (Phase.NEW, Phase.ENDED):
            said += self._go_on()
        if self._given_up and not isinstance(event, GivenUp):
            said = [each for each in said if not isinstance(each, Say)]
        return said

    def _note(self, event: Event) -> list[Instruction]:
        match event:
            case Begun():
                assert self._phase is Phase.NEW, self._phase
                self._phase, self._calling = Phase.INIT, Initialise()
                return [Initialise()]
            case Wished():
                return self._wished(event)
            case Raised(trace):
                return self._fail(trace)
            case ShutdownAsked():
                self._shutdown = True
                return []
            case GivenUp():
                if self._given_up or self._phase is Phase.ENDED:
                    return []
                self._given_up = True
                return [Say(state=State.UNASSIGNED, safe=True)]
            case Called(trace):
                assert self._calling is not None, event
                return self._called(trace)

    def _wished(self, wish: Wished) -> list[Instruction]:
        if self._shutdown or self._phase is Phase.ENDED:
            return [_failed(wish, "the connector is being shut down")]
        overtaken, self._next = self._next, wish
        if overtaken is None:
            return []
        return [_failed(overtaken, f"overtaken by the wish for {wish.state.value}")]

    def _fail(self, trace: str) -> list[Instruction]:
        """The first failure is the one that is told."""
        if self._phase in (Phase.FAILED, Phase.ENDED):
            return []
        self._phase = Phase.FAILED
        return [Say(state=State.FAILED, trace=trace, safe=True)]

    def _called(self, trace: str | None) -> list[Instruction]:
        call, self._calling = self._calling, None
        self._started = isinstance(call, Start) and trace is None
        if isinstance(call, Initialise):
            return [] if trace is None else self._fail(trace)
        if self._shutdown and self._wish is None:
            return self._end(trace)
        wish, self._wish = self._wish, None
        assert wish is not None, call
        if trace is None or wish.state is TargetState.STOPPED:
            return self._reached(wish)  # it counts as stopped even if stopping threw
        return [*self._fail(trace), _failed(wish, trace)]

    def _reached(self, wish: Wished) -> list[Instruction]:
        if self._phase is Phase.FAILED and wish.state is not TargetState.STOPPED:
            return [_failed(wish, "the connector has failed")]  # it said so while being called
        self._phase, state = _REACHED[wish.state]
        return [Say(state=state), Tell(token=wish.token, state=wish.state)]

    def _go_on(self) -> list[Instruction]:
        if self._shutdown:
            return self._shut_down()
        wish, self._next = self._next, None
        if wish is None:
            return []
        phase, _ = _REACHED[wish.state]
        if self._phase is phase:
            return [Tell(token=wish.token, state=wish.state)]
        if self._phase is Phase.FAILED and wish.state is not TargetState.STOPPED:
            return [_failed(wish, "the connector has failed")]
        call: Start | Stop | None = None
        if wish.state is TargetState.STARTED:
            call = Start()
        elif self._started:
            call = Stop()
        if call is None:
            return self._reached(wish)
        self._wish, self._calling = wish, call
        return [call]

    def _shut_down(self) -> list[Instruction]:
        said: list[Instruction] = []
        if self._next is not None:
            said.append(_failed(self._next, "the connector is being shut down"))
            self._next = None
        if self._started:
            self._calling = Stop()
            return [*said, Stop()]
        return said + self._end(None)

    def _end(self, trace: str | None) -> list[Instruction]:
        self._phase = Phase.ENDED
        if trace is not None:
            return [Say(state=State.FAILED, trace=trace, safe=True), Close()]
        return [Say(state=State.UNASSIGNED, safe=True), Close()]


def _failed(wish: Wished, why: str) -> Tell:
    return Tell(token=wish.token, state=wish.state, error=why)
