from __future__ import annotations

import dataclasses
import itertools
import pathlib
import threading

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.config import config_loader
from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.connectors import status_registry
from mm2.connectors.status_registry import TaskState
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.replication.replication_latency import LatencySnapshot
from mm2.status import replication_health, retention_risk_monitor
from mm2.status.process_health import LastReplication, ReplicationActivity, ReplicationEvidenceKind
from mm2.status.replication_health import FlowHealth
from mm2.status.retention_risk_monitor import RetentionWatch
from mm2.status.status_document import ReportedFlowState
from mm2.status.status_from_process import SourcePartitionSnapshot
from mm2.status.time_to_data_loss import DeletionCause, RetentionRisk, RiskKind
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster
from tests.fakes.plugin_contexts import Clock
from tests.support import statuses

FILE = """
clusters: {east: {bootstrap.servers: 'e:1'}, west: {bootstrap.servers: 'w:1'}}
flows:
- {from: east, to: west}
"""
Side = ClusterSide
PLACE = TopicPartition("orders", 0)
SEEN = SourcePartitionSnapshot(
    bounds=LogBounds(start=0, end=9),
    copied_to=2,
    waiting_since_ms=5,
    retention_risk=RetentionRisk(kind=RiskKind.KEPT),
)
KEPT = itertools.repeat(SEEN.retention_risk)


class Losses:
    def __init__(self):
        self.asked = []
        self.failure = None
        self.outlooks = []
        self.closed = False

    def collect_source_snapshots(self, waiting):
        self.asked.append(sorted(waiting))
        if self.failure is not None:
            raise self.failure
        return {
            each: dataclasses.replace(SEEN, retention_risk=risk)
            for each, risk in zip(waiting, itertools.chain(self.outlooks, KEPT), strict=False)
        }

    def close(self):
        self.closed = True


class Running:
    def __init__(self):
        self.settings = config_loader.parse_clusters_yaml(
            FILE, file="c", folder=pathlib.Path("/"), environment={}
        )
        self.shown = [statuses.flow(statuses.partition())]

    def statuses(self):
        return self.shown


class Scene:
    def __init__(self):
        self.running = Running()
        self.clock = Clock()
        self.opened = []
        self.lost: list[UnreachableCluster] = []
        self.watch = RetentionWatch(
            self.running,
            open_source=self.open,
            clock=self.clock,
            unreachable=lambda _: tuple(self.lost),
        )

    def later(self, seconds: float, *, step_s: float = 0.0):
        """`step_s`: by so much the wall clock is set, too."""
        self.clock.now += seconds
        self.clock.wall += round((seconds + step_s) * 1000)

    def open(self, settings, flow):
        self.opened.append(Losses())
        return self.opened[-1]

    def look(self, *partitions):
        self.running.shown = [statuses.flow(*partitions)]
        self.watch.collect_snapshots(threading.Event())

    def partitions(self):
        (report,) = self.watch.build_reports()
        return report.partitions


@pytest.fixture
def scene():
    return Scene()


def late(clock, age_s: float):
    return statuses.partition(source_end=9, oldest_uncopied_ms=int(clock.wall - age_s * 1000))


def test_what_is_copied_as_it_comes_costs_nothing(scene):
    scene.look(statuses.partition(), late(scene.clock, retention_risk_monitor.LAG_THRESHOLD_S - 1))
    assert scene.opened == []


@pytest.mark.parametrize(
    "fields",
    [
        {"phase": "halted", "reason": "why"},
        {"phase": "waiting", "source_end": 9, "oldest_uncopied_ms": 5},
        {"source_end": 9, "oldest_uncopied_ms": 5},
    ],
)
def test_what_stands_or_lags_is_looked_at(scene, fields):
    scene.look(statuses.partition(**fields), statuses.partition(number=1))
    assert scene.opened[0].asked == [[PLACE]]
    (part, _) = scene.partitions()
    assert (part.start, part.end, part.retention_risk) == (0, 9, SEEN.retention_risk)


@pytest.mark.parametrize("fields", [{"phase": "waiting"}, {"source_end": -1}])
def test_what_does_not_move_is_looked_at_once_that_lasts(scene, fields):
    waiting = statuses.partition(**fields)
    scene.look(waiting)
    scene.watch.record_states()
    scene.later(retention_risk_monitor.UNMOVED_THRESHOLD_MS / 1000 - 1)
    scene.look(waiting)
    assert scene.opened == []
    scene.later(1)
    scene.look(waiting)
    assert scene.opened[0].asked == [[PLACE]]


