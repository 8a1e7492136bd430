"""A sink task's body, step by step: when it puts again, what it commits, what it closes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from connect_runtime.api import errors, task
from connect_runtime.base import ids, sampled
from connect_runtime.core.task import worker_config
from connect_runtime.runtime import (
    contexts,
    offset_commits,
    record_pipeline,
    sink_context,
    sink_task,
    task_metrics,
)
from tests.fakes import plugin_contexts, task_clients

TASK = ids.ConnectorTaskId("c", 0)
PLACE, IDLE = ids.TopicPartition("t", 0), ids.TopicPartition("t", 1)
WORKER = worker_config.standalone(
    {
        "bootstrap.servers": "a:1",
        "key.converter": "String",
        "value.converter": "String",
        "header.converter": "Simple",
        "offset.storage.file.filename": "f",
    }
)


class Sink(task.SinkTask):
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
        self.clock = plugin_contexts.Clock(0.0)
        self.consumer = task_clients.Consumer(begins={PLACE: 4, IDLE: 7})
        self.plugin = Sink()
        self.given_up = threading.Event()
        stopping = threading.Event()
        stopping.set()  # nobody sleeps
        self.context = sink_context.SinkTaskContext(
            TASK,
            contexts.Basics(clock=self.clock, stopping=stopping, on_metrics=lambda _read: None),
            resolve=dict,
        )
        metrics = task_metrics.SinkTaskMetrics(
            task_metrics.About(task=TASK, clock=self.clock, sampling=sampled.Sampling())
        )
        made = record_pipeline.converters({}, worker=WORKER, installed=task_clients.Plugins())
        self.body = sink_task.SinkTaskBody(
            sink_task.SinkParts(
                task=self.plugin,
                props=dict,
                topics=("t",),
                context=self.context,
                pipeline=record_pipeline.RecordPipeline(
                    made, operator=record_pipeline.Intolerant(metrics)
                ),
                make_consumer=lambda: self.consumer,
                timing=offset_commits.Timing(interval_s=60, timeout_s=5),
                on_topic=lambda _topic: None,
                metrics=metrics,
                stopping=stopping,
                given_up=self.given_up,
                clock=self.clock,
            )
        )
        self.body.start_up()
        self.consumer.listener.on_assigned([PLACE, IDLE])

    def read(self, *offsets):
        self.consumer.script.append([task_clients.consumed(each) for each in offsets])

    def revoke(self, *partitions):
        self.consumer.listener.on_revoked(partitions)


@pytest.fixture
def world():
    return World()


def test_a_refused_batch_is_put_again_when_the_task_wants_it(world):
    """`retry_after_ms`: how long what the task writes to is to be left alone."""
    world.read(4)
    world.plugin.raises["put"] = [errors.RetriableError("later")]
    world.context.retry_after_ms(0)
    world.body.come_round()
    world.context.retry_after_ms(30_000)
    for now_s in (0.0, 10.0, 29.9):
        world.clock.now = now_s
        world.body.come_round()
    assert world.plugin.of("put") == [[4]]
    assert world.consumer.paused == {PLACE, IDLE}
    world.clock.now = 30.0
    world.body.come_round()
    assert world.plugin.of("put") == [[4], [4]]
    assert world.consumer.paused == set()


def test_a_task_that_wants_to_be_called_soon_is_not_kept_from_what_comes(world):
    world.context.retry_after_ms(30_000)
    world.read(4)
    world.body.come_round()
    assert world.plugin.of("put") == [[4]]


def test_nobody_waits_to_put_what_was_taken_away(world):
    world.read(4)
    world.plugin.raises["put"] = [errors.RetriableError("later")]
    world.body.come_round()
    world.context.retry_after_ms(30_000)
    world.consumer.script.append(lambda: world.revoke(PLACE))
    world.body.come_round()
    assert world.plugin.of("put") == [[4], []]
    assert world.consumer.paused == {PLACE}, "the library forgets of those that are gone"


def test_what_is_taken_away_while_the_task_is_paused_is_not_put_any_more(world):
    """Whoever has the partition now puts it."""
    world.body.rest()
    world.consumer.paused.clear()
    world.read(4)
    world.body.rest()
    world.consumer.script.append(lambda: world.revoke(PLACE))
    world.body.rest()
    world.body.come_round()
    assert world.plugin.of("put") == [[]]


def test_what_the_task_paused_stays_so_when_it_comes_back_at_once(world):
    """Under eager assignors every partition goes and comes with every rebalance."""
    world.context.pause(PLACE)
    world.revoke(PLACE, IDLE)
    world.consumer.paused.clear()  # as the library does
    world.consumer.listener.on_assigned([PLACE, IDLE])
    assert world.consumer.paused == {PLACE}
    world.body.rest()
    world.body.come_round()
    assert world.consumer.paused == {PLACE}
    world.context.resume(PLACE)
    assert world.consumer.paused == set()


def test_what_the_task_paused_and_somebody_else_had_since_is_not_paused_any_more(world):
    world.context.pause(PLACE)
    world.revoke(PLACE, IDLE)
    world.consumer.paused.clear()
    world.consumer.listener.on_assigned([IDLE])
    world.consumer.listener.on_assigned([PLACE])
    assert world.consumer.paused == set()


def test_when_pre_commit_throws_partitions_that_go_elsewhere_are_closed_all_the_same(world):
    """Their records come again; the task lives on."""
    world.read(4)
    world.body.come_round()
    world.plugin.raises["pre_commit"] = [RuntimeError("out of paper")]
    world.revoke(PLACE)
    assert world.plugin.of("close") == [[PLACE]]
    assert world.consumer.committed == []
    assert world.context.assignment() == {IDLE}


def test_what_cannot_be_closed_is_not_committed(world):
    """A task may find out in `close` alone that something of it was not stored."""
    world.read(4)
    world.body.come_round()
    world.plugin.raises["close"] = [RuntimeError("disk full")]
    with pytest.raises(RuntimeError, match="disk full"):
        world.revoke(PLACE)
    assert world.consumer.committed == []


def test_what_was_closed_is_committed_behind_it(world):
    world.read(4)
    world.body.come_round()
    world.revoke(PLACE)
    assert [name for name, _ in world.plugin.calls] == ["put", "pre_commit", "close"]
    assert world.consumer.committed == [{PLACE: 5}]


def test_a_task_that_was_given_up_closes_and_commits_nothing(world):
    """Another worker may run it by now."""
    world.read(4)
    world.body.come_round()
    world.given_up.set()
    world.body.close_down()
    assert world.plugin.of("close") == [[PLACE, IDLE]]
    assert world.plugin.calls[-1] == ("stop", None)
    assert world.consumer.committed == []


def test_a_paused_task_commits_where_it_is(world):
    """Who looks at the lag of a paused sink sees the truth."""
    world.read(4)
    world.body.come_round()
    assert world.consumer.committed == []
    world.body.rest()
    world.body.rest()
    assert world.consumer.committed == [{PLACE: 5, IDLE: 7}]


def test_where_an_idle_partition_begins_is_committed_with_the_others(world):
    """Else one that begins at its end would begin at a later one, next time."""
    world.read(4)
    world.body.come_round()
    world.clock.now = 60.0
    world.body.come_round()
    assert world.consumer.committed == [{PLACE: 5, IDLE: 7}]
    world.clock.now = 120.0
    world.body.come_round()
    assert len(world.consumer.committed) == 1
