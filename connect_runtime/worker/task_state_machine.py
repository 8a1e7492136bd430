"""State machine of one task, from its assignment to its end, like Java's WorkerTask.

Target states and stop requests may arrive at any time and are applied between two iterations of the
task's loop. The task publishes its status until it is abandoned. After that, another worker may run
the same task, so a status from this task would be wrong.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState

State = RunState


class TaskPhase(enum.Enum):
    """Phase of a task. A HELD task was paused when it was assigned, so it has not been started
    yet."""

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
    """Event: the task's thread has started."""


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """Event: the action `StartTask` is complete."""


@dataclass(frozen=True, slots=True)
class IterationDone:
    """Event: an iteration of the task's loop is complete. Requests that arrived during the
    iteration are applied now."""


@dataclass(frozen=True, slots=True)
class TaskTargetStateRequested:
    """Event: a target state was requested for the task. STOPPED, which tasks normally do not
    receive, stops the task."""

    state: TargetState


@dataclass(frozen=True, slots=True)
class ReconfigurationRequested:
    """Event: a new configuration was offered to the task, which may accept it without a restart.

    Only one offer is pending at a time.
    """


@dataclass(frozen=True, slots=True)
class ReconfigurationDone:
    """Event: the action `ReconfigureTask` is complete. The task has accepted or refused the
    configuration."""


@dataclass(frozen=True, slots=True)
class TaskStopRequested:
    """Event: the task must stop."""


@dataclass(frozen=True, slots=True)
class TaskAbandoned:
    """Event: the task did not stop in time. It may still be running, but its statuses are ignored
    from now on."""


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """Event: the task has closed all its resources. `trace` is the stack trace of its first
    exception; None if there was none."""

    trace: str | None = None


TaskLifecycleEvent: TypeAlias = (
    TaskThreadStarted
    | TaskStarted
    | IterationDone
    | TaskTargetStateRequested
    | ReconfigurationRequested
    | ReconfigurationDone
    | TaskStopRequested
    | TaskAbandoned
    | TaskEnded
)

# Actions


@dataclass(frozen=True, slots=True)
class StartTask:
    """Action: initialize and start the task. `TaskStarted` follows, or `TaskEnded` if the start
    fails."""


@dataclass(frozen=True, slots=True)
class RunTaskOnce:
    """Action: poll or deliver records once. `IterationDone` follows."""


@dataclass(frozen=True, slots=True)
class KeepTaskIdle:
    """Action: keep the task's client sessions alive without processing records until the next
    action."""


@dataclass(frozen=True, slots=True)
class ReconfigureTask:
    """Action: offer the new configuration to the task. `ReconfigurationDone` follows."""