@pytest.mark.parametrize(
    "holding",
    [OperatorOverrides(paused=True), OperatorOverrides(paused_topics=frozenset({"orders"}))],
)
def test_the_lag_of_what_is_paused_is_asked_for_at_the_next_turn(scene, holding):
    scene.running.shown = [
        statuses.flow(statuses.partition(), statuses.partition("bills"), holds=holding)
    ]
    scene.watch.collect_snapshots(threading.Event())
    paused = [TopicPartition("bills", 0), PLACE] if holding.paused else [PLACE]
    assert scene.opened[0].asked == [paused]
    part = next(each for each in scene.partitions() if each.topic == "orders")
    assert (part.state, part.end, part.lag_records) == ("paused", 9, 9)


def lost(side, broker=""):
    return UnreachableCluster(side=side, cluster="x", reason="refused", broker=broker)


@pytest.mark.parametrize("fields", [{"phase": "waiting"}, {"source_end": -1}])
def test_so_is_the_lag_of_what_waits_for_an_unreachable_target(scene, fields):
    waiting = statuses.partition(**fields)
    scene.lost = [lost(Side.TARGET, broker="2 (b:9092)")]
    scene.look(waiting, statuses.partition("bills"))
    assert scene.opened == [], "a single broker, and its partitions may have moved"
    scene.lost = [lost(Side.TARGET)]
    scene.look(waiting, statuses.partition("bills"))
    assert scene.opened[0].asked == [[PLACE]]
    part = next(each for each in scene.partitions() if each.topic == "orders")
    assert part.lag_records == 9


def test_an_unreachable_source_is_not_asked_and_what_it_said_counts_no_more(scene, caplog):
    runs_out(scene)
    asked = len(scene.opened[0].asked)
    scene.lost = [lost(Side.SOURCE)]
    assert scene.partitions()[0].lag_records is None, "at once"
    scene.look(statuses.partition(phase="halted"))
    assert len(scene.opened[0].asked) == asked
    assert scene.watch.list_seconds_to_data_loss() == {}
    assert caplog.text == ""
    scene.lost = []
    scene.look(statuses.partition(phase="halted"))
    assert scene.partitions()[0].lag_records == 9


def test_one_broker_that_does_not_answer_leaves_the_others_to_ask(scene):
    scene.lost = [lost(Side.SOURCE, broker="2 (b:9092)")]
    scene.look(statuses.partition(phase="halted"))
    assert scene.partitions()[0].lag_records == 9


def test_reports_name_what_is_unreachable(scene):
    scene.lost = [lost(Side.TARGET)]
    (report,) = scene.watch.build_reports()
    assert report.unreachable == (lost(Side.TARGET),)


def test_reports_say_when_something_was_replicated_last_while_a_copy_is_here(scene):
    place = status_registry.REGISTRY.create_latency_publisher("east->west", 0)
    try:
        began = scene.clock.wall
        assert scene.watch.build_reports()[0].activity == ReplicationActivity(
            begun_ms=began, last=None
        )
        now_s = scene.clock.now_s()
        place.publish(LatencySnapshot(replicated_at_s=now_s + 4, caught_up_at_s=now_s + 2))
        scene.later(9)
        last = LastReplication(at_ms=began + 4_000, evidence=ReplicationEvidenceKind.BATCH)
        assert scene.watch.build_reports()[0].activity == ReplicationActivity(
            begun_ms=began, last=last
        )
    finally:
        place.remove()
    assert scene.watch.build_reports()[0].activity.last == last, "what was known is no less true"
    scene.running.shown = [statuses.flow(tasks=(), elsewhere=2)]
    assert scene.watch.build_reports()[0].activity is None


@pytest.mark.parametrize("step_h", [6, -6, -12])
def test_a_stalled_flow_is_as_old_as_it_is_whatever_the_wall_clock_is_set_to(scene, step_h):
    """The clock runs six hours ahead when the last batch is acknowledged, and is then set."""
    place = status_registry.REGISTRY.create_latency_publisher("east->west", 0)
    try:
        scene.later(0, step_s=6 * 3_600)
        place.publish(LatencySnapshot(replicated_at_s=scene.clock.now_s()))
        scene.watch.build_reports()
        scene.later(90, step_s=step_h * 3_600)
        (report,) = scene.watch.build_reports()
    finally:
        place.remove()
    assert report.at_ms - report.activity.at_ms == 90_000
    assert replication_health.evaluate_flow(report, within_s=60.0).health is FlowHealth.UNHEALTHY


def test_a_failed_task_keeps_a_quiet_flow_from_looking_fresh(scene):
    place = status_registry.REGISTRY.create_latency_publisher("east->west", 0)
    try:
        idle_ms = scene.clock.wall
        place.publish(LatencySnapshot(caught_up_at_s=scene.clock.now_s()))
        assert scene.watch.build_reports()[0].activity.at_ms == idle_ms
        scene.later(60)
        place.publish(LatencySnapshot(caught_up_at_s=scene.clock.now_s()))
        failed = statuses.task(1, TaskState.FAILED)
        scene.running.shown = [statuses.flow(statuses.partition(), tasks=[failed])]
        assert scene.watch.build_reports()[0].activity.at_ms == idle_ms
    finally:
        place.remove()


