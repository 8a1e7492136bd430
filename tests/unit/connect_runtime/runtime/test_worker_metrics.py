"""What a worker shows: its connectors and tasks while they are here, and how starts ended."""

from __future__ import annotations

import math
import time

import pytest

from connect_runtime.adapters.http import metrics_text
from connect_runtime.base import ids, metrics
from connect_runtime.core.state import status_records
from connect_runtime.core.task import metric_groups, metric_names
from connect_runtime.runtime import task_metrics, worker_metrics
from tests.fakes import plugin_contexts

State = status_records.State
T0, T1 = ids.ConnectorTaskId("c", 0), ids.ConnectorTaskId("c", 1)
ABOUT = {"connector-type": "source", "connector-class": "x.Y", "connector-version": "7"}
P0 = ids.TopicPartition("t", 0)


class World:
    def __init__(self):
        self.clock = plugin_contexts.Clock()
        self.metrics = worker_metrics.WorkerMetrics("here:1", self.clock)

    def task(self, task, of=task_metrics.SourceTaskMetrics):
        measured = of(self.metrics.about(task, {"task-class": "x.T"}))
        return measured, self.metrics.begin_task(task, measured)

    def shown(self):
        """By full name with labels, without the common beginning."""
        return {
            each.metric.name.removeprefix("kafka_connect_") + "|" + ",".join(labels): value
            for each in self.metrics.published
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
    said = world.metrics.begin_connector("c", ABOUT)
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
    world.metrics.end("c")
    found = world.shown()
    assert not [name for name in found if name.startswith("connector_")]
    assert found["worker_connector_count|"] == 0
    assert found["worker_connector_startup_success_total|"] == 1


def test_tasks_are_counted_by_state_and_vanish_with_all_of_theirs(world):
    _, said0 = world.task(T0)
    _, said1 = world.task(T1, task_metrics.SinkTaskMetrics)
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
    world.metrics.end(T1)
    assert not [name for name in world.shown() if "|c,1" in name]
    world.metrics.end(T0)
    found = world.shown()
    assert not [name for name in found if "|c" in name]
    assert found["worker_task_count|"] == 0


def test_what_could_not_be_made_has_failed_to_start(world):
    world.metrics.begin_connector("c", ABOUT)
    world.metrics.not_begun("c")
    world.metrics.not_begun(T0)
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
    measured.polled(5, took_s=0.0)
    world.metrics.end(T0)
    again, _ = world.task(T0)
    measured.polled(5, took_s=0.0)  # the old one, which was given up on
    again.polled(1, took_s=0.0)
    assert world.shown()["source_task_source_record_poll_total|c,0"] == 1


def test_a_source_task_tells_what_it_does(world):
    measured, said = world.task(T0)
    said(State.RUNNING)
    measured.polled(3, took_s=0.5)
    measured.written()
    measured.left_out()
    measured.commit_ended(took_s=0.25)
    measured.happened(task_metrics.Trouble.FAILURE, task_metrics.Trouble.ERROR)
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
    measured.moved(70)
    assert world.shown()["source_task_source_record_write_total|c,0"] == 70


def test_a_sink_task_tells_what_it_does(world):
    measured, _ = world.task(T0, task_metrics.SinkTaskMetrics)
    measured.assigned({P0: 0})
    measured.read(4, {P0: 4})
    measured.put(3, took_s=0.5)
    measured.commit_begun(1)
    measured.commit_completed({P0: 3}, took_s=0.125)
    measured.commit_skipped()
    found = world.shown()
    assert found["sink_task_sink_record_read_total|c,0"] == 4
    assert found["sink_task_sink_record_send_total|c,0"] == 3
    assert found["sink_task_sink_record_active_count|c,0"] == 1
    assert found["sink_task_offset_commit_completion_total|c,0"] == 1
    assert found["sink_task_offset_commit_skip_total|c,0"] == 1
    assert found["connector_task_offset_commit_max_time_ms|c,0"] == 125
    measured.gone(frozenset({P0}))
    assert world.shown()["sink_task_partition_count|c,0"] == 0


def test_every_declared_series_of_tasks_is_there_from_the_beginning(world):
    """Dashboards and alerts look for what is not there yet."""
    world.task(T0)
    world.task(T1, task_metrics.SinkTaskMetrics)
    world.metrics.begin_connector("c", ABOUT)
    names = {each.metric.name for each in world.metrics.published}
    later = (metric_names.REBALANCES, metric_names.COORDINATOR)
    for group in metric_names.EVERY:
        declared = {each.name for each in metric_groups.declared(group).values()}
        assert (declared <= names) is (group not in later), group.name


def test_others_are_shown_too(world):
    reading = metric_groups.Reading(
        group=metric_names.REBALANCES, numbers={"time-since-last-rebalance-ms": math.inf}
    )
    world.metrics.add(lambda: [reading])
    assert world.shown()["worker_rebalance_time_since_last_rebalance_ms|"] == math.inf


def test_a_thousand_tasks_are_shown_in_a_moment(world):
    """A tenth of a second on a quiet machine; the bound is for one that is not."""
    for number in range(1000):
        of = task_metrics.SinkTaskMetrics if number % 2 else task_metrics.SourceTaskMetrics
        measured, said = world.task(ids.ConnectorTaskId(f"c{number % 10}", number), of)
        said(State.RUNNING)
        measured.commit_ended(took_s=0.1)
    begun_s = time.process_time()
    families = world.metrics.published
    metrics_text.render(families)
    assert time.process_time() - begun_s < 1.0
    assert sum(len(each.series) for each in families) < 1000 * 35 + 10 * 7 + 20


def test_what_plugins_add_can_be_left_out(world):
    world.metrics.begin_connector("c", ABOUT)
    added = metrics.Metric(name="added", kind=metrics.Kind.GAUGE, help="Added.")
    asked = []

    def read():
        asked.append(1)
        return [metrics.Family(metric=added, series={(): 1.0})]

    world.metrics.add_of("c", read)
    assert "added" not in {each.metric.name for each in world.metrics.own}
    assert asked == [], "it may be much"
    assert "added" in {each.metric.name for each in world.metrics.published}
