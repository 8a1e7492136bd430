"""What the bodies of tasks tell of what they do, step by step.

What is observed of a task, and what Java's attributes say of it then."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api.converter import Converter
from connect_runtime.api.errors import DataError, FatalError, RetriableError
from connect_runtime.api.plugin_context import LastTaskRuns, PipelineProgress
from connect_runtime.api.records import SourceRecord
from connect_runtime.api.task import PipelineTask, SinkTask, SourceTask
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.config import worker_config
from connect_runtime.storage.memory_and_offset_file_logs import MemoryLog
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.storage.status_records import RunState
from connect_runtime.worker import connect_metrics_registry, record_conversion
from connect_runtime.worker.offset_commits import OffsetCommitTiming
from connect_runtime.worker.pipeline_task import WorkerPipelineTask, WorkerPipelineTaskDeps
from connect_runtime.worker.plugin_contexts import (
    ContextDeps,
    WorkerPipelineTaskContext,
    WorkerSinkTaskContext,
    WorkerSourceTaskContext,
)
from connect_runtime.worker.record_conversion import FailFastOperator, RecordConversion
from connect_runtime.worker.sink_task import WorkerSinkTask, WorkerSinkTaskDeps
from connect_runtime.worker.source_task import WorkerSourceTask, WorkerSourceTaskDeps
from connect_runtime.worker.task_metrics import (
    RecordError,
    SinkTaskMetrics,
    SinkTaskStats,
    SourceTaskMetrics,
    SourceTaskStats,
    StateDurations,
    TaskErrorStats,
    TaskMetricsInfo,
    TaskStats,
)
from tests.fakes import task_clients
from tests.fakes.plugin_contexts import Clock, Offsets
from tests.fakes.task_clients import Consumer, Membership, Plugins, Producer

TASK = ConnectorTaskId("c", 0)
PLACE = TopicPartition("t", 0)
WORKER = worker_config.parse_standalone_config(
    {
        "bootstrap.servers": "a:1",
        "key.converter": "String",
        "value.converter": "String",
        "header.converter": "Simple",
        "offset.storage.file.filename": "f",
    }
)


class Refusing(Converter):
    def from_connect_data(self, topic, data, record_headers):
        raise DataError("no")

    def to_connect_data(self, topic, payload, record_headers):
        raise DataError("no")


class HeldConsumer(Consumer):
    """Commits are answered when the test says so."""

    def commit_async(self, offsets, *, on_committed):
        self.committed.append(dict(offsets))
        self.__dict__.setdefault("answers", []).append(on_committed)


class Sink(SinkTask):
    def start(self, props): ...
    def put(self, sink_records): ...
    def stop(self): ...


class Source(SourceTask):
    polls: list

    def start(self, props): ...
    def poll(self):
        return self.polls.pop(0) if self.polls else None

    def stop(self): ...


class DropsOdd:
    def apply(self, record):
        return None if record.source_offset["n"] % 2 else record

    def close(self): ...


class Moves(PipelineTask):
    def start(self, props): ...
    def run_once(self, timeout_s): ...
    def pause(self): ...
    def resume(self): ...
    def stop(self): ...
    def abandon(self): ...


class World:
    """One task of each kind; time stands still unless it is set."""

    def __init__(self):
        self.clock = Clock(0.0)
        self.consumer = HeldConsumer()
        self.producer = Producer(held=True)
        self.offsets = LogOffsetBackingStore(MemoryLog("offsets"))
        self.offsets.start(1.0)
        self.shared: dict[str, Any] = {
            "props": dict,
            "timing": OffsetCommitTiming(interval_s=10, timeout_s=5),
            "stopping": threading.Event(),
            "given_up": threading.Event(),
            "clock": self.clock,
        }
        self.own: dict[str, Any] = {
            "deps": ContextDeps(
                clock=self.clock, stopping=threading.Event(), on_metrics=lambda _read: None
            ),
            "resolve": dict,
        }

    def measured(self, of):
        self.metrics = of(TaskMetricsInfo(task=TASK, clock=self.clock, sampling=SampleWindows()))
        return self.metrics

    def pipeline(self, value="String", transforms=None):
        made = record_conversion.load_converters(
            {"value.converter": value},
            worker=WORKER,
            installed=Plugins({"Refusing": Refusing}),
        )
        return RecordConversion(
            made, operator=FailFastOperator(self.metrics), transforms=transforms
        )

    def sink(self, value="String"):
        metrics = self.measured(SinkTaskMetrics)
        body = WorkerSinkTask(
            WorkerSinkTaskDeps(
                task=Sink(),
                topics=("t",),
                context=WorkerSinkTaskContext(TASK, **self.own),
                pipeline=self.pipeline(value),
                make_consumer=lambda: self.consumer,
                on_topic=lambda _topic: None,
                metrics=metrics,
                **self.shared,
            )
        )
        body.start_up()
        self.consumer.listener.on_partitions_assigned([PLACE])
        return body

    def source(self, *polls, transforms=None):
        metrics = self.measured(SourceTaskMetrics)
        plugin = Source()
        plugin.polls = list(polls)
        body = WorkerSourceTask(
            WorkerSourceTaskDeps(
                task=plugin,
                context=WorkerSourceTaskContext(TASK, offset_reader=Offsets(), **self.own),
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
        metrics = self.measured(SourceTaskMetrics)

        def make_context(on_report):
            return WorkerPipelineTaskContext(
                TASK,
                offset_reader=Offsets(),
                stop_timeout_s=1.0,
                worker={},
                membership=Membership(),
                last_runs=LastTaskRuns,
                on_report=on_report,
                **self.own,
            )

        plugin = Moves()
        body = WorkerPipelineTask(
            WorkerPipelineTaskDeps(
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
        for reading in self.metrics.get_metric_readings():
            found.update(reading.numbers)
        return found

    def some(self, *names):
        numbers = self.numbers()
        return tuple(numbers[each] for each in names)


@pytest.fixture
def world():
    return World()


def record(number):
    return SourceRecord(
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
    body.run_once()
    assert world.some("sink-record-read-total", "sink-record-send-total") == (2, 2)
    assert world.some("sink-record-active-count", "partition-count") == (6, 1)
    world.clock.now = 10.0
    body.run_once()
    world.consumer.script.append([task_clients.consumed(6)])
    body.run_once()
    body._context.request_commit()
    world.clock.now = 14.9
    body.run_once()
    assert world.consumer.committed == [{PLACE: 6}]
    assert world.some(*COMMITS) == (1, 0, 0, 0)
    world.consumer.answers[0](None)
    assert world.some(*COMMITS) == (1, 1, 0, 0)
    assert world.some("offset-commit-max-time-ms") == (pytest.approx(4900),)
    assert world.some("sink-record-active-count") == (1,)
    body.run_once()
    assert world.consumer.committed[1:] == [{PLACE: 7}], "it was asked for meanwhile"


def test_a_commit_that_takes_too_long_has_failed_and_its_answer_changes_nothing(world):
    body = world.sink()
    world.consumer.script.append([task_clients.consumed(4)])
    body.run_once()
    world.clock.now = 10.0
    body.run_once()
    world.clock.now = 20.0
    body.run_once()
    assert world.consumer.committed == [{PLACE: 5}, {PLACE: 5}]
    assert world.some(*COMMITS) == (2, 0, 0, 1)
    world.consumer.answers[0](None)
    assert world.some(*COMMITS) == (2, 0, 1, 1)
    world.consumer.answers[1](RetriableError("no"))
    assert world.some(*COMMITS) == (2, 0, 1, 1)
    world.clock.now = 30.0
    body.run_once()
    world.consumer.answers[2](None)
    assert world.some(*COMMITS)[:3] == (3, 1, 1)


def test_nothing_new_to_commit_is_a_commit(world):
    body = world.sink()
    world.clock.now = 10.0
    body.run_once()
    assert world.consumer.committed == []
    assert world.some(*COMMITS) == (1, 1, 0, 0)


def test_what_is_taken_away_is_committed_and_gone(world):
    body = world.sink()
    world.consumer.script.append([task_clients.consumed(0)])
    body.run_once()
    world.clock.now = 10.0
    body.run_once()
    world.consumer.listener.on_partitions_revoked([PLACE])
    assert world.some(*COMMITS) == (2, 1, 0, 0)
    world.consumer.answers[0](None)
    assert world.some("offset-commit-skip-total", "partition-count") == (1, 0)


def test_a_record_that_cannot_be_converted_is_a_failure_with_a_time(world):
    body = world.sink("Refusing")
    world.consumer.script.append([task_clients.consumed(4)])
    with pytest.raises(FatalError):
        body.run_once()
    names = ("total-record-failures", "total-record-errors", "total-records-skipped")
    assert world.some(*names) == (1, 1, 0)
    assert world.some("last-error-timestamp") == (world.clock.wall_ms(),)
    assert world.some("sink-record-read-total", "sink-record-send-total") == (1, 0)


def test_a_source_counts_as_written_what_is_acknowledged(world):
    body = world.source([record(1), record(2)], [], None)
    for _ in range(3):
        body.run_once()
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
    body.run_once()
    assert world.some("source-record-active-count", "offset-commit-success-percentage") == (0, 1)


def test_what_transforms_drop_is_polled_and_never_written(world):
    body = world.source([record(1), record(2), record(3)], transforms=DropsOdd())
    body.run_once()
    world.producer.release()
    names = ("source-record-poll-total", "source-record-write-total")
    assert world.some(*names, "source-record-active-count") == (3, 1, 0)


def test_a_batch_that_is_refused_is_not_sent(world):
    body = world.sink()
    world.consumer.script.append([task_clients.consumed(0)])
    refused = [RetriableError("later")]

    def put(_sink_records):
        if refused:
            raise refused.pop()

    body._task.put = put
    world.shared["stopping"].set()
    body.run_once()
    assert world.some("sink-record-read-total", "sink-record-send-total") == (1, 0)
    body.run_once()
    assert world.some("sink-record-read-total", "sink-record-send-total") == (1, 1)


def test_a_task_that_moves_its_records_itself_reports_how_many(world):
    plugin = world.moves()
    for total in (5, 5, 0, 12):
        plugin.context.report(PipelineProgress(records_total=total))
    assert world.some("source-record-poll-total", "source-record-write-total") == (12, 12)


State = RunState
UNASSIGNED, RUNNING, PAUSED, FAILED = State.UNASSIGNED, State.RUNNING, State.PAUSED, State.FAILED


def test_before_the_first_state_no_time_is_spent():
    times = StateDurations()
    assert times.state is None
    assert [times.compute_state_ratio(each, 5.0) for each in State] == [0.0] * len(State)


def test_time_is_shared_out_among_states():
    """StateTrackerTest."""
    times, now_s = StateDurations(), 100.0
    steps = [
        (UNASSIGNED, 1, (1.0, 0.0, 0.0, 0.0)),
        (RUNNING, 3, (0.25, 0.75, 0.0, 0.0)),
        (PAUSED, 4, (0.125, 0.375, 0.5, 0.0)),
        (RUNNING, 8, (0.0625, 0.6875, 0.25, 0.0)),
        (FAILED, 16, (0.03125, 0.34375, 0.125, 0.5)),
    ]
    for state, seconds, ratios in steps:
        times.enter_state(state, now_s)
        now_s += seconds
        times.enter_state(state, now_s)  # again: nothing changes
        assert times.state is state
        found = tuple(
            times.compute_state_ratio(each, now_s) for each in (UNASSIGNED, RUNNING, PAUSED, FAILED)
        )
        assert found == pytest.approx(ratios)


def test_a_state_just_entered_has_no_share_yet():
    times = StateDurations()
    times.enter_state(RUNNING, 5.0)
    assert times.compute_state_ratio(RUNNING, 5.0) == 0.0


SAMPLING = SampleWindows()
Trouble = RecordError
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def some(numbers, *names):
    return tuple(numbers[each] for each in names)


def test_all_attributes_of_their_groups_are_there_and_no_other():
    found = [
        (connect_metrics_registry.TASK, TaskStats(SAMPLING, 0.0).compute_attributes(1.0)),
        (connect_metrics_registry.SOURCE_TASK, SourceTaskStats(SAMPLING).compute_attributes(1.0)),
        (connect_metrics_registry.SINK_TASK, SinkTaskStats(SAMPLING).compute_attributes(1.0)),
        (connect_metrics_registry.TASK_ERRORS, TaskErrorStats().compute_attributes()),
    ]
    for group, numbers in found:
        assert numbers.keys() == group.numbers.keys(), group.name


def test_a_task_is_unassigned_until_it_says_otherwise():
    made = TaskStats(SAMPLING, 100.0)
    states = [made.state]
    made.record_state(State.RUNNING, 101.0)
    assert [*states, made.state] == [State.UNASSIGNED, State.RUNNING]


def test_ratios_divide_the_time_since_the_task_was_made():
    made = TaskStats(SAMPLING, 100.0)
    made.record_state(State.RUNNING, 102.0)
    made.record_state(State.PAUSED, 106.0)
    assert some(made.compute_attributes(110.0), "running-ratio", "pause-ratio") == (0.4, 0.4)


def test_only_commits_that_succeed_have_a_time():
    made = TaskStats(SAMPLING, 0.0)
    made.record_commit(took_s=0.25, now_s=1.0)
    made.record_commit(took_s=None, now_s=2.0)
    made.record_commit(took_s=0.75, now_s=3.0)
    made.record_commit(took_s=0.5, now_s=4.0)
    found = made.compute_attributes(5.0)
    assert some(found, "offset-commit-max-time-ms", "offset-commit-avg-time-ms") == (750, 500)
    assert found["offset-commit-success-percentage"] == 0.75
    assert found["offset-commit-failure-percentage"] == 0.25


def test_batches():
    made = TaskStats(SAMPLING, 0.0)
    assert math.isnan(made.compute_attributes(0.0)["batch-size-avg"])
    made.record_batch(4, 1.0)
    made.record_batch(8, 2.0)
    assert some(made.compute_attributes(3.0), "batch-size-max", "batch-size-avg") == (8, 6)


def test_a_source_counts_what_it_polled_and_what_kafka_has():
    made = SourceTaskStats(SAMPLING)
    made.record_poll(3, took_s=0.5, now_s=0.0)
    made.record_poll(0, took_s=0.1, now_s=1.0)
    made.count_acknowledged_record(2.0)
    made.count_skipped_record(3.0)
    found = made.compute_attributes(10.0)
    totals = some(found, "source-record-poll-total", "source-record-write-total")
    assert totals == (3, 1)
    assert found["source-record-active-count"] == 1
    assert found["source-record-active-count-max"] == 3
    assert found["source-record-active-count-avg"] == (3 + 3 + 2 + 1) / 4
    assert some(found, "poll-batch-max-time-ms", "poll-batch-avg-time-ms") == (500, 300)
    rates = some(found, "source-record-poll-rate", "source-record-write-rate")
    assert rates == pytest.approx((3 / 40, 1 / 38))


def test_what_a_task_moves_itself_is_polled_and_written_at_once():
    made = SourceTaskStats(SAMPLING)
    made.record_pipeline_progress(700, 1.0)
    made.record_pipeline_progress(50, 2.0)
    found = made.compute_attributes(3.0)
    totals = some(found, "source-record-poll-total", "source-record-write-total")
    assert totals == (750, 750)
    assert found["source-record-active-count"] == 0


def test_a_source_never_has_less_than_nothing_on_its_way():
    made = SourceTaskStats(SAMPLING)
    made.count_acknowledged_record(0.0)
    made.record_poll(2, took_s=0.0, now_s=1.0)
    assert made.compute_attributes(1.0)["source-record-active-count"] == 2


def test_a_sink_counts_what_it_read_put_and_committed():
    made = SinkTaskStats(SAMPLING)
    made.record_assignment({P0: 10, P1: 20}, 0.0)
    made.count_consumed_records(5, {P0: 13, P1: 22}, 1.0)
    made.record_put(4, took_s=0.2, now_s=1.0)
    made.record_commit_start(1)
    made.record_commit_completion({P0: 12}, 2.0)
    made.record_superseded_commit(3.0)
    found = made.compute_attributes(10.0)
    totals = some(found, "sink-record-read-total", "sink-record-send-total", "partition-count")
    assert totals == (5, 4, 2)
    assert some(found, "sink-record-active-count", "sink-record-lag-max") == (3, 2)
    assert found["sink-record-active-count-max"] == 5
    assert found["put-batch-max-time-ms"] == 200
    assert found["offset-commit-seq-no"] == 1
    commits = some(found, "offset-commit-completion-total", "offset-commit-skip-total")
    assert commits == (1, 1)
    made.check_invariants()


def test_of_partitions_that_are_gone_a_sink_keeps_nothing():
    made = SinkTaskStats(SAMPLING)
    made.record_assignment({P0: 0}, 0.0)
    made.record_assignment({P1: 0}, 0.0)
    made.count_consumed_records(7, {P0: 3, P1: 4}, 1.0)
    made.record_revocation(frozenset({P0}), 2.0)
    made.count_consumed_records(9, {P0: 9}, 3.0)
    made.record_commit_completion({P0: 9}, 3.0)
    found = made.compute_attributes(4.0)
    assert some(found, "partition-count", "sink-record-active-count") == (1, 4)
    made.check_invariants()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["assigned", "gone", "read", "commit"]),
            st.sampled_from([P0, P1]),
            st.integers(0, 9),
        )
    )
)
def test_whatever_happens_a_sink_counts_what_is_behind(steps):
    made = SinkTaskStats(SAMPLING)
    for what, place, offset in steps:
        match what:
            case "assigned":
                made.record_assignment({place: offset}, 0.0)
            case "gone":
                made.record_revocation(frozenset({place}), 0.0)
            case "read":
                made.count_consumed_records(1, {place: offset}, 0.0)
            case _:
                made.record_commit_completion({place: offset}, 0.0)
        made.check_invariants()


def test_a_sink_that_rewinds_has_no_negative_backlog():
    made = SinkTaskStats(SAMPLING)
    made.record_assignment({P0: 10, P1: 0}, 0.0)
    made.count_consumed_records(1, {P0: 4, P1: 1}, 1.0)
    assert made.compute_attributes(1.0)["sink-record-active-count"] == 1


def test_troubles_are_counted_and_the_last_failure_has_a_time():
    made = TaskErrorStats()
    made.record_error(Trouble.FAILURE, 1_000)
    made.record_error(Trouble.FAILURE, 2_000)
    made.record_error(Trouble.ERROR, 3_000)
    found = made.compute_attributes()
    assert some(found, "total-record-failures", "total-record-errors", "total-retries") == (2, 1, 0)
    assert found["last-error-timestamp"] == 2_000
