"""A source task's body, step by step: what it sends, in which order its plugin and store hear."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import pytest

from connect_runtime.api import errors, records, task
from connect_runtime.base import ids, sampled
from connect_runtime.core.task import worker_config
from connect_runtime.runtime import (
    contexts,
    offset_commits,
    record_pipeline,
    source_task,
    task_metrics,
)
from connect_runtime.runtime.stores import memory_log, offset_store
from tests.fakes import plugin_contexts, task_clients

TASK = ids.ConnectorTaskId("c", 0)
WORKER = worker_config.standalone(
    {
        "bootstrap.servers": "a:1",
        "key.converter": "String",
        "value.converter": "String",
        "header.converter": "Simple",
        "offset.storage.file.filename": "f",
    }
)


class Source(task.SourceTask):
    """`polls` is what it polls, `told` of what it was told, with what was committable then."""

    def __init__(self) -> None:
        self.polls: deque[Any] = deque()
        self.told: list[tuple[int, int]] = []
        self.committable = lambda: 0
        self.ends = False

    def start(self, props): ...

    def poll(self):
        return self.polls.popleft() if self.polls else None

    def stop(self): ...

    def commit_record(self, record, metadata):
        self.told.append((record.source_offset["n"], self.committable()))
        if self.ends:
            raise SystemExit


class World:
    def __init__(self) -> None:
        clock = plugin_contexts.Clock(0.0)
        stopping = threading.Event()
        stopping.set()  # nobody sleeps
        self.producer = task_clients.Producer()
        self.plugin = Source()
        self.offsets = offset_store.OffsetStore(memory_log.MemoryLog("offsets"))
        self.offsets.start(1.0)
        metrics = task_metrics.SourceTaskMetrics(
            task_metrics.About(task=TASK, clock=clock, sampling=sampled.Sampling())
        )
        made = record_pipeline.converters({}, worker=WORKER, installed=task_clients.Plugins())
        self.body = source_task.SourceTaskBody(
            source_task.SourceParts(
                task=self.plugin,
                props=dict,
                context=contexts.SourceTaskContext(
                    TASK,
                    contexts.Basics(clock=clock, stopping=stopping, on_metrics=lambda _read: None),
                    resolve=dict,
                    offset_reader=plugin_contexts.Offsets(),
                ),
                pipeline=record_pipeline.RecordPipeline(
                    made, operator=record_pipeline.Intolerant(metrics)
                ),
                make_producer=lambda: self.producer,
                offsets=self.offsets,
                timing=offset_commits.Timing(interval_s=60, timeout_s=5),
                on_topic=lambda _topic: None,
                metrics=metrics,
                stopping=stopping,
                given_up=threading.Event(),
                clock=clock,
            )
        )
        self.body.start_up()

    def stored(self):
        return self.offsets.read("c", [{"f": "a"}], 1.0)[0]


@pytest.fixture
def world():
    return World()


def record(number):
    return records.SourceRecord(
        topic="t",
        value=f"v{number}",
        source_partition={"f": "a"},
        source_offset={"n": number},
    )


def test_after_a_record_that_failed_nothing_more_is_sent(world):
    """What came behind it would be sent once more when the task is started again."""
    world.plugin.polls.append([record(1), record(2), record(3)])
    world.producer.failures.append(errors.FatalError("too large"))
    with pytest.raises(errors.ConnectError, match="producer send"):
        world.body.come_round()
    assert [each.value for each in world.producer.sent] == [b"v1"]


def test_a_task_hears_of_a_record_before_its_offset_may_be_committed(world):
    """Else `commit` might say that all is stored which `commit_record` has not told of yet."""
    world.plugin.polls.append([record(1), record(2)])
    world.plugin.committable = lambda: world.body._take().committable_records
    world.body.come_round()
    assert world.plugin.told == [(1, 0), (2, 1)]
    world.body.close_down()
    assert world.stored() == {"n": 2}


def test_a_task_that_would_end_the_program_ends_no_thread_of_its_producer(world):
    """On it all other records' deliveries are still to be told."""
    world.plugin.polls.append([record(1), record(2)])
    world.plugin.ends = True
    world.body.come_round()
    world.body.close_down()
    assert world.stored() == {"n": 2}
