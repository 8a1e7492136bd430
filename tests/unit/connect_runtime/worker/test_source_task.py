"""A source task's body, step by step: what it sends, in which order its plugin and store hear."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import pytest

from connect_runtime.api.errors import ConnectError, FatalError
from connect_runtime.api.records import SourceRecord
from connect_runtime.api.task import SourceTask
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.config import worker_config
from connect_runtime.storage.memory_and_offset_file_logs import MemoryLog
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.worker import record_conversion
from connect_runtime.worker.offset_commits import OffsetCommitTiming
from connect_runtime.worker.plugin_contexts import ContextDeps, WorkerSourceTaskContext
from connect_runtime.worker.record_conversion import FailFastOperator, RecordConversion
from connect_runtime.worker.source_task import WorkerSourceTask, WorkerSourceTaskDeps
from connect_runtime.worker.task_metrics import SourceTaskMetrics, TaskMetricsInfo
from tests.fakes.plugin_contexts import Clock, Offsets
from tests.fakes.task_clients import Plugins, Producer

TASK = ConnectorTaskId("c", 0)
WORKER = worker_config.parse_standalone_config(
    {
        "bootstrap.servers": "a:1",
        "key.converter": "String",
        "value.converter": "String",
        "header.converter": "Simple",
        "offset.storage.file.filename": "f",
    }
)


class Source(SourceTask):
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
        clock = Clock(0.0)
        stopping = threading.Event()
        stopping.set()  # nobody sleeps
        self.producer = Producer()
        self.plugin = Source()
        self.offsets = LogOffsetBackingStore(MemoryLog("offsets"))
        self.offsets.start(1.0)
        metrics = SourceTaskMetrics(
            TaskMetricsInfo(task=TASK, clock=clock, sampling=SampleWindows())
        )
        made = record_conversion.load_converters({}, worker=WORKER, installed=Plugins())
        self.body = WorkerSourceTask(
            WorkerSourceTaskDeps(
                task=self.plugin,
                props=dict,
                context=WorkerSourceTaskContext(
                    TASK,
                    ContextDeps(clock=clock, stopping=stopping, on_metrics=lambda _read: None),
                    resolve=dict,
                    offset_reader=Offsets(),
                ),
                pipeline=RecordConversion(made, operator=FailFastOperator(metrics)),
                make_producer=lambda: self.producer,
                offsets=self.offsets,
                timing=OffsetCommitTiming(interval_s=60, timeout_s=5),
                on_topic=lambda _topic: None,
                metrics=metrics,
                stopping=stopping,
                given_up=threading.Event(),
                clock=clock,
            )
        )
        self.body.start_up()

    def stored(self):
        return self.offsets.read_offsets("c", [{"f": "a"}], 1.0)[0]


@pytest.fixture
def world():
    return World()


def record(number):
    return SourceRecord(
        topic="t",
        value=f"v{number}",
        source_partition={"f": "a"},
        source_offset={"n": number},
    )


def test_after_a_record_that_failed_nothing_more_is_sent(world):
    """What came behind it would be sent once more when the task is started again."""
    world.plugin.polls.append([record(1), record(2), record(3)])
    world.producer.failures.append(FatalError("too large"))
    with pytest.raises(ConnectError, match="producer send"):
        world.body.run_once()
    assert [each.value for each in world.producer.sent] == [b"v1"]


def test_a_task_hears_of_a_record_before_its_offset_may_be_committed(world):
    """Else `commit` might say that all is stored which `commit_record` has not told of yet."""
    world.plugin.polls.append([record(1), record(2)])
    world.plugin.committable = lambda: world.body._take_committable_offsets().committable_records
    world.body.run_once()
    assert world.plugin.told == [(1, 0), (2, 1)]
    world.body.shut_down()
    assert world.stored() == {"n": 2}


def test_a_task_that_would_end_the_program_ends_no_thread_of_its_producer(world):
    """On it all other records' deliveries are still to be told."""
    world.plugin.polls.append([record(1), record(2)])
    world.plugin.ends = True
    world.body.run_once()
    world.body.shut_down()
    assert world.stored() == {"n": 2}
