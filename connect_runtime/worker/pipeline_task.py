"""Runs a pipeline task, which moves its data itself.

The worker tracks its status and commits its offsets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from connect_runtime.api.errors import ConnectError
from connect_runtime.api.plugin_context import PipelineProgress, PipelineState
from connect_runtime.api.task import PipelineTask
from connect_runtime.base.timing import Clock
from connect_runtime.storage.offset_store import OffsetBackingStore
from connect_runtime.storage.status_records import RunState
from connect_runtime.worker.offset_commits import OffsetCommitTiming, SourceOffsetCommitter
from connect_runtime.worker.plugin_contexts import WorkerPipelineTaskContext
from connect_runtime.worker.submitted_offsets import CommittableOffsets, SubmittedRecords
from connect_runtime.worker.task_metrics import SourceTaskMetrics
from connect_runtime.worker.worker_task import CloseSteps

_ITERATION_INTERVAL_S = 0.5
COMMIT_INTERVAL_S = 1.0
"""Reports come now and then, not record by record: so much of what a pipeline has done may be done
again by who starts from the offsets, whatever `offset.flush.interval.ms` is."""
_State = RunState

_STATUS_BY_PIPELINE_STATE = {
    PipelineState.STARTING: _State.UNASSIGNED,
    PipelineState.WAITING: _State.UNASSIGNED,
    PipelineState.RUNNING: _State.RUNNING,
    PipelineState.RESTARTING: _State.RESTARTING,
}
"""As Connect has no words for a pipeline that has no place to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPipelineTaskDeps:
    """What one pipeline task is made of; `on_shown` is told when `shown` answers otherwise."""

    task: PipelineTask
    props: Callable[[], Mapping[str, str]] = field(repr=False)
    make_context: Callable[[Callable[[PipelineProgress], None]], WorkerPipelineTaskContext]
    connector: str
    offsets: OffsetBackingStore
    timing: OffsetCommitTiming
    metrics: SourceTaskMetrics
    stopping: threading.Event
    given_up: threading.Event
    clock: Clock


class WorkerPipelineTask:
    """Implements `task_run.Body`. `_lock` guards what is reported, from any thread: `_progress`,
    `_moved` and `_reported`."""

    def __init__(self, parts: WorkerPipelineTaskDeps) -> None:
        self.on_shown: Callable[[], None] = lambda: None
        self._parts = parts
        self._task = parts.task
        self._context = parts.make_context(self._report)
        self._start_tried = False
        self._paused = False
        self._lock = threading.Lock()
        self._progress = PipelineProgress(state=PipelineState.STARTING)
        self._moved = 0
        self._reported = SubmittedRecords()
        self._commits = SourceOffsetCommitter(
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
        self._task.run_once(_ITERATION_INTERVAL_S)
        self._commit()

    def rest(self) -> None:
        if not self._start_tried:
            return
        if not self._paused:
            self._task.pause()
            self._paused = True
        self._task.run_once(_ITERATION_INTERVAL_S)
        self._commit()

    def reconfigure(self, props: Mapping[str, str]) -> bool:
        """Does it go on with these? On the task's thread; one that was never started will."""
        return not self._start_tried or bool(self._task.reconfigure(props))

    def shown(self) -> tuple[_State, str | None]:
        with self._lock:
            return _STATUS_BY_PIPELINE_STATE[self._progress.state], self._progress.reason or None

    def stop_asked(self) -> None:
        self._parts.stopping.set()

    def given_up(self) -> None:
        self._parts.given_up.set()
        if self._start_tried:
            self._task.abandon()

    def close_down(self) -> None:
        self._parts.stopping.set()
        steps = CloseSteps(self._parts.connector)
        if self._start_tried:
            steps.take("stopping it", self._task.stop)
        if not self._parts.given_up.is_set():
            steps.take("committing its last offsets", self._commits.finish, fails=False)
        self._context.close()
        steps.raise_first()

    def _report(self, progress: PipelineProgress) -> None:
        if not isinstance(progress, PipelineProgress):
            raise ConnectError(
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

    def _take(self) -> CommittableOffsets:
        with self._lock:
            return self._reported.take_committable()

    def _commit(self) -> None:
        if not self._parts.given_up.is_set():
            self._commits.tick()
