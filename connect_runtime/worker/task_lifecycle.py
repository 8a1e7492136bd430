"""State machine of one task, from its assignment to its end, as Java's WorkerTask.

Target states and stops may arrive at any time; the task applies them between two iterations. It
publishes its status until it is abandoned: from then on another worker may run the same task, and
a status of this one would be wrong.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.status_records import RunState

TargetState = cluster_config_state.TargetState
State = RunState


class TaskPhase(enum.Enum):
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
class TaskThreadStarted:
    """The task's thread runs."""


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """`StartTask` is done."""


@dataclass(frozen=True, slots=True)
class IterationDone:
    """Between two polls, or deliveries: a good moment for anything that is wished."""


@dataclass(frozen=True, slots=True)
class TaskTargetStateRequested:
    """It should be doing this from now on. STOPPED, which tasks should never be told, stops it."""

    state: TargetState


@dataclass(frozen=True, slots=True)
class ReconfigureOffered:
    """Another configuration: the task may take it up and go on. One offer at a time."""


@dataclass(frozen=True, slots=True)
class ReconfigureDone:
    """`Reconfigure` is done, whatever came of it."""


@dataclass(frozen=True, slots=True)
class TaskStopRequested:
    """It is not, or not so, to run here any longer."""


@dataclass(frozen=True, slots=True)
class TaskAbandoned:
    """It did not stop in time. It may still be running something, and nobody listens to it."""


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """All is closed; `trace` says what was thrown, if anything was, at any time."""

    trace: str | None = None


TaskLifecycleEvent: TypeAlias = (
    TaskThreadStarted
    | TaskStarted
    | IterationDone
    | TaskTargetStateRequested
    | ReconfigureOffered
    | ReconfigureDone
    | TaskStopRequested
    | TaskAbandoned
    | TaskEnded
)

# Instructions


@dataclass(frozen=True, slots=True)
class StartTask:
    """Initialise and start the task; tell `TaskStarted`, or if it throws `TaskEnded` after closing."""


@dataclass(frozen=True, slots=True)
class RunOnce:
    """Poll or deliver once more, then tell `IterationDone`."""


@dataclass(frozen=True, slots=True)
class StayIdle:
    """Do nothing (but keep sessions alive) until the next instruction."""


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Ask the task whether it takes up what is offered; tell `ReconfigureDone`."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Commit what can be, stop the task if its start was tried, close everything; tell `TaskEnded`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishStatus:
    """Write the status; `safe`: only where no newer worker has spoken."""

    state: State
    trace: str | None = None
    safe: bool = False


TaskLifecycleAction: TypeAlias = (
    StartTask | RunOnce | StayIdle | Reconfigure | Shutdown | PublishStatus
)


class TaskLifecycle:
    """Invariants: started at most once; nothing is said after being given up on, nor twice at the
    end; while it considers an offer nothing else is asked of it."""

    def __init__(self, target: TargetState) -> None:
        self._target = target
        self._phase = TaskPhase.NEW
        self._stopping = False
        self._given_up = False
        self._offered = False
        self._considering = False

    @property
    def phase(self) -> TaskPhase:
        return self._phase

    @property
    def stopping(self) -> bool:
        return self._stopping or self._target is TargetState.STOPPED

    def step(self, event: TaskLifecycleEvent) -> list[TaskLifecycleAction]:
        said = self._step(event)
        if self._given_up:
            said = [each for each in said if not isinstance(each, PublishStatus)]
        return said

    def _step(self, event: TaskLifecycleEvent) -> list[TaskLifecycleAction]:
        if self._phase is TaskPhase.ENDED:
            return []
        match event:
            case TaskEnded(trace):
                return self._end(trace)
            case TaskAbandoned() | TaskTargetStateRequested() | TaskStopRequested():
                return self._wished(event)
            case ReconfigureOffered():
                self._offered = True
                return self._rest() if self._resting and not self._considering else []
            case ReconfigureDone():
                self._considering = False
                return self._heed_at_rest() or self._rest() if self._resting else self._come_round()
            case TaskThreadStarted():
                assert self._phase is TaskPhase.NEW, self._phase
                return self._begin()
            case TaskStarted():
                assert self._phase is TaskPhase.STARTING, self._phase
                if self.stopping:
                    return self._close()
                self._phase = TaskPhase.RUNNING
                return [PublishStatus(state=State.RUNNING), *self._come_round()]
            case IterationDone():
                assert self._phase is TaskPhase.RUNNING, self._phase
                return self._come_round()

    def _wished(
        self, event: TaskAbandoned | TaskTargetStateRequested | TaskStopRequested
    ) -> list[TaskLifecycleAction]:
        match event:
            case TaskAbandoned():
                self._given_up = True
                return []
            case TaskStopRequested():
                self._stopping = True
            case TaskTargetStateRequested(state):
                if not self.stopping:
                    self._target = state
        return self._heed_at_rest()

    def _begin(self) -> list[TaskLifecycleAction]:
        if self.stopping:
            return self._close()
        if self._target is TargetState.PAUSED:
            self._phase = TaskPhase.HELD
            return [PublishStatus(state=State.PAUSED), *self._rest()]
        self._phase = TaskPhase.STARTING
        return [StartTask()]

    @property
    def _resting(self) -> bool:
        return self._phase in (TaskPhase.HELD, TaskPhase.PAUSED)

    def _rest(self) -> list[TaskLifecycleAction]:
        return self._take_up() if self._offered else [StayIdle()]

    def _take_up(self) -> list[TaskLifecycleAction]:
        self._offered, self._considering = False, True
        return [Reconfigure()]

    def _come_round(self) -> list[TaskLifecycleAction]:
        if self.stopping:
            return self._close()
        if self._offered:
            return self._take_up()
        if self._target is TargetState.PAUSED:
            self._phase = TaskPhase.PAUSED
            return [PublishStatus(state=State.PAUSED), StayIdle()]
        return [RunOnce()]

    def _heed_at_rest(self) -> list[TaskLifecycleAction]:
        """A resting task hears at once; a busy one when it comes round."""
        if not self._resting or self._considering:
            return []
        if self.stopping:
            return self._close()
        if self._target is not TargetState.STARTED:
            return []
        if self._phase is TaskPhase.HELD:
            self._phase = TaskPhase.STARTING
            return [StartTask()]
        self._phase = TaskPhase.RUNNING
        return [PublishStatus(state=State.RUNNING), RunOnce()]

    def _close(self) -> list[TaskLifecycleAction]:
        self._phase = TaskPhase.CLOSING
        return [Shutdown()]

    def _end(self, trace: str | None) -> list[TaskLifecycleAction]:
        """What is thrown while stopping fails nothing any more; whoever runs it logs the trace."""
        failed = trace is not None and not self.stopping
        self._phase = TaskPhase.ENDED
        if failed:
            return [PublishStatus(state=State.FAILED, trace=trace, safe=True)]
        return [PublishStatus(state=State.UNASSIGNED, safe=True)]
