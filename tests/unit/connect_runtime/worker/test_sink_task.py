"""A sink task's body, step by step: when it puts again, what it commits, what it closes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from connect_runtime.api.errors import RetriableError
from connect_runtime.api.task import SinkTask
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.config import worker_config
from connect_runtime.worker import record_conversion
from connect_runtime.worker.offset_commits import OffsetCommitTiming
from connect_runtime.worker.plugin_contexts import ContextDeps, WorkerSinkTaskContext
from connect_runtime.worker.record_conversion import FailFastOperator, RecordConversion
from connect_runtime.worker.sink_task import SinkTaskOffsets, WorkerSinkTask, WorkerSinkTaskDeps
from connect_runtime.worker.task_metrics import SinkTaskMetrics, TaskMetricsInfo
from tests.fakes import task_clients
from tests.fakes.plugin_contexts import Clock
from tests.fakes.task_clients import Consumer, Plugins

TASK = ConnectorTaskId("c", 0)
PLACE, IDLE = TopicPartition("t", 0), TopicPartition("t", 1)
WORKER = worker_config.parse_standalone_config(
    {
        "bootstrap.servers": "a:1",
        "key.converter": "String",
        "value.converter": "String",
        "header.converter": "Simple",
        "offset.storage.file.filename": "f",
    }
)


class Sink(SinkTask):
    """Notes its calls; what it raises is taken from `raises`, by method."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.raises: dict[str, list[Exception]] = {}

    def _called(self, name: str, given: Any) -> None:
        self.calls.append((name, given))
        if self.raises.get(name):
            raise self.raises[name].pop(0)

    def start(self, props): ...

    def put(self, sink_records):
        self._called("put", [each.kafka_offset for each in sink_records])

    def pre_commit(self, offsets):
        self._called("pre_commit", offsets)
        return offsets

    def close(self, partitions):
        self._called("close", partitions)

    def stop(self):
        self._called("stop", None)

    def of(self, name: str) -> list[Any]:
        return [given for each, given in self.calls if each == name]


class World:
    """Commits come a minute apart; time stands still unless it is set."""

    def __init__(self) -> None:
        self.clock = Clock(0.0)
        self.consumer = Consumer(begins={PLACE: 4, IDLE: 7})
        self.plugin = Sink()
        self.given_up = threading.Event()
        stopping = threading.Event()
        stopping.set()  # nobody sleeps
        self.context = WorkerSinkTaskContext(
            TASK,
            ContextDeps(clock=self.clock, stopping=stopping, on_metrics=lambda _read: None),
            resolve=dict,
        )
        metrics = SinkTaskMetrics(
            TaskMetricsInfo(task=TASK, clock=self.clock, sampling=SampleWindows())
        )
        made = record_conversion.load_converters({}, worker=WORKER, installed=Plugins())
        self.body = WorkerSinkTask(
            WorkerSinkTaskDeps(
                task=self.plugin,
                props=dict,
                topics=("t",),
                context=self.context,
                pipeline=RecordConversion(made, operator=FailFastOperator(metrics)),
                make_consumer=lambda: self.consumer,
                timing=OffsetCommitTiming(interval_s=60, timeout_s=5),
                on_topic=lambda _topic: None,
                metrics=metrics,
                stopping=stopping,
                given_up=self.given_up,
                clock=self.clock,
            )
        )
        self.body.start_up()
        self.consumer.listener.on_partitions_assigned([PLACE, IDLE])

    def read(self, *offsets):
        self.consumer.script.append([task_clients.consumed(each) for each in offsets])

    def revoke(self, *partitions):
        self.consumer.listener.on_partitions_revoked(partitions)


@pytest.fixture
def world():
    return World()


def test_a_refused_batch_is_put_again_when_the_task_wants_it(world):
    """`retry_after_ms`: how long what the task writes to is to be left alone."""
    world.read(4)
    world.plugin.raises["put"] = [RetriableError("later")]
    world.context.set_retry_delay_ms(0)
    world.body.run_once()
    world.context.set_retry_delay_ms(30_000)
    for now_s in (0.0, 10.0, 29.9):
        world.clock.now = now_s
        world.body.run_once()
    assert world.plugin.of("put") == [[4]]
    assert world.consumer.paused == {PLACE, IDLE}
    world.clock.now = 30.0
    world.body.run_once()
    assert world.plugin.of("put") == [[4], [4]]
    assert world.consumer.paused == set()


def test_a_task_that_wants_to_be_called_soon_is_not_kept_from_what_comes(world):
    world.context.set_retry_delay_ms(30_000)
    world.read(4)
    world.body.run_once()
    assert world.plugin.of("put") == [[4]]


def test_nobody_waits_to_put_what_was_taken_away(world):
    world.read(4)
    world.plugin.raises["put"] = [RetriableError("later")]
    world.body.run_once()
    world.context.set_retry_delay_ms(30_000)
    world.consumer.script.append(lambda: world.revoke(PLACE))
    world.body.run_once()
    assert world.plugin.of("put") == [[4], []]
    assert world.consumer.paused == {PLACE}, "the library forgets of those that are gone"


def test_what_is_taken_away_while_the_task_is_paused_is_not_put_any_more(world):
    """Whoever has the partition now puts it."""
    world.body.keep_paused_task_alive()
    world.consumer.paused.clear()
    world.read(4)
    world.body.keep_paused_task_alive()
    world.consumer.script.append(lambda: world.revoke(PLACE))
    world.body.keep_paused_task_alive()
    world.body.run_once()
    assert world.plugin.of("put") == [[]]