def test_once_nothing_waits_its_clients_are_let_go(scene):
    scene.look(statuses.partition(phase="halted"))
    scene.look(statuses.partition(phase="halted"))
    assert len(scene.opened) == 1
    scene.look(statuses.partition())
    assert scene.opened[0].closed
    assert scene.partitions()[0].start is None


def test_a_file_that_was_read_again_makes_new_clients(scene):
    scene.look(statuses.partition(phase="halted"))
    scene.running.settings = Running().settings
    scene.look(statuses.partition(phase="halted"))
    assert [each.closed for each in scene.opened] == [True, False]


def test_a_source_that_is_silent_is_told_once(scene, caplog):
    scene.look(statuses.partition(phase="halted"))
    scene.opened[0].failure = RetriableError("no response")
    for _ in range(3):
        scene.look(statuses.partition(phase="halted"))
    assert caplog.text.count("no response") == 1
    assert scene.partitions()[0].start is None
    scene.opened[0].failure = None
    scene.look(statuses.partition(phase="halted"))
    assert scene.partitions()[0].start == 0


def test_since_when_it_stands_is_known_though_nobody_asked(scene):
    scene.running.shown = [statuses.flow(statuses.partition(phase="halted"))]
    scene.watch.record_states()
    began = scene.clock.wall
    scene.later(5)
    (part,) = scene.partitions()
    assert (part.since_ms, part.state) == (began, "halted")


def test_its_thread_ends_when_it_is_asked_to_and_lets_go(scene):
    scene.look(statuses.partition(phase="halted"))
    stop = threading.Event()
    stop.set()
    scene.watch.run(stop)
    assert scene.opened[0].closed


def test_reports_are_of_the_files_flows_in_its_order(scene):
    scene.running.shown = [statuses.flow(name="other->west"), statuses.flow()]
    (report,) = scene.watch.build_reports()
    assert (report.flow, report.state) == ("east->west", ReportedFlowState.RUNNING)


def test_how_long_is_left_for_each_topic(scene):
    scene.look(
        statuses.partition(phase="halted"),
        statuses.partition("bills", phase="halted"),
    )
    assert scene.watch.list_seconds_to_data_loss() == {}
    risk = RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=9_000, cause=DeletionCause.TIME, share=0.5)
    soon = dataclasses.replace(risk, left_ms=1_500)
    scene.opened[0].outlooks = [risk, soon, risk]
    scene.look(
        statuses.partition(phase="halted"),
        statuses.partition(number=1, phase="halted"),
        statuses.partition("users", phase="halted"),
    )
    assert scene.watch.list_seconds_to_data_loss() == {
        ("east->west", "orders"): 1.5,
        ("east->west", "users"): 9.0,
    }


RUNS_OUT = dataclasses.replace(SEEN.retention_risk, kind=RiskKind.RUNS_OUT, left_ms=9_000)


def runs_out(scene):
    """Of one topic it is known how long is left."""
    scene.look(statuses.partition(phase="halted"))
    scene.opened[0].outlooks = [RUNS_OUT]
    scene.look(statuses.partition(phase="halted"))


def test_what_was_seen_long_ago_is_told_no_more(scene):
    runs_out(scene)
    scene.clock.now += retention_risk_monitor.SOURCE_SNAPSHOT_MAX_AGE_S
    assert scene.watch.list_seconds_to_data_loss() == {("east->west", "orders"): 9.0}
    assert scene.partitions()[0].retention_risk == RUNS_OUT
    scene.clock.now += 1.0
    assert scene.watch.list_seconds_to_data_loss() == {}
    assert scene.partitions()[0].start is None


def test_a_thread_that_dies_leaves_nothing_that_would_stand_still(scene):
    runs_out(scene)

    class Broken(threading.Event):
        def wait(self, timeout=None):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scene.watch.run(Broken())
    assert scene.watch.list_seconds_to_data_loss() == {}
    assert scene.opened[0].closed


def test_of_a_flow_that_is_gone_nothing_is_told(scene):
    runs_out(scene)
    assert scene.watch.list_seconds_to_data_loss() == {("east->west", "orders"): 9.0}
    scene.running.shown = []
    scene.watch.collect_snapshots(threading.Event())
    assert (scene.watch.list_seconds_to_data_loss(), scene.opened[0].closed) == ({}, True)


def test_a_flow_that_came_back_is_told_of_again(scene, caplog):
    for shown in ([statuses.flow(statuses.partition(phase="halted"))], []) * 2:
        scene.running.shown = shown
        scene.watch.collect_snapshots(threading.Event())
        for each in scene.opened:
            each.failure = RetriableError("no response")
        scene.watch.collect_snapshots(threading.Event())
    assert caplog.text.count("no response") == 2
