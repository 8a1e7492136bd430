"""What the bodies of tasks tell of what they do, step by step."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from connect_runtime.api import context, converter, errors, records, task
from connect_runtime.base import ids, sampled
from connect_runtime.core.task import worker_config
from connect_runtime.runtime import (
    contexts,
    offset_commits,
    pipeline_task,
    record_pipeline,
    sink_context,
    sink_task,
    source_task,
    task_metrics,
)
from connect_runtime.runtime.stores import memory_log, offset_store
from tests.fakes import plugin_contexts, task_clients

TASK = ids.ConnectorTaskId("c", 0)
PLACE = ids.TopicPartition("t", 0)
WORKER = worker_config.standalone(
    {
        "bootstrap.servers": "a:1",
        "key.converter": "String",
        "value.converter": "String",
        "header.converter": "Simple",
        "offset.storage.file.filename": "f",
    }
)


class Refusing(converter.Converter):
    def from_connect_data(self, topic, data, record_headers):
        raise errors.DataError("no")

    def to_connect_data(self, topic, payload, record_headers):
        raise errors.DataError("no")


class HeldConsumer(task_clients.Consumer):
    """Commits are answered when the test says so."""

    def commit(self, offsets, *, on_committed):
        self.committed.append(dict(offsets))
        self.__dict__.setdefault("answers", []).append(on_committed)


class Sink(task.SinkTask):
    def start(self, props): ...
    def put(self, sink_records): ...
    def stop(self): ...


class Source(task.SourceTask):
    polls: list

    def start(self, props): ...
    def poll(self):
        return self.polls.pop(0) if self.polls else None

    def stop(self): ...


class DropsOdd:
    def apply(self, record):
        return None if record.source_offset["n"] % 2 else record

    def close(self): ...


class Moves(task.PipelineTask):
    def start(self, props): ...
    def run_once(self, timeout_s): ...
    def pause(self): ...
    def resume(self): ...
    def stop(self): ...
    def abandon(self): ...


class World:
    """One task of each kind; time stands still unless it is set."""

    def __init__(self):
        self.clock = plugin_contexts.Clock(0.0)
        self.consumer = HeldConsumer()
        self.producer = task_clients.Producer(held=True)
        self.offsets = offset_store.OffsetStore(memory_log.MemoryLog("offsets"))
        self.offsets.start(1.0)
        self.shared: dict[str, Any] = {
            "props": dict,
            "timing": offset_commits.Timing(interval_s=10, timeout_s=5),
            "stopping": threading.Event(),
            "given_up": threading.Event(),
            "clock": self.clock,
        }
        self.own: dict[str, Any] = {
            "basics": contexts.Basics(
                clock=self.clock, stopping=threading.Event(), on_metrics=lambda _read: None
            ),
            "resolve": dict,
        }

    def measured(self, of):
        self.metrics = of(
            task_metrics.About(task=TASK, clock=self.clock, sampling=sampled.Sampling())
        )
        return self.metrics

    def pipeline(self, value="String", transforms=None):
        made = record_pipeline.converters(
            {"value.converter": value},
            worker=WORKER,
            installed=task_clients.Plugins({"Refusing": Refusing}),
        )
        return record_pipeline.RecordPipeline(
            made, operator=record_pipeline.Intolerant(self.metrics), transforms=transforms
        )

    def sink(self, value="String"):
        metrics = self.measured(task_metrics.SinkTaskMetrics)
        body = sink_task.SinkTaskBody(
            sink_task.SinkParts(
                task=Sink(),
                topics=("t",),
                context=sink_context.SinkTaskContext(TASK, **self.own),
                pipeline=self.pipeline(value),
                make_consumer=lambda: self.consumer,
                on_topic=lambda _topic: None,
                metrics=metrics,
                **self.shared,
            )
        )
        body.start_up()
        self.consumer.listener.on_assigned([PLACE])
        return body

    def source(self, *polls, transforms=None):
        metrics = self.measured(task_metrics.SourceTaskMetrics)
        plugin = Source()
        plugin.polls = list(polls)
        body = source_task.SourceTaskBody(
            source_task.SourceParts(
                task=plugin,
                context=contexts.SourceTaskContext(
                    TASK, offset_reader=plugin_contexts.Offsets(), **self.own
                ),
                pipeline=self.pipeline(transforms=transforms),
                make_producer=lambda: self.producer,
                offsets=self.offsets,
                on_topic=lambda _topic: None,
                metrics=metrics,
                **self.shared,
            )
        )
        body.start_up()
        return body

    def moves(self):
        metrics = self.measured(task_metrics.SourceTaskMetrics)

        def make_context(on_report):
            return contexts.PipelineTaskContext(
                TASK,
                offset_reader=plugin_contexts.Offsets(),
                stop_timeout_s=1.0,
                worker={},
                membership=task_clients.Membership(),
                last_runs=context.LastRuns,
                on_report=on_report,
                **self.own,
            )

        plugin = Moves()
        body = pipeline_task.PipelineTaskBody(
            pipeline_task.PipelineParts(
                task=plugin,
                make_context=make_context,
                connector="c",
                offsets=self.offsets,
                metrics=metrics,
                **self.shared,
            )
        )
        body.start_up()
        return plugin

    def numbers(self):
        found = {}
        for reading in self.metrics.readings():
            found.update(reading.numbers)
        return found

    def some(self, *names):
        numbers = self.numbers()
        return tuple(numbers[each] for each in names)


@pytest.fixture
def world():
    return World()


def record(number):
    return records.SourceRecord(
        topic="t", value="v", source_partition={"f": "a"}, source_offset={"n": number}
    )


COMMITS = (
    "offset-commit-seq-no",
    "offset-commit-completion-total",
    "offset-commit-skip-total",
    "offset-commit-failure-percentage",
)


def test_a_sink_commits_one_at_a_time(world):
    body = world.sink()
    world.consumer.script.append([task_clients.consumed(4), task_clients.consumed(5)])
    body.come_round()
    assert world.some("sink-record-read-total", "sink-record-send-total") == (2, 2)
    assert world.some("sink-record-active-count", "partition-count") == (6, 1)
    world.clock.now = 10.0
    body.come_round()
    world.consumer.script.append([task_clients.consumed(6)])
    body.come_round()
    body._context.request_commit()
    world.clock.now = 14.9
    body.come_round()
    assert world.consumer.committed == [{PLACE: 6}]
    assert world.some(*COMMITS) == (1, 0, 0, 0)
    world.consumer.answers[0](None)
    assert world.some(*COMMITS) == (1, 1, 0, 0)
    assert world.some("offset-commit-max-time-ms") == (pytest.approx(4900),)
    assert world.some("sink-record-active-count") == (1,)
    body.come_round()
    assert world.consumer.committed[1:] == [{PLACE: 7}], "it was asked for meanwhile"


def test_a_commit_that_takes_too_long_has_failed_and_its_answer_changes_nothing(world):
    body = world.sink()
    world.consumer.script.append([task_clients.consumed(4)])
    body.come_round()
    world.clock.now = 10.0
    body.come_round()
    world.clock.now = 20.0
    body.come_round()
    assert world.consumer.committed == [{PLACE: 5}, {PLACE: 5}]
    assert world.some(*COMMITS) == (2, 0, 0, 1)
    world.consumer.answers[0](None)
    assert world.some(*COMMITS) == (2, 0, 1, 1)
    world.consumer.answers[1](errors.RetriableError("no"))
    assert world.some(*COMMITS) == (2, 0, 1, 1)
    world.clock.now = 30.0
    body.come_round()
    world.consumer.answers[2](None)
    assert world.some(*COMMITS)[:3] == (3, 1, 1)


def test_nothing_new_to_commit_is_a_commit(world):
    body = world.sink()
    world.clock.now = 10.0
    body.come_round()
    assert world.consumer.committed == []
    assert world.some(*COMMITS) == (1, 1, 0, 0)


def test_what_is_taken_away_is_committed_and_gone(world):
    body = world.sink()
    world.consumer.script.append([task_clients.consumed(0)])
    body.come_round()
    world.clock.now = 10.0
    body.come_round()
    world.consumer.listener.on_revoked([PLACE])
    assert world.some(*COMMITS) == (2, 1, 0, 0)
    world.consumer.answers[0](None)
    assert world.some("offset-commit-skip-total", "partition-count") == (1, 0)


def test_a_record_that_cannot_be_converted_is_a_failure_with_a_time(world):
    body = world.sink("Refusing")
    world.consumer.script.append([task_clients.consumed(4)])
    with pytest.raises(errors.FatalError):
        body.come_round()
    names = ("total-record-failures", "total-record-errors", "total-records-skipped")
    assert world.some(*names) == (1, 1, 0)
    assert world.some("last-error-timestamp") == (world.clock.wall_ms(),)
    assert world.some("sink-record-read-total", "sink-record-send-total") == (1, 0)


def test_a_source_counts_as_written_what_is_acknowledged(world):
    body = world.source([record(1), record(2)], [], None)
    for _ in range(3):
        body.come_round()
    names = (
        "source-record-poll-total",
        "source-record-write-total",
        "source-record-active-count",
    )
    assert world.some(*names) == (2, 0, 2)
    assert world.some("batch-size-max", "batch-size-avg") == (2, 1)
    world.producer.release()
    assert world.some(*names) == (2, 1, 1)
    world.producer.release()
    world.clock.now = 10.0
    body.come_round()
    assert world.some("source-record-active-count", "offset-commit-success-percentage") == (0, 1)


def test_what_transforms_drop_is_polled_and_never_written(world):
    body = world.source([record(1), record(2), record(3)], transforms=DropsOdd())
    body.come_round()
    world.producer.release()
    names = ("source-record-poll-total", "source-record-write-total")
    assert world.some(*names, "source-record-active-count") == (3, 1, 0)


def test_a_batch_that_is_refused_is_not_sent(world):
    body = world.sink()
    world.consumer.script.append([task_clients.consumed(0)])
    refused = [errors.RetriableError("later")]

    def put(_sink_records):
        if refused:
            raise refused.pop()

    body._task.put = put
    world.shared["stopping"].set()
    body.come_round()
    assert world.some("sink-record-read-total", "sink-record-send-total") == (1, 0)
    body.come_round()
    assert world.some("sink-record-read-total", "sink-record-send-total") == (1, 1)


def test_a_task_that_moves_its_records_itself_reports_how_many(world):
    plugin = world.moves()
    for total in (5, 5, 0, 12):
        plugin.context.report(context.PipelineProgress(records_total=total))
    assert world.some("source-record-poll-total", "source-record-write-total") == (12, 12)