def test_what_the_task_paused_stays_so_when_it_comes_back_at_once(world):
    """Under eager assignors every partition goes and comes with every rebalance."""
    world.context.pause(PLACE)
    world.revoke(PLACE, IDLE)
    world.consumer.paused.clear()  # as the library does
    world.consumer.listener.on_partitions_assigned([PLACE, IDLE])
    assert world.consumer.paused == {PLACE}
    world.body.keep_paused_task_alive()
    world.body.run_once()
    assert world.consumer.paused == {PLACE}
    world.context.resume(PLACE)
    assert world.consumer.paused == set()


def test_what_the_task_paused_and_somebody_else_had_since_is_not_paused_any_more(world):
    world.context.pause(PLACE)
    world.revoke(PLACE, IDLE)
    world.consumer.paused.clear()
    world.consumer.listener.on_partitions_assigned([IDLE])
    world.consumer.listener.on_partitions_assigned([PLACE])
    assert world.consumer.paused == set()


def test_when_pre_commit_throws_partitions_that_go_elsewhere_are_closed_all_the_same(world):
    """Their records come again; the task lives on."""
    world.read(4)
    world.body.run_once()
    world.plugin.raises["pre_commit"] = [RuntimeError("out of paper")]
    world.revoke(PLACE)
    assert world.plugin.of("close") == [[PLACE]]
    assert world.consumer.committed == []
    assert world.context.assignment() == {IDLE}


def test_what_cannot_be_closed_is_not_committed(world):
    """A task may find out in `close` alone that something of it was not stored."""
    world.read(4)
    world.body.run_once()
    world.plugin.raises["close"] = [RuntimeError("disk full")]
    with pytest.raises(RuntimeError, match="disk full"):
        world.revoke(PLACE)
    assert world.consumer.committed == []


def test_what_was_closed_is_committed_behind_it(world):
    world.read(4)
    world.body.run_once()
    world.revoke(PLACE)
    assert [name for name, _ in world.plugin.calls] == ["put", "pre_commit", "close"]
    assert world.consumer.committed == [{PLACE: 5}]


def test_a_task_that_was_given_up_closes_and_commits_nothing(world):
    """Another worker may run it by now."""
    world.read(4)
    world.body.run_once()
    world.given_up.set()
    world.body.shut_down()
    assert world.plugin.of("close") == [[PLACE, IDLE]]
    assert world.plugin.calls[-1] == ("stop", None)
    assert world.consumer.committed == []


def test_a_paused_task_commits_where_it_is(world):
    """Who looks at the lag of a paused sink sees the truth."""
    world.read(4)
    world.body.run_once()
    assert world.consumer.committed == []
    world.body.keep_paused_task_alive()
    world.body.keep_paused_task_alive()
    assert world.consumer.committed == [{PLACE: 5, IDLE: 7}]


def test_where_an_idle_partition_begins_is_committed_with_the_others(world):
    """Else one that begins at its end would begin at a later one, next time."""
    world.read(4)
    world.body.run_once()
    world.clock.now = 60.0
    world.body.run_once()
    assert world.consumer.committed == [{PLACE: 5, IDLE: 7}]
    world.clock.now = 120.0
    world.body.run_once()
    assert len(world.consumer.committed) == 1


A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def begun():
    offsets = SinkTaskOffsets()
    offsets.assign_partitions({A: 5, B: 0})
    return offsets


def test_what_was_delivered_may_be_committed_once():
    offsets = begun()
    offsets.record_delivery(A, 8)
    assert offsets.get_current_offsets() == {A: 8, B: 0}
    wanted, wrong = offsets.select_committable_offsets(
        offsets.get_current_offsets(), offsets.get_current_offsets()
    )
    assert (wanted, wrong) == ({A: 8, B: 0}, [])
    offsets.record_commit(wanted)
    assert offsets.select_committable_offsets(
        offsets.get_current_offsets(), offsets.get_current_offsets()
    ) == ({}, [])
    offsets.check_invariants()


def test_a_task_may_commit_less_and_never_more():
    offsets = begun()
    offsets.record_delivery(A, 8)
    asked = offsets.get_current_offsets()
    assert offsets.select_committable_offsets({A: 6}, asked) == ({A: 6, B: 0}, [])
    assert offsets.select_committable_offsets({A: 6}, {A: 8}) == ({A: 6}, [])
    wanted, wrong = offsets.select_committable_offsets(
        {A: 9, TopicPartition("u", 0): 1, "t-0": 3, B: True}, asked
    )
    assert wanted == {}
    assert len(wrong) == 4
    assert "only records before offset 8 were delivered" in wrong[0]


def test_after_a_failed_commit_it_goes_on_where_the_last_one_was():
    offsets = begun()
    offsets.record_delivery(A, 8)
    assert offsets.reset_to_committed_offsets() == {A: 5, B: 0}
    assert offsets.get_current_offsets() == {A: 5, B: 0}


def test_what_is_rewound_counts_as_committed():
    offsets = begun()
    offsets.rewind_partitions({A: 2, TopicPartition("u", 0): 7})
    assert offsets.get_current_offsets() == {A: 2, B: 0}
    assert offsets.select_committable_offsets({A: 2}, offsets.get_current_offsets()) == ({}, [])


def test_of_what_is_revoked_nothing_more_is_known():
    offsets = begun()
    offsets.revoke_partitions([A])
    offsets.record_delivery(A, 9)
    offsets.record_commit({A: 9})
    assert offsets.assigned == {B}
    offsets.check_invariants()
