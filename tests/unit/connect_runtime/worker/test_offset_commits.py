"""Offsets are committed now and then; what fails is tried again, under newer ones."""

from __future__ import annotations

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.worker.offset_commits import OffsetCommitTiming, SourceOffsetCommitter
from connect_runtime.worker.submitted_offsets import SubmittedRecords
from connect_runtime.worker.task_metrics import TaskMetrics, TaskMetricsInfo
from tests.fakes.plugin_contexts import Clock


class Offsets:
    """An offset store that answers when it is told to."""

    def __init__(self):
        self.written = []
        self.answers = []

    def read_offsets(self, connector, partitions, timeout_s): ...

    def read_all_offsets(self, connector, timeout_s): ...

    def connector_partitions(self, connector, timeout_s): ...

    def write_offsets(self, connector, pairs, *, on_done):
        self.written.append(list(pairs))
        self.answers.append(on_done)


class World:
    def __init__(self):
        self.clock = Clock()
        self.store = Offsets()
        self.submitted = SubmittedRecords()
        self.metrics = TaskMetrics(
            TaskMetricsInfo(
                task=ConnectorTaskId("c", 0), clock=self.clock, sampling=SampleWindows()
            )
        )
        self.commits = SourceOffsetCommitter(
            "c",
            offsets=self.store,
            take_committable=self.submitted.take_committable_offsets,
            timing=OffsetCommitTiming(interval_s=10, timeout_s=5),
            metrics=self.metrics,
            clock=self.clock,
        )

    def stored(self, number, partition="p"):
        self.submitted.ack(self.submitted.submit({"f": partition}, {"n": number}))

    def tick(self, at_s):
        self.clock.now = at_s
        return self.commits.commit_if_due()


@pytest.fixture
def world():
    return World()


def test_nothing_is_written_before_it_is_due(world):
    world.stored(1)
    assert not world.tick(9.9)
    assert world.store.written == []
    assert not world.tick(10)
    assert world.store.written == [[({"f": "p"}, {"n": 1})]]
    world.store.answers[0](None)
    assert world.tick(10.1)


def test_with_nothing_to_write_the_task_is_told_all_the_same(world):
    assert world.tick(10)
    assert world.store.written == []


@pytest.mark.parametrize("answer", [RetriableError("no"), None])
def test_what_failed_or_took_too_long_comes_again_with_what_is_newer(world, answer):
    world.stored(1)
    world.stored(7, "q")
    world.tick(10)
    if answer is not None:
        world.store.answers[0](answer)
    assert not world.tick(15.1)
    world.stored(2)
    world.tick(21)
    assert world.store.written[1] == [({"f": "p"}, {"n": 2}), ({"f": "q"}, {"n": 7})]
    world.store.answers[0](None)  # too late to count
    assert not world.tick(21.1)
    world.store.answers[1](None)
    assert world.tick(21.2)


def test_one_write_at_a_time(world):
    world.stored(1)
    world.tick(10)
    world.stored(2)
    world.tick(14)
    assert len(world.store.written) == 1


def test_the_last_one_has_all_that_was_not_stored(world):
    world.stored(1, "a")
    world.tick(10)
    world.stored(2, "b")
    world.store.write_offsets = lambda connector, pairs, *, on_done: (
        world.store.written.append(list(pairs)),
        on_done(None),
    )
    world.commits.commit_all()
    assert world.store.written[-1] == [({"f": "a"}, {"n": 1}), ({"f": "b"}, {"n": 2})]


def test_every_attempt_is_measured(world):
    def numbers():
        return world.metrics.get_metric_readings()[0].numbers

    world.tick(10)
    assert numbers()["offset-commit-success-percentage"] == 1
    world.stored(1)
    world.tick(20)
    world.store.answers[0](RetriableError("no"))
    world.tick(21)
    assert numbers()["offset-commit-failure-percentage"] == 0.5
    world.tick(30)
    world.clock.now = 30.5
    world.store.answers[1](None)
    world.tick(30.5)
    assert numbers()["offset-commit-max-time-ms"] == 500
    assert numbers()["offset-commit-failure-percentage"] == pytest.approx(1 / 3)
