from __future__ import annotations

import pathlib
import threading

import pytest

from mm2.config import config_loader
from mm2.status.process_health import ReplicationActivity
from mm2.ui import lag_timeline, status_page
from mm2.ui.status_page import SnapshotWatch
from tests.fakes.plugin_contexts import Context
from tests.support import seen_flows, statuses

FILE = """
clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}
flows:
- {from: a, to: b}
- {from: b, to: a}
"""


class Running:
    crash_reason = ""

    def __init__(self, clock):
        self.settings = config_loader.parse_clusters_yaml(
            FILE, file="c.yaml", folder=pathlib.Path("/"), environment={}
        )
        self.is_engine_ready = False
        self.records = 0
        self.names = ["b->a", "a->b"]
        self.looks = 0
        self.activity = {}
        self.takes_s = 0.0
        self._clock = clock

    def readiness(self):
        return []

    def statuses(self):
        return [
            statuses.flow(statuses.partition(records=self.records), name=name)
            for name in self.names
        ]

    def build_reports(self):
        self.looks += 1
        self._clock.now += self.takes_s
        return [
            seen_flows.report(seen_flows.part(), flow=name, activity=self.activity.get(name))
            for name in self.names
        ]


@pytest.fixture
def clock():
    return Context().clock


@pytest.fixture
def running(clock):
    return Running(clock)


@pytest.fixture
def seen(running, clock):
    return SnapshotWatch(running, running, release="1", host="h", pid=3, clock=clock)


def test_flows_are_seen_in_the_files_order_with_who_runs_them(seen, running, clock):
    found = seen.get_current_snapshot()
    assert [each.flow.name for each in found.flows] == ["a->b", "b->a"]
    assert [each.report.flow for each in found.flows] == ["a->b", "b->a"]
    assert (found.node.pid, found.node.host, found.node.file) == (3, "h", "c.yaml")
    assert (found.node.engine, found.node.engine_ready) == ("spark", False)
    assert found.at_ms == found.node.started_ms == clock.wall_ms()


def test_whoever_asks_soon_after_another_is_shown_the_same(seen, running, clock):
    first = seen.get_current_snapshot()
    assert seen.get_current_snapshot() is first
    clock.now += status_page.SNAPSHOT_MAX_AGE_S
    assert seen.get_current_snapshot() is not first
    assert running.looks == 2


@pytest.mark.parametrize(
    ("takes_s", "pause_s"), [(0.1, 5.0), (3.0, status_page.IDLE_SNAPSHOT_INTERVAL_S)]
)
def test_looks_that_take_long_are_rarer(seen, running, clock, takes_s, pause_s):
    running.takes_s = takes_s
    first = seen.get_current_snapshot()
    clock.now += pause_s - 0.01
    assert seen.get_current_snapshot() is first
    clock.now += 0.02
    assert seen.get_current_snapshot() is not first


def test_rates_are_unknown_until_there_were_two_looks(seen, running, clock):
    assert [each.rates for each in seen.get_current_snapshot().flows] == [None, None]
    clock.now += 2.0
    running.records = 30
    found = seen.get_current_snapshot().flows[0]
    assert found.rates is not None
    assert found.rates.get_rate("a->b", "orders").records_s == 15.0


def test_a_flow_that_has_gone_is_seen_no_more_nor_its_past(seen, running, clock):
    seen.record_point()
    running.names = ["a->b"]
    clock.now += lag_timeline.POINT_INTERVAL_S
    seen.record_point()
    assert [each.flow.name for each in seen.get_current_snapshot().flows] == ["a->b"]
    assert (len(seen.get_flow_timeline("a->b")), len(seen.get_flow_timeline("b->a"))) == (2, 0)


def test_its_thread_notes_a_point_every_step_and_more_rarely_where_looking_takes_long(
    seen, running, clock
):
    pauses = []

    class Stop(threading.Event):
        def wait(self, timeout=None):
            pauses.append(timeout)
            clock.now += timeout
            running.takes_s = 1.0 if len(pauses) == 3 else 0.0
            return len(pauses) > 4

    seen.run(Stop())
    assert pauses == [
        0.0,
        lag_timeline.POINT_INTERVAL_S,
        lag_timeline.POINT_INTERVAL_S,
        1.0 / status_page.SNAPSHOT_CPU_SHARE,
        lag_timeline.POINT_INTERVAL_S,
    ]
    assert len(seen.get_flow_timeline("a->b")) == 4


def test_each_flow_has_its_verdict_by_the_objective_of_the_file(seen, running):
    long_ago = ReplicationActivity(begun_ms=seen_flows.NOW_MS - 61_000, last=None)
    running.activity = {"b->a": long_ago}
    first, second = (each.verdict for each in seen.get_current_snapshot().flows)
    assert first.is_healthy
    assert second.reasons == (
        "no record replicated since the flow started 61 s ago "
        "(health.replicating.within.seconds: 60)",
    )
