"""Runs a pipeline task: tracks its status and commits its offsets.

The pipeline transfers the records itself, without the worker's producers or consumers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from connect_runtime.api.errors import ConnectError
from connect_runtime.api.plugin_context import PipelineProgress, PipelineState
from connect_runtime.api.task import PipelineTask
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.storage.offset_store import OffsetBackingStore
from connect_runtime.storage.status_records import RunState
from connect_runtime.worker.offset_commits import OffsetCommitTiming, SourceOffsetCommitter
from connect_runtime.worker.plugin_contexts import WorkerPipelineTaskContext
from connect_runtime.worker.submitted_offsets import CommittableOffsets, SubmittedRecords
from connect_runtime.worker.task_metrics import SourceTaskMetrics
from connect_runtime.worker.worker_task import CloseSteps

_ITERATION_INTERVAL_S = 0.5
COMMIT_INTERVAL_S = 1.0
"""Maximum commit interval, even if `offset.flush.interval.ms` is longer.

It limits how much of a pipeline's work is repeated after a restart from the committed offsets.
"""
_State = RunState

_STATUS_BY_PIPELINE_STATE = {
    PipelineState.STARTING: _State.UNASSIGNED,
    PipelineState.WAITING: _State.UNASSIGNED,
    PipelineState.RUNNING: _State.RUNNING,
    PipelineState.RESTARTING: _State.RESTARTING,
}
"""Task state by pipeline state. Connect has no state for a pipeline that is waiting for a free slot
to run in, so its task is UNASSIGNED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPipelineTaskDeps:
    """Dependencies of one `WorkerPipelineTask`."""

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
    """Implements `TypeSpecificTask` for pipeline tasks.

    The pipeline may report progress on any thread. `_lock` guards the fields that a report changes:
    `_progress`, `_moved` and `_reported`.
    """

    def __init__(self, deps: WorkerPipelineTaskDeps) -> None:
        self.on_status_changed: Callable[[], None] = lambda: None
        self._deps = deps
        self._task = deps.task
        self._context = deps.make_context(self._report_progress)
        self._start_attempted = False
        self._paused = False
        self._lock = threading.Lock()
        self._progress = PipelineProgress(state=PipelineState.STARTING)
        self._moved = 0
        self._reported = SubmittedRecords()
        self._commits = SourceOffsetCommitter(
            deps.connector,
            offsets=deps.offsets,
            take_committable=self._take_committable_offsets,
            timing=replace(deps.timing, interval_s=min(deps.timing.interval_s, COMMIT_INTERVAL_S)),
            metrics=deps.metrics,
            clock=deps.clock,
        )

    def start_up(self) -> None:
        """Start the task. This and the following methods are documented in `TypeSpecificTask`."""
        props = self._deps.props()
        self._task.initialize(self._context)
        self._start_attempted = True
        self._task.start(props)

    def run_once(self) -> None:
        if self._paused:
            self._task.resume()
            self._paused = False
        self._task.run_once(_ITERATION_INTERVAL_S)
        self._commit_offsets()

    def keep_paused_task_alive(self) -> None:
        if not self._start_attempted:
            return
        if not self._paused:
            self._task.pause()
            self._paused = True
        self._task.run_once(_ITERATION_INTERVAL_S)
        self._commit_offsets()

    def reconfigure(self, props: Mapping[str, str]) -> bool:
        """Offer a new configuration to the task. Return True if the task accepts it. Runs on the
        task's thread.

        A task that was never started always accepts.
        """
        return not self._start_attempted or bool(self._task.reconfigure(props))

    def get_status(self) -> tuple[_State, str | None]:
        with self._lock:
            return _STATUS_BY_PIPELINE_STATE[self._progress.state], self._progress.reason or None

    def on_stop_requested(self) -> None:
        self._deps.stopping.set()

    def on_abandoned(self) -> None:
        self._deps.given_up.set()
        if self._start_attempted:
            self._task.abandon()

    def shut_down(self) -> None:
        self._deps.stopping.set()
        steps = CloseSteps(self._deps.connector)
        if self._start_attempted:
            steps.run_shutdown_step("stopping it", self._task.stop)
        if not self._deps.given_up.is_set():
            steps.run_shutdown_step(
                "committing its last offsets", self._commits.commit_all, is_fatal=False
            )
        self._context.close()
        steps.raise_first_error()

    def _report_progress(self, progress: PipelineProgress) -> None:
        if not isinstance(progress, PipelineProgress):
            raise ConnectError(
                f"report() requires a PipelineProgress, not {type(progress).__name__}"
            )
        with self._lock:
            before, self._progress = self._progress, progress
            moved = max(0, progress.records_total - self._moved)
            self._moved += moved
            for each in progress.offsets:
                self._reported.ack(self._reported.submit(each.partition, each.offset))
        if moved:
            self._deps.metrics.record_pipeline_progress(moved)
        if (before.state, before.reason) != (progress.state, progress.reason):
            self.on_status_changed()

    def _take_committable_offsets(self) -> CommittableOffsets:
        with self._lock:
            return self._reported.take_committable_offsets()

    def _commit_offsets(self) -> None:
        if not self._deps.given_up.is_set():
            self._commits.commit_if_due()