@dataclass(frozen=True, slots=True)
class ShutDownTask:
    """Action: commit offsets, stop the task if a start was attempted, and close all its resources.

    `TaskEnded` follows.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishStatus:
    """Action: write the task's status. If `safe` is true, write it only if no other worker has
    written a status in a newer group generation."""

    state: State
    trace: str | None = None
    safe: bool = False


TaskLifecycleAction: TypeAlias = (
    StartTask | RunTaskOnce | KeepTaskIdle | ReconfigureTask | ShutDownTask | PublishStatus
)


class TaskLifecycle:
    """State machine of a task.

    Invariants: the task is started at most once; no status is published after it was abandoned or
    ended; no other action runs during a reconfiguration.
    """

    def __init__(self, target: TargetState) -> None:
        self._target = target
        self._phase = TaskPhase.NEW
        self._stopping = False
        self._abandoned = False
        self._offered = False
        self._reconfiguring = False

    @property
    def phase(self) -> TaskPhase:
        return self._phase

    @property
    def is_stopping(self) -> bool:
        return self._stopping or self._target is TargetState.STOPPED

    def process_event(self, event: TaskLifecycleEvent) -> list[TaskLifecycleAction]:
        actions = self._handle_event(event)
        if self._abandoned:
            actions = [each for each in actions if not isinstance(each, PublishStatus)]
        return actions

    def _handle_event(self, event: TaskLifecycleEvent) -> list[TaskLifecycleAction]:
        if self._phase is TaskPhase.ENDED:
            return []
        match event:
            case TaskEnded(trace):
                return self._end_lifecycle(trace)
            case TaskAbandoned() | TaskTargetStateRequested() | TaskStopRequested():
                return self._apply_lifecycle_request(event)
            case ReconfigurationRequested():
                self._offered = True
                return (
                    self._keep_task_idle() if self._is_task_idle and not self._reconfiguring else []
                )
            case ReconfigurationDone():
                self._reconfiguring = False
                return (
                    self._apply_requests_when_idle() or self._keep_task_idle()
                    if self._is_task_idle
                    else self._plan_next_iteration()
                )
            case TaskThreadStarted():
                assert self._phase is TaskPhase.NEW, self._phase
                return self._start_task_unless_paused()
            case TaskStarted():
                assert self._phase is TaskPhase.STARTING, self._phase
                if self.is_stopping:
                    return self._begin_shutdown()
                self._phase = TaskPhase.RUNNING
                return [PublishStatus(state=State.RUNNING), *self._plan_next_iteration()]
            case IterationDone():
                assert self._phase is TaskPhase.RUNNING, self._phase
                return self._plan_next_iteration()

    def _apply_lifecycle_request(
        self, event: TaskAbandoned | TaskTargetStateRequested | TaskStopRequested
    ) -> list[TaskLifecycleAction]:
        match event:
            case TaskAbandoned():
                self._abandoned = True
                return []
            case TaskStopRequested():
                self._stopping = True
            case TaskTargetStateRequested(state):
                if not self.is_stopping:
                    self._target = state
        return self._apply_requests_when_idle()

    def _start_task_unless_paused(self) -> list[TaskLifecycleAction]:
        if self.is_stopping:
            return self._begin_shutdown()
        if self._target is TargetState.PAUSED:
            self._phase = TaskPhase.HELD
            return [PublishStatus(state=State.PAUSED), *self._keep_task_idle()]
        self._phase = TaskPhase.STARTING
        return [StartTask()]

    @property
    def _is_task_idle(self) -> bool:
        return self._phase in (TaskPhase.HELD, TaskPhase.PAUSED)

    def _keep_task_idle(self) -> list[TaskLifecycleAction]:
        return self._start_reconfiguration() if self._offered else [KeepTaskIdle()]

    def _start_reconfiguration(self) -> list[TaskLifecycleAction]:
        self._offered, self._reconfiguring = False, True
        return [ReconfigureTask()]

    def _plan_next_iteration(self) -> list[TaskLifecycleAction]:
        if self.is_stopping:
            return self._begin_shutdown()
        if self._offered:
            return self._start_reconfiguration()
        if self._target is TargetState.PAUSED:
            self._phase = TaskPhase.PAUSED
            return [PublishStatus(state=State.PAUSED), KeepTaskIdle()]
        return [RunTaskOnce()]

    def _apply_requests_when_idle(self) -> list[TaskLifecycleAction]:
        """Apply pending requests to an idle task immediately. A running task applies them after its
        iteration."""
        if not self._is_task_idle or self._reconfiguring:
            return []
        if self.is_stopping:
            return self._begin_shutdown()
        if self._target is not TargetState.STARTED:
            return []
        if self._phase is TaskPhase.HELD:
            self._phase = TaskPhase.STARTING
            return [StartTask()]
        self._phase = TaskPhase.RUNNING
        return [PublishStatus(state=State.RUNNING), RunTaskOnce()]

    def _begin_shutdown(self) -> list[TaskLifecycleAction]:
        self._phase = TaskPhase.CLOSING
        return [ShutDownTask()]

    def _end_lifecycle(self, trace: str | None) -> list[TaskLifecycleAction]:
        """Publish the task's final status. An exception after a stop request does not make it
        FAILED."""
        failed = trace is not None and not self.is_stopping
        self._phase = TaskPhase.ENDED
        if failed:
            return [PublishStatus(state=State.FAILED, trace=trace, safe=True)]
        return [PublishStatus(state=State.UNASSIGNED, safe=True)]
