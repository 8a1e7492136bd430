"""Body of a pipeline task: it moves its data itself; we keep its time, its status, its offsets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from connect_runtime.api import context, errors
from connect_runtime.api import task as tasks
from connect_runtime.base import clock as base_clock
from connect_runtime.core.state import status_records
from connect_runtime.core.task import submitted_offsets
from connect_runtime.runtime import closing, contexts, offset_commits, task_metrics
from connect_runtime.runtime.stores import offset_store

_TURN_S = 0.5
COMMIT_INTERVAL_S = 1.0
"""Reports come now and then, not record by record: so much of what a pipeline has done may be done
again by who starts from the offsets, whatever `offset.flush.interval.ms` is."""
_State = status_records.State

_SHOWN = {
    context.PipelineState.STARTING: _State.UNASSIGNED,
    context.PipelineState.WAITING: _State.UNASSIGNED,
    context.PipelineState.RUNNING: _State.RUNNING,
    context.PipelineState.RESTARTING: _State.RESTARTING,
}
"""As Connect has no words for a pipeline that has no place to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineParts:
    """What one pipeline task is made of; `on_shown` is told when `shown` answers otherwise."""

    task: tasks.PipelineTask
    props: Callable[[], Mapping[str, str]] = field(repr=False)
    make_context: Callable[
        [Callable[[context.PipelineProgress], None]], contexts.PipelineTaskContext
    ]
    connector: str
    offsets: offset_store.Offsets
    timing: offset_commits.Timing
    metrics: task_metrics.SourceTaskMetrics
    stopping: threading.Event
    given_up: threading.Event
    clock: base_clock.Clock


class PipelineTaskBody:
    """Implements `task_run.Body`. `_lock` guards what is reported, from any thread: `_progress`,
    `_moved` and `_reported`."""

    def __init__(self, parts: PipelineParts) -> None:
        self.on_shown: Callable[[], None] = lambda: None
        self._parts = parts
        self._task = parts.task
        self._context = parts.make_context(self._report)
        self._start_tried = False
        self._paused = False
        self._lock = threading.Lock()
        self._progress = context.PipelineProgress(state=context.PipelineState.STARTING)
        self._moved = 0
        self._reported = submitted_offsets.SubmittedOffsets()
        self._commits = offset_commits.OffsetCommits(
            parts.connector,
            offsets=parts.offsets,
            take=self._take,
            timing=replace(
                parts.timing, interval_s=min(parts.timing.interval_s, COMMIT_INTERVAL_S)
            ),
            metrics=parts.metrics,
            clock=parts.clock,
        )

    def start_up(self) -> None:
        """See `task_run.Body`; so for all below."""
        props = self._parts.props()
        self._task.initialize(self._context)
        self._start_tried = True
        self._task.start(props)

    def come_round(self) -> None:
        if self._paused:
            self._task.resume()
            self._paused = False
        self._task.run_once(_TURN_S)
        self._commit()

    def rest(self) -> None:
        if not self._start_tried:
            return
        if not self._paused:
            self._task.pause()
            self._paused = True
        self._task.run_once(_TURN_S)
        self._commit()

    def reconfigure(self, props: Mapping[str, str]) -> bool:
        """Does it go on with these? On the task's thread; one that was never started will."""
        return not self._start_tried or bool(self._task.reconfigure(props))

    def shown(self) -> tuple[_State, str | None]:
        with self._lock:
            return _SHOWN[self._progress.state], self._progress.reason or None

    def stop_asked(self) -> None:
        self._parts.stopping.set()

    def given_up(self) -> None:
        self._parts.given_up.set()
        if self._start_tried:
            self._task.abandon()

    def close_down(self) -> None:
        self._parts.stopping.set()
        steps = closing.Steps(self._parts.connector)
        if self._start_tried:
            steps.take("stopping it", self._task.stop)
        if not self._parts.given_up.is_set():
            steps.take("committing its last offsets", self._commits.finish, fails=False)
        self._context.close()
        steps.raise_first()

    def _report(self, progress: context.PipelineProgress) -> None:
        if not isinstance(progress, context.PipelineProgress):
            raise errors.ConnectError(
                f"report must be given a PipelineProgress, not a {type(progress).__name__}"
            )
        with self._lock:
            before, self._progress = self._progress, progress
            moved = max(0, progress.records_total - self._moved)
            self._moved += moved
            for each in progress.offsets:
                self._reported.ack(self._reported.submit(each.partition, each.offset))
        if moved:
            self._parts.metrics.moved(moved)
        if (before.state, before.reason) != (progress.state, progress.reason):
            self.on_shown()

    def _take(self) -> submitted_offsets.CommittableOffsets:
        with self._lock:
            return self._reported.take_committable()

    def _commit(self) -> None:
        if not self._parts.given_up.is_set():
            self._commits.tick()
