from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.api.plugin_context import PipelineProgress, PipelineState
from connect_runtime.api.task import PipelineTask, SinkTask, SourceTask, TransactionBoundary
from connect_runtime.base.ids import TopicPartition
from tests.fakes.plugin_contexts import Context


class Sink(SinkTask):
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


class Pipeline(PipelineTask):
    """Counts a record at each look, while it is not paused."""

    def start(self, props):
        self.copied = 0
        self.paused = False
        self.context.report(PipelineProgress(state=PipelineState.STARTING))

    def run_once(self, timeout_s):
        if not self.paused:
            self.copied += 1
        self.context.report(PipelineProgress(records_total=self.copied))

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False

    def stop(self):
        self.context.report(PipelineProgress(records_total=self.copied))


@pytest.mark.parametrize("text", ["poll", "POLL", " Interval ", "connector"])
def test_boundaries_are_read_in_any_case(text):
    assert TransactionBoundary.parse(text).value == text.strip().lower()


def test_an_unknown_boundary_names_those_there_are():
    with pytest.raises(ConfigError, match="poll, interval, connector, not weekly"):
        TransactionBoundary.parse("weekly")


def test_a_sink_commits_what_it_has_flushed():
    sink = Sink()
    offsets = {TopicPartition("t", 0): 5}
    assert sink.pre_commit(offsets) is offsets
    assert sink.flushed == [offsets]
    sink.open([])
    sink.close([])
    assert sink.version() == "undefined"


def test_a_source_may_leave_commits_alone():
    class Source(SourceTask):
        def start(self, props):
            pass

        def poll(self):
            return None

        def stop(self):
            pass

    source = Source()
    fake = Context()
    source.initialize(fake)
    assert source.context is fake
    assert source.poll() is None
    source.commit()


def test_a_pipeline_moves_its_data_and_reports():
    pipeline = Pipeline()
    fake = Context()
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
    assert fake.reports[0].state is PipelineState.STARTING


def test_what_a_task_must_have():
    kinds: dict[str, Any] = {
        "poll": SourceTask,
        "put": SinkTask,
        "run_once": PipelineTask,
    }
    for method, kind in kinds.items():
        with pytest.raises(TypeError, match=method):
            kind()
