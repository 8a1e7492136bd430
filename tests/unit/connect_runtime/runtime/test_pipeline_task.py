"""What a pipeline reports is committed soon; all else of it is in `test_worker`."""

from __future__ import annotations

import threading
from collections.abc import Callable

from connect_runtime.api import context, records, task
from connect_runtime.base import ids, sampled
from connect_runtime.runtime import offset_commits, pipeline_task, task_metrics
from tests.fakes import plugin_contexts
from tests.unit.connect_runtime.runtime import test_offset_commits


class Pipe(task.PipelineTask):
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
    about = task_metrics.About(
        task=ids.ConnectorTaskId("c", 0), clock=clock, sampling=sampled.Sampling()
    )
    reporting: list[Callable[[context.PipelineProgress], None]] = []

    def make_context(report):
        reporting.append(report)
        return plugin_contexts.Context()

    body = pipeline_task.PipelineTaskBody(
        pipeline_task.PipelineParts(
            task=Pipe(),
            props=dict,
            make_context=make_context,
            connector="c",
            offsets=store,
            timing=offset_commits.Timing(interval_s=interval_s, timeout_s=5.0),
            metrics=task_metrics.SourceTaskMetrics(about),
            stopping=threading.Event(),
            given_up=threading.Event(),
            clock=clock,
        )
    )
    body.start_up()
    return body, reporting[0]


def test_offsets_are_committed_within_a_second_however_seldom_others_are():
    store, clock = test_offset_commits.Offsets(), plugin_contexts.Clock()
    body, report = made(store, clock, interval_s=60.0)
    report(context.PipelineProgress(offsets=[records.SourceOffset({"f": "a"}, {"n": 3})]))
    body.come_round()
    assert store.written == []
    clock.now = pipeline_task.COMMIT_INTERVAL_S
    body.come_round()
    assert store.written == [[({"f": "a"}, {"n": 3})]]


def test_and_more_often_where_others_are():
    store, clock = test_offset_commits.Offsets(), plugin_contexts.Clock()
    body, report = made(store, clock, interval_s=0.1)
    report(context.PipelineProgress(offsets=[records.SourceOffset({"f": "a"}, {"n": 3})]))
    clock.now = 0.1
    body.come_round()
    assert len(store.written) == 1
