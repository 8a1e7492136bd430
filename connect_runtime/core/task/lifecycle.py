"""One task's life, from being assigned to being somebody else's: WorkerTask's rules.

What is wished (target state, stop) may come at any time; the task heeds it when it next comes
round. Whatever happens, it says what it is doing, until it is given up on: then another worker may
run the same task, and what this one says would be wrong.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.core.state import cluster_config, status_records

TargetState = cluster_config.TargetState
State = status_records.State


class Phase(enum.Enum):
    """HELD: paused before it ever started; neither initialised nor started until it goes on."""

    NEW = "new"
    HELD = "held"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    CLOSING = "closing"
    ENDED = "ended"


# Events


@dataclass(frozen=True, slots=True)
class Begun:
    """The task's thread runs."""


@dataclass(frozen=True, slots=True)
class StartedUp:
    """`StartUp` is done."""


@dataclass(frozen=True, slots=True)
class CameRound:
    """Between two polls, or deliveries: a good moment for anything that is wished."""


@dataclass(frozen=True, slots=True)
class TargetStateSet:
    """It should be doing this from now on. STOPPED, which tasks should never be told, stops it."""

    state: TargetState


@dataclass(frozen=True, slots=True)
class Offered:
    """Another configuration: the task may take it up and go on. One offer at a time."""


@dataclass(frozen=True, slots=True)
class Considered:
    """`TakeUp` is done, whatever came of it."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """It is not, or not so, to run here any longer."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """It did not stop in time. It may still be running something, and nobody listens to it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """All is closed; `trace` says what was thrown, if anything was, at any time."""

    trace: str | None = None


Event: TypeAlias = (
    Begun
    | StartedUp
    | CameRound
    | TargetStateSet
    | Offered
    | Considered
    | StopAsked
    | GivenUp
    | Ended
)

# Instructions


@dataclass(frozen=True, slots=True)
class StartUp:
    """Initialise and start the task; tell `StartedUp`, or if it throws `Ended` after closing."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """Poll or deliver once more, then tell `CameRound`."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Do nothing (but keep sessions alive) until the next instruction."""


@dataclass(frozen=True, slots=True)
class TakeUp:
    """Ask the task whether it takes up what is offered; tell `Considered`."""


@dataclass(frozen=True, slots=True)
class CloseDown:
    """Commit what can be, stop the task if its start was tried, close everything; tell `Ended`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Write the status; `safe`: only where no newer worker has spoken."""

    state: State
    trace: str | None = None
    safe: bool = False


Instruction: TypeAlias = StartUp | GoOn | Rest | TakeUp | CloseDown | Say


class TaskLifecycle:
    """Invariants: started at most once; nothing is said after being given up on, nor twice at the
    end; while it considers an offer nothing else is asked of it."""

    def __init__(self, target: TargetState) -> None:
        self._target = target
        self._phase = Phase.NEW
        self._stopping = False
        self._given_up = False
        self._offered = False
        self._considering = False

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def stopping(self) -> bool:
        return self._stopping or self._target is TargetState.STOPPED

    def step(self, event: Event) -> list[Instruction]:
        said = self._step(event)
        if self._given_up:
            said = [each for each in said if not isinstance(each, Say)]
        return said

    def _step(self, event: Event) -> list[Instruction]:
        if self._phase is Phase.ENDED:
            return []
        match event:
            case Ended(trace):
                return self._end(trace)
            case GivenUp() | TargetStateSet() | StopAsked():
                return self._wished(event)
            case Offered():
                self._offered = True
                return self._rest() if self._resting and not self._considering else []
            case Considered():
                self._considering = False
                return self._heed_at_rest() or self._rest() if self._resting else self._come_round()
            case Begun():
                assert self._phase is Phase.NEW, self._phase
                return self._begin()
            case StartedUp():
                assert self._phase is Phase.STARTING, self._phase
                if self.stopping:
                    return self._close()
                self._phase = Phase.RUNNING
                return [Say(state=State.RUNNING), *self._come_round()]
            case CameRound():
                assert self._phase is Phase.RUNNING, self._phase
                return self._come_round()

    def _wished(self, event: GivenUp | TargetStateSet | StopAsked) -> list[Instruction]:
        match event:
            case GivenUp():
                self._given_up = True
                return []
            case StopAsked():
                self._stopping = True
            case TargetStateSet(state):
                if not self.stopping:
                    self._target = state
        return self._heed_at_rest()

    def _begin(self) -> list[Instruction]:
        if self.stopping:
            return self._close()
        if self._target is TargetState.PAUSED:
            self._phase = Phase.HELD
            return [Say(state=State.PAUSED), *self._rest()]
        self._phase = Phase.STARTING
        return [StartUp()]

    @property
    def _resting(self) -> bool:
        return self._phase in (Phase.HELD, Phase.PAUSED)

    def _rest(self) -> list[Instruction]:
        return self._take_up() if self._offered else [Rest()]

    def _take_up(self) -> list[Instruction]:
        self._offered, self._considering = False, True
        return [TakeUp()]

    def _come_round(self) -> list[Instruction]:
        if self.stopping:
            return self._close()
        if self._offered:
            return self._take_up()
        if self._target is TargetState.PAUSED:
            self._phase = Phase.PAUSED
            return [Say(state=State.PAUSED), Rest()]
        return [GoOn()]

    def _heed_at_rest(self) -> list[Instruction]:
        """A resting task hears at once; a busy one when it comes round."""
        if not self._resting or self._considering:
            return []
        if self.stopping:
            return self._close()
        if self._target is not TargetState.STARTED:
            return []
        if self._phase is Phase.HELD:
            self._phase = Phase.STARTING
            return [StartUp()]
        self._phase = Phase.RUNNING
        return [Say(state=State.RUNNING), GoOn()]

    def _close(self) -> list[Instruction]:
        self._phase = Phase.CLOSING
        return [CloseDown()]

    def _end(self, trace: str | None) -> list[Instruction]:
        """What is thrown while stopping fails nothing any more; whoever runs it logs the trace."""
        failed = trace is not None and not self.stopping
        self._phase = Phase.ENDED
        if failed:
            return [Say(state=State.FAILED, trace=trace, safe=True)]
        return [Say(state=State.UNASSIGNED, safe=True)]
