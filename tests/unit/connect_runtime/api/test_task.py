from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.api import context, errors, task
from connect_runtime.base import ids
from tests.fakes import plugin_contexts


class Sink(task.SinkTask):
    def __init__(self) -> None:
        self.flushed: list[object] = []

    def start(self, props):
        pass

    def put(self, sink_records):
        pass

    def flush(self, offsets):
        self.flushed.append(offsets)

    def stop(self):
        pass


class Pipeline(task.PipelineTask):
    """Counts a record at each look, while it is not paused."""

    def start(self, props):
        self.copied = 0
        self.paused = False
        self.context.report(context.PipelineProgress(state=context.PipelineState.STARTING))

    def run_once(self, timeout_s):
        if not self.paused:
            self.copied += 1
        self.context.report(context.PipelineProgress(records_total=self.copied))

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False

    def stop(self):
        self.context.report(context.PipelineProgress(records_total=self.copied))


@pytest.mark.parametrize("text", ["poll", "POLL", " Interval ", "connector"])
def test_boundaries_are_read_in_any_case(text):
    assert task.TransactionBoundary.parse(text).value == text.strip().lower()


def test_an_unknown_boundary_names_those_there_are():
    with pytest.raises(errors.ConfigError, match="poll, interval, connector, not weekly"):
        task.TransactionBoundary.parse("weekly")


def test_a_sink_commits_what_it_has_flushed():
    sink = Sink()
    offsets = {ids.TopicPartition("t", 0): 5}
    assert sink.pre_commit(offsets) is offsets
    assert sink.flushed == [offsets]
    sink.open([])
    sink.close([])
    assert sink.version() == "undefined"


def test_a_source_may_leave_commits_alone():
    class Source(task.SourceTask):
        def start(self, props):
            pass

        def poll(self):
            return None

        def stop(self):
            pass

    source = Source()
    fake = plugin_contexts.Context()
    source.initialize(fake)
    assert source.context is fake
    assert source.poll() is None
    source.commit()


def test_a_pipeline_moves_its_data_and_reports():
    pipeline = Pipeline()
    fake = plugin_contexts.Context()
    pipeline.initialize(fake)
    pipeline.start({})
    pipeline.run_once(0.1)
    pipeline.pause()
    pipeline.run_once(0.1)
    pipeline.resume()
    pipeline.run_once(0.1)
    pipeline.stop()
    pipeline.abandon()
    assert [each.records_total for each in fake.reports] == [0, 1, 1, 2, 2]
    assert fake.reports[0].state is context.PipelineState.STARTING


def test_what_a_task_must_have():
    kinds: dict[str, Any] = {
        "poll": task.SourceTask,
        "put": task.SinkTask,
        "run_once": task.PipelineTask,
    }
    for method, kind in kinds.items():
        with pytest.raises(TypeError, match=method):
            kind()
