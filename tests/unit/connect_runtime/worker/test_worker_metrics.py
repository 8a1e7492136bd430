"""What a worker shows: its connectors and tasks while they are here, and how starts ended."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.base.metrics import Metric, MetricFamily, MetricKind
from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.metrics_server import prometheus_text
from connect_runtime.storage.status_records import RunState
from connect_runtime.worker import connect_metrics_registry, worker_metrics
from connect_runtime.worker.connect_metrics_registry import MetricReading
from connect_runtime.worker.task_metrics import RecordErrorKind, SinkTaskMetrics, SourceTaskMetrics
from connect_runtime.worker.worker_metrics import StartupOutcome, StartupStats, WorkerMetrics
from tests.fakes.plugin_contexts import Clock

State = RunState
T0, T1 = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)
ABOUT = {"connector-type": "source", "connector-class": "x.Y", "connector-version": "7"}
P0 = TopicPartition("t", 0)


class World:
    def __init__(self):
        self.clock = Clock()
        self.metrics = WorkerMetrics("here:1", self.clock)

    def task(self, task, of=SourceTaskMetrics):
        measured = of(self.metrics.build_task_metrics_info(task, {"task-class": "x.T"}))
        return measured, self.metrics.add_task(task, measured)

    def shown(self):
        """By full name with labels, without the common beginning."""
        return {
            each.metric.name.removeprefix("kafka_connect_") + "|" + ",".join(labels): value
            for each in self.metrics.all_families
            for labels, value in each.series.items()
        }


@pytest.fixture
def world():
    return World()


def test_an_empty_worker_shows_itself(world):
    found = world.shown()
    assert found["worker_connector_count|"] == found["worker_task_count|"] == 0
    assert found["worker_task_startup_attempts_total|"] == 0
    assert found["app_info_version|here:1,4.3.1"] == 1
    assert found["app_info_start_time_ms|here:1"] == world.clock.wall_ms()
    assert {name.split("_")[0] for name in found} == {"app", "worker"}


def test_a_connector_is_shown_while_it_is_here(world):
    said = world.metrics.add_connector("c", ABOUT)
    assert world.shown()["connector_status|c,unassigned"] == 1
    said(State.RUNNING)
    said(State.STOPPED)
    found = world.shown()
    assert {name for name in found if name.startswith("connector_")} == {
        "connector_status|c,stopped",
        "connector_connector_type|c,source",
        "connector_connector_class|c,x.Y",
        "connector_connector_version|c,7",
    }
    assert found["worker_connector_count|"] == 1
    assert found["worker_connector_startup_success_total|"] == 1
    world.metrics.remove_connector_or_task("c")
    found = world.shown()
    assert not [name for name in found if name.startswith("connector_")]
    assert found["worker_connector_count|"] == 0
    assert found["worker_connector_startup_success_total|"] == 1


def test_tasks_are_counted_by_state_and_vanish_with_all_of_theirs(world):
    _, said0 = world.task(T0)
    _, said1 = world.task(T1, SinkTaskMetrics)
    said0(State.RUNNING)
    said1(State.RUNNING)
    said1(State.FAILED)
    found = world.shown()
    assert found["worker_connector_total_task_count|c"] == 2
    assert found["worker_connector_running_task_count|c"] == 1
    assert found["worker_connector_failed_task_count|c"] == 1
    assert found["worker_connector_paused_task_count|c"] == 0
    assert found["connector_task_status|c,1,failed"] == 1
    assert found["worker_task_startup_success_total|"] == 2
    assert found["worker_task_startup_failure_total|"] == 0
    world.metrics.remove_connector_or_task(T1)
    assert not [name for name in world.shown() if "|c,1" in name]
    world.metrics.remove_connector_or_task(T0)
    found = world.shown()
    assert not [name for name in found if "|c" in name]
    assert found["worker_task_count|"] == 0


def test_what_could_not_be_made_has_failed_to_start(world):
    world.metrics.add_connector("c", ABOUT)
    world.metrics.record_failed_start("c")
    world.metrics.record_failed_start(T0)
    _, said = world.task(T1)
    said(State.FAILED)
    found = world.shown()
    assert found["worker_connector_count|"] == 0
    assert found["worker_connector_startup_failure_total|"] == 1
    assert found["worker_connector_startup_failure_percentage|"] == 1
    assert found["worker_task_startup_attempts_total|"] == 2
    assert found["worker_task_startup_failure_total|"] == 2


def test_a_task_that_starts_again_begins_anew(world):
    measured, _ = world.task(T0)
    measured.record_poll(5, took_s=0.0)
    world.metrics.remove_connector_or_task(T0)
    again, _ = world.task(T0)
    measured.record_poll(5, took_s=0.0)  # the old one, which was given up on
    again.record_poll(1, took_s=0.0)
    assert world.shown()["source_task_source_record_poll_total|c,0"] == 1


def test_a_source_task_tells_what_it_does(world):
    measured, said = world.task(T0)
    said(State.RUNNING)
    measured.record_poll(3, took_s=0.5)
    measured.count_acknowledged_record()
    measured.count_skipped_record()
    measured.record_commit(took_s=0.25)
    measured.record_errors(RecordErrorKind.FAILURE, RecordErrorKind.ERROR)
    world.clock.now += 10.0
    found = world.shown()
    assert found["source_task_source_record_write_total|c,0"] == 1
    assert found["source_task_source_record_active_count|c,0"] == 1
    assert found["source_task_poll_batch_max_time_ms|c,0"] == 500
    assert found["connector_task_batch_size_max|c,0"] == 3
    assert found["connector_task_offset_commit_avg_time_ms|c,0"] == 250
    assert found["connector_task_running_ratio|c,0"] == 1
    assert found["connector_task_info|c,0,,,,x.T,,,,,,,"] == 1
    assert found["task_error_total_record_errors|c,0"] == 1
    assert found["task_error_last_error_timestamp|c,0"] == world.clock.wall_ms()
    assert not [name for name in found if name.startswith("sink_task")]


def test_a_task_that_moves_its_records_itself_tells_how_many(world):
    measured, _ = world.task(T0)
    measured.record_pipeline_progress(70)
    assert world.shown()["source_task_source_record_write_total|c,0"] == 70


def test_a_sink_task_tells_what_it_does(world):
    measured, _ = world.task(T0, SinkTaskMetrics)
    measured.record_assignment({P0: 0})
    measured.count_consumed_records(4, {P0: 4})
    measured.record_put(3, took_s=0.5)
    measured.record_commit_start(1)
    measured.record_commit_completion({P0: 3}, took_s=0.125)
    measured.record_superseded_commit()
    found = world.shown()
    assert found["sink_task_sink_record_read_total|c,0"] == 4
    assert found["sink_task_sink_record_send_total|c,0"] == 3
    assert found["sink_task_sink_record_active_count|c,0"] == 1
    assert found["sink_task_offset_commit_completion_total|c,0"] == 1
    assert found["sink_task_offset_commit_skip_total|c,0"] == 1
    assert found["connector_task_offset_commit_max_time_ms|c,0"] == 125
    measured.record_revocation(frozenset({P0}))
    assert world.shown()["sink_task_partition_count|c,0"] == 0


def test_every_declared_series_of_tasks_is_there_from_the_beginning(world):
    """Dashboards and alerts look for what is not there yet."""
    world.task(T0)
    world.task(T1, SinkTaskMetrics)
    world.metrics.add_connector("c", ABOUT)
    names = {each.metric.name for each in world.metrics.all_families}
    later = (connect_metrics_registry.REBALANCES, connect_metrics_registry.COORDINATOR)
    for group in connect_metrics_registry.ALL_GROUPS:
        declared = {each.name for each in connect_metrics_registry.declare_metrics(group).values()}
        assert (declared <= names) is (group not in later), group.name


def test_others_are_shown_too(world):
    reading = MetricReading(
        group=connect_metrics_registry.REBALANCES,
        numbers={"time-since-last-rebalance-ms": math.inf},
    )
    world.metrics.add_metric_readings(lambda: [reading])
    assert world.shown()["worker_rebalance_time_since_last_rebalance_ms|"] == math.inf


def test_a_thousand_tasks_are_shown_in_a_moment(world):
    """A tenth of a second on a quiet machine; the bound is for one that is not."""
    for number in range(1000):
        of = SinkTaskMetrics if number % 2 else SourceTaskMetrics
        measured, said = world.task(ConnectorTaskId(f"c{number % 10}", number), of)
        said(State.RUNNING)
        measured.record_commit(took_s=0.1)
    begun_s = time.process_time()
    families = world.metrics.all_families
    prometheus_text.render_metric_families(families)
    assert time.process_time() - begun_s < 1.0
    assert sum(len(each.series) for each in families) < 1000 * 35 + 10 * 7 + 20


def test_what_plugins_add_can_be_left_out(world):
    world.metrics.add_connector("c", ABOUT)
    added = Metric(name="added", kind=MetricKind.GAUGE, help="Added.")
    asked = []

    def read():
        asked.append(1)
        return [MetricFamily(metric=added, series={(): 1.0})]

    world.metrics.add_plugin_metrics("c", read)
    assert "added" not in {each.metric.name for each in world.metrics.worker_families}
    assert asked == [], "it may be much"
    assert "added" in {each.metric.name for each in world.metrics.all_families}


OWN = Metric(name="b_own", kind=MetricKind.GAUGE, help="Own.")
THEIRS = Metric(name="a_theirs", kind=MetricKind.GAUGE, help="Theirs.", labels=("task",))
OTHER = Metric(name="a_theirs", kind=MetricKind.GAUGE, help="Otherwise.")


def family(metric, **series):
    return MetricFamily(metric=metric, series={(each,): value for each, value in series.items()})


SHOWN = MetricFamily(metric=OWN, series={(): 1.0})


def test_what_plugins_say_of_one_metric_comes_together():
    found = worker_metrics.merge_plugin_families(
        [SHOWN], [family(THEIRS, zero=1.0), family(THEIRS, one=2.0), family(THEIRS)]
    )
    assert found.families == (family(THEIRS, zero=1.0, one=2.0), SHOWN)
    assert found.dropped_names == frozenset()


def test_of_what_is_said_twice_the_first_counts():
    found = worker_metrics.merge_plugin_families(
        [], [family(THEIRS, zero=1.0), family(THEIRS, zero=2.0)]
    )
    assert found.families == (family(THEIRS, zero=1.0),)
    assert found.dropped_names == {"a_theirs"}


def test_who_declares_a_metric_otherwise_is_not_shown():
    otherwise = MetricFamily(metric=OTHER, series={(): 3.0})
    found = worker_metrics.merge_plugin_families([], [family(THEIRS, zero=1.0), otherwise])
    assert found.families == (family(THEIRS, zero=1.0),)
    assert found.dropped_names == {"a_theirs"}


def test_nobody_adds_to_the_workers_own():
    found = worker_metrics.merge_plugin_families(
        [SHOWN], [MetricFamily(metric=OWN, series={(): 2.0})]
    )
    assert found.families == (SHOWN,)
    assert found.dropped_names == {"b_own"}


def test_what_does_not_fit_its_declaration_is_left_out():
    wrong: list[Any] = [{("a", "b"): 1.0}, {(1,): 1.0}, {("a",): "text"}]
    for series in wrong:
        found = worker_metrics.merge_plugin_families(
            [SHOWN], [MetricFamily(metric=THEIRS, series=series)]
        )
        assert found.families == (SHOWN,)
        assert found.dropped_names == {"a_theirs"}


def test_starts_are_counted_by_how_they_ended():
    made = StartupStats("task", SampleWindows())
    for well in (True, False, True, True):
        made.record_startup(1.0, well=well)
    expected = {
        "task-startup-attempts-total": 4,
        "task-startup-success-total": 3,
        "task-startup-success-percentage": 0.75,
        "task-startup-failure-total": 1,
        "task-startup-failure-percentage": 0.25,
    }
    assert made.compute_attributes(2.0) == expected
    assert expected.keys() <= connect_metrics_registry.WORKER.numbers.keys()
    later = made.compute_attributes(1000.0)
    assert (later["task-startup-failure-total"], later["task-startup-failure-percentage"]) == (1, 0)


def test_before_any_start_shares_are_zero():
    assert set(StartupStats("connector", SampleWindows()).compute_attributes(0.0).values()) == {0.0}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([State.RUNNING, State.FAILED], [True, None]),
        ([State.FAILED, State.RUNNING], [False, None]),
        ([State.PAUSED, State.RUNNING, State.RUNNING], [None, True, None]),
        ([State.UNASSIGNED, State.RUNNING], [None, True]),
        ([State.PAUSED, State.UNASSIGNED], [None, None]),
    ],
)
def test_a_start_ends_once_with_what_is_said_first(said, expected):
    first = StartupOutcome()
    assert [first.decide_startup_outcome(each) for each in said] == expected


def test_tasks_of_a_connector_are_counted_by_state():
    found = worker_metrics.count_tasks_by_state([State.RUNNING, State.FAILED, State.RUNNING])
    assert found.keys() == connect_metrics_registry.TASKS_OF_CONNECTOR.numbers.keys()
    assert {name: value for name, value in found.items() if value} == {
        "connector-total-task-count": 3,
        "connector-running-task-count": 2,
        "connector-failed-task-count": 1,
    }
