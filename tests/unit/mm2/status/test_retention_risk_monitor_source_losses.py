from __future__ import annotations

import logging

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.status import retention_risk_monitor
from mm2.status.retention_risk_monitor import SourceRetentionReader
from mm2.status.time_to_data_loss import DeletionCause, RiskKind
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.logs import FakeLog, FakeLogs
from tests.support import statuses

PLACE = TopicPartition("orders", 0)
KEPT_MS = 100_000
Kind = RiskKind


class Clock:
    def __init__(self, *, wall_ms: int) -> None:
        self._now_s, self._wall_ms = 0.0, wall_ms

    def now_s(self) -> float:
        return self._now_s

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, seconds: float) -> None:
        self._now_s += seconds
        self._wall_ms += int(seconds * 1000)


class Source:
    """A cluster with one topic of one partition: ten records, the first of the time 0."""

    def __init__(self):
        self.cluster = FakeCluster()
        self.cluster.create("orders", retention_ms=str(KEPT_MS), retention_bytes="-1")
        self.log = FakeLog(times_ms=[1_000 * number for number in range(10)])
        self.logs = FakeLogs({PLACE: self.log})
        self.admin = FakeAdmin(self.cluster)

    def close(self):
        self.logs.close()


class Scene:
    def __init__(self):
        self.source = Source()
        self.clock = Clock(wall_ms=50_000)
        self.positions = {PLACE: 4}
        self.asked_map = 0
        self.losses = SourceRetentionReader(
            "east->west",
            self.source,
            positions=self.read_map,
            close=self.source.close,
            operator=suggested_commands.GENERIC_COMMANDS,
            clock=self.clock,
        )

    def read_map(self):
        self.asked_map += 1
        return self.positions

    def look(self, **fields):
        given = {"copied_to": 4, "phase": "halted", **fields}
        return self.losses.collect_source_snapshots({PLACE: statuses.partition(**given)})


@pytest.fixture
def scene():
    return Scene()


def test_what_waits_is_as_old_as_its_oldest_record_and_kept_as_the_topic_says(scene):
    (seen,) = scene.look().values()
    assert (seen.bounds.end, seen.copied_to, seen.waiting_since_ms) == (10, 4, 4_000)
    assert seen.retention_risk.cause is DeletionCause.TIME
    assert seen.retention_risk.left_ms == 4_000 + KEPT_MS - 50_000
    assert scene.asked_map == 0


def test_what_moves_knows_its_own_times_and_what_stands_is_asked_first(scene):
    (seen,) = scene.look(phase="copying", oldest_uncopied_ms=3_500).values()
    assert seen.waiting_since_ms == 3_500
    (seen,) = scene.look(phase="halted", oldest_uncopied_ms=3_500).values()
    assert seen.waiting_since_ms == 4_000
    scene.source.log.times_ms = [None] * 10
    scene.clock.advance(1)
    (seen,) = scene.look(phase="halted", oldest_uncopied_ms=3_500).values()
    assert seen.waiting_since_ms == 3_500


def test_settings_are_asked_for_now_and_then_and_nothing_more_where_all_is_copied(scene):
    scene.look(copied_to=10)
    assert scene.source.admin.calls == []
    scene.look()
    scene.look()
    assert scene.source.admin.calls == ["topic_configs"]
    scene.clock.advance(retention_risk_monitor.CACHED_CONFIG_MAX_AGE_S + 1)
    scene.look()
    assert scene.source.admin.calls == ["topic_configs"] * 2


def test_what_the_process_does_not_know_the_map_does(scene):
    (seen,) = scene.look(copied_to=-1).values()
    assert seen.copied_to == 4
    scene.look(copied_to=-1)
    assert scene.asked_map == 1


def test_what_nobody_knows_is_left_out(scene):
    scene.positions = {}
    assert scene.look(copied_to=-1) == {}
    other = TopicPartition("gone", 0)
    assert (
        scene.losses.collect_source_snapshots({other: statuses.partition("gone", copied_to=1)})
        == {}
    )


def test_deleted_before_it_was_copied(scene, caplog):
    scene.source.log.start, scene.source.log.times_ms = 6, [None] * 4
    (seen,) = scene.look().values()
    assert (seen.retention_risk.kind, seen.retention_risk.deleted_offsets) == (Kind.GONE, 2)
    assert "orders-0: the source deleted 2 offsets before they were replicated" in caplog.text


def test_who_should_know_is_told_once_an_hour_and_when_it_is_over(scene, caplog):
    caplog.set_level(logging.INFO)
    scene.clock.advance(40.0)
    scene.look()
    assert "orders-0: the source deletes unreplicated records in 14 s" in caplog.text
    assert f"retention.ms={2 * KEPT_MS}" in caplog.text
    caplog.clear()
    scene.look()
    assert caplog.text == ""
    scene.clock.advance(retention_risk_monitor.WARNING_INTERVAL_S + 1)
    scene.look()
    assert "orders-0" in caplog.text
    caplog.clear()
    scene.look(copied_to=10)
    assert "orders: no longer at risk of data loss" in caplog.text


def test_a_retention_that_is_raised_as_the_remedy_says_is_seen_soon(scene, caplog):
    caplog.set_level(logging.INFO)
    scene.clock.advance(40.0)
    scene.look()
    (line,) = caplog.messages
    assert suggested_commands.extract_remedy_from_message(line).endswith(
        f"--add-config retention.ms={2 * KEPT_MS}"
    )
    scene.source.cluster.topics["orders"].overrides["retention.ms"] = str(2 * KEPT_MS)
    scene.clock.advance(retention_risk_monitor.WARNED_CONFIG_MAX_AGE_S)
    scene.look()
    assert "orders: no longer at risk of data loss" in caplog.text


def test_of_many_topics_those_are_named_that_lose_first(scene, caplog):
    caplog.set_level(logging.INFO)
    many = retention_risk_monitor.WARNED_TOPICS_MAX + 3
    places = [TopicPartition(f"t{number}", 0) for number in range(many)]
    for number, place in enumerate(places):
        scene.source.cluster.create(place.topic, retention_ms="100", retention_bytes="-1")
        times: list[int | None] = [49_950 - number] * 3
        scene.source.logs.logs[place] = FakeLog(times_ms=times)
    stopped = {
        place: statuses.partition(place.topic, phase="halted", copied_to=1) for place in places
    }
    scene.clock.advance(0.04)
    scene.losses.collect_source_snapshots(stopped)
    told = [record.getMessage() for record in caplog.records]
    assert [line.split()[1] for line in told[:-1]] == [
        f"t{number}-0:"
        for number in range(many - 1, many - 1 - retention_risk_monitor.WARNED_TOPICS_MAX, -1)
    ]
    assert told[-1] == "east->west: 3 more topics may also lose unreplicated records; see mm2 lag"
    caplog.clear()
    scene.clock.advance(1)
    scene.losses.collect_source_snapshots(
        {place: statuses.partition(place.topic, copied_to=3) for place in places}
    )
    assert [record.getMessage() for record in caplog.records] == [
        "east->west: t0 and 7 more topics: no longer at risk of data loss"
    ]


def test_settings_that_may_not_be_read_leave_it_unknown(scene):
    scene.source.cluster.failures["topic_configs", "orders"] = FatalError("denied")
    (seen,) = scene.look().values()
    assert seen.retention_risk.kind is Kind.UNKNOWN


def test_it_lets_go_of_its_clients(scene):
    scene.losses.close()
    assert scene.source.logs.closed
