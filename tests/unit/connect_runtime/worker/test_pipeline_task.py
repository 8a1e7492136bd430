"""What a pipeline reports is committed soon; all else of it is in `test_worker`."""

from __future__ import annotations

import threading
from collections.abc import Callable

from connect_runtime.api.plugin_context import PipelineProgress
from connect_runtime.api.records import SourceOffset
from connect_runtime.api.task import PipelineTask
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.worker import pipeline_task
from connect_runtime.worker.offset_commits import OffsetCommitTiming
from connect_runtime.worker.pipeline_task import WorkerPipelineTask, WorkerPipelineTaskDeps
from connect_runtime.worker.task_metrics import SourceTaskMetrics, TaskMetricsInfo
from tests.fakes.plugin_contexts import Clock, Context
from tests.unit.connect_runtime.worker.test_offset_commits import Offsets


class Pipe(PipelineTask):
    def start(self, props):
        pass

    def run_once(self, timeout_s):
        pass

    def pause(self):
        pass

    def resume(self):
        pass

    def stop(self):
        pass


def made(store, clock, *, interval_s):
    about = TaskMetricsInfo(task=ConnectorTaskId("c", 0), clock=clock, sampling=SampleWindows())
    reporting: list[Callable[[PipelineProgress], None]] = []

    def make_context(report):
        reporting.append(report)
        return Context()

    body = WorkerPipelineTask(
        WorkerPipelineTaskDeps(
            task=Pipe(),
            props=dict,
            make_context=make_context,
            connector="c",
            offsets=store,
            timing=OffsetCommitTiming(interval_s=interval_s, timeout_s=5.0),
            metrics=SourceTaskMetrics(about),
            stopping=threading.Event(),
            given_up=threading.Event(),
            clock=clock,
        )
    )
    body.start_up()
    return body, reporting[0]


def test_offsets_are_committed_within_a_second_however_seldom_others_are():
    store, clock = Offsets(), Clock()
    body, report = made(store, clock, interval_s=60.0)
    report(PipelineProgress(offsets=[SourceOffset({"f": "a"}, {"n": 3})]))
    body.run_once()
    assert store.written == []
    clock.now = pipeline_task.COMMIT_INTERVAL_S
    body.run_once()
    assert store.written == [[({"f": "a"}, {"n": 3})]]


def test_and_more_often_where_others_are():
    store, clock = Offsets(), Clock()
    body, report = made(store, clock, interval_s=0.1)
    report(PipelineProgress(offsets=[SourceOffset({"f": "a"}, {"n": 3})]))
    clock.now = 0.1
    body.run_once()
    assert len(store.written) == 1
