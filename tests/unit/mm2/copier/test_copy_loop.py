from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mm2 import unreachable_cluster
from mm2.copier import copy_loop, progress_reports
from mm2.copier.copy_loop import CopyLoop
from mm2.copier.driver_client import DriverClient
from mm2.copier.producer import BatchProducer
from mm2.replication import batch_size_limits, partition_lag, replication_latency
from mm2.replication.partition_state import PartitionPhase
from tests.fakes import metadata, taking
from tests.fakes.copying import World

Phase = PartitionPhase


class Cluster:
    """Knows what its metadata say, and reaches nobody."""

    lent_bytes = 0

    def __init__(self, topic):
        self.view = metadata.view(topic)
        self.answered: float | None = None
        """When its broker last answered; None: it always answers."""

    def get_last_response_time_s(self, node_id):
        return float("inf") if self.answered is None else self.answered

    def set_metadata_topics(self, topics):
        assert topics == set(self.view.list_requested_topics())

    def refresh_metadata(self):
        self.view.request_refresh()

    def tick(self, now_s):
        return 1.0

    def choose_version(self, node_id, api_key, low, high):
        return None

    def get_connection_error(self, node_id):
        return None

    def get_connection_errors(self):
        return {}

    def call(self, to, message, **how):
        pass


class Loop:
    """A copy loop of one partition, which was taken in a world of its own and is copied."""

    def __init__(self):
        where = taking.where()
        self.now_s, self.waits_s = 1000.0, 0.0
        self.source, self.target = Cluster(where.topic), Cluster(where.remote_topic)
        self.sent: list[dict[str, Any]] = []
        settings = SimpleNamespace(
            source=SimpleNamespace(alias="a", properties={}),
            target=SimpleNamespace(alias="b", properties={}),
            partitions=(where,),
            owner=taking.ME,
            budget_bytes=1 << 20,
            throttle_bytes_s=0,
            topic_throttles={},
            granted=False,
            unreachable_after_s=10,
        )
        self.loop = CopyLoop(
            cast(Any, settings),
            source=cast(Any, self.source),
            target=cast(Any, self.target),
            driver=DriverClient(cast(Any, SimpleNamespace(send=self.sent.append))),
            poller=cast(Any, SimpleNamespace(poll=self.poll)),
            clock=cast(Any, SimpleNamespace(now_s=lambda: self.now_s, wall_ms=lambda: 50_000)),
            random=random.Random(1),
        )
        self.world = World()
        self.world.copy = self.loop.partitions[0]
        self.world.tick()
        assert self.world.standing.phase is Phase.COPYING

    def poll(self, wait_s, *, woken):
        """Something happens after `waits_s`."""
        self.now_s += self.waits_s
        woken()

    def turn(self, after_s=1.0):
        self.now_s += after_s
        self.loop.run_once()

    @property
    def pulse(self):
        """The newest one."""
        found = [each for each in self.sent if each["type"] == "progress"][-1]
        return progress_reports.decode_latency_snapshot(found, self.now_s - found["now_s"])

    @property
    def gauge(self):
        """The newest one."""
        return [each for message in self.sent for each in _gauges(message)][-1]

    @property
    def told(self):
        """(phase, reason) of the newest gauge."""
        return self.gauge.phase, self.gauge.reason


def _gauges(message):
    return (
        progress_reports.decode_progress_reports(message, 0.0)
        if message["type"] == "progress"
        else []
    )


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_partition_without_a_leader_waits_until_it_has_one(side):
    loop = Loop()
    loop.turn()
    assert loop.told == ("copying", "")
    view = getattr(loop, side).view
    metadata.say(view, leader=-1)
    loop.turn()
    name = {"source": "source partition orders-4", "target": "mirror partition a.orders-4"}[side]
    assert loop.told == ("waiting", f"{name} has no leader")
    metadata.say(view)
    loop.turn()
    assert loop.told == ("copying", "")


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_partition_whose_leader_stopped_answering_says_since_when_and_its_lag_is_unknown(side):
    loop = Loop()
    loop.world.copy.source.end = known_end = 20
    loop.turn()
    assert loop.told == ("copying", "")
    assert loop.gauge.source_end == known_end
    cluster = getattr(loop, side)
    cluster.answered = loop.now_s
    alias = {"source": "a", "target": "b"}[side]
    since = unreachable_cluster.format_utc_time(50_000 - 11_000)
    for _ in range(11):
        assert loop.told == ("copying", "")
        loop.turn(1.0)
    reason = f"{side} {alias} broker 1 (a:9092) unreachable since {since}"
    assert loop.told == ("waiting", reason)
    assert loop.gauge.source_end == (-1 if side == "source" else known_end)
    cluster.answered = None
    loop.turn(1.0)
    assert loop.told == ("copying", "")
    assert loop.gauge.source_end == known_end


def test_a_source_topic_that_metadata_miss_ends_the_copying():
    loop = Loop()
    loop.turn()
    metadata.say(loop.source.view, error_code=3)
    loop.turn()
    assert loop.world.standing.phase is not Phase.COPYING
    assert "missing (deleted?)" in loop.world.standing.reason


def test_a_source_topic_that_is_missed_at_a_boundary_is_looked_at_again():
    loop = Loop()
    loop.turn()
    loop.world.standing.begin_pause_between_batches()
    metadata.say(loop.source.view, error_code=3)
    loop.turn()
    assert loop.world.standing.phase is Phase.BOUNDARY
    loop.world.standing.begin_copying()
    loop.turn(copy_loop.SWEEP_INTERVAL_S)
    assert "missing (deleted?)" in loop.world.standing.reason


def test_a_mirror_that_is_missing_is_no_refusal_of_the_source():
    loop = Loop()
    metadata.say(loop.target.view, error_code=3)
    loop.turn()
    assert loop.world.standing.phase is Phase.COPYING
    assert loop.told[1] == "mirror partition a.orders-4 has no leader: " + (
        "UNKNOWN_TOPIC_OR_PARTITION (3)"
    )


@pytest.mark.parametrize(
    ("slow_acks", "while_waiting"), [(True, batch_size_limits.DECODE_PART_RECORDS), (False, 16)]
)
def test_larger_batches_are_joined_while_the_loop_waits_for_slow_acknowledgements(
    monkeypatch, slow_acks, while_waiting
):
    monkeypatch.setattr(BatchProducer, "has_slow_acks", slow_acks)
    loop = Loop()
    joining = loop.world.copy.send_queue.limits.merge_limits
    found = []
    for waits_s in (0.0, 1.0, 0.0):
        loop.waits_s = waits_s
        loop.turn(after_s=1.0 - waits_s)
        loop.turn(after_s=1.0 - waits_s)
        found.append(joining.records)
    assert found == [
        batch_size_limits.ALWAYS_MERGED_RECORDS,
        while_waiting,
        batch_size_limits.ALWAYS_MERGED_RECORDS,
    ]


def test_nothing_is_left_to_copy_as_long_as_the_source_says_so(monkeypatch):
    loop = Loop()
    copy = loop.world.copy
    loop.turn()
    assert loop.pulse.caught_up_at_s == replication_latency.NEVER_S, (
        "it is not known where the source ends"
    )
    heard_s = loop.now_s - 2.0
    monkeypatch.setattr(loop.loop._fetcher, "find_oldest_response_time_s", lambda: heard_s)
    copy.source.end = partition_lag.compute_replicated_end_offset(copy)
    loop.loop._handle_records_arrived(copy)
    loop.turn()
    assert loop.pulse.caught_up_at_s == heard_s
    copy.source.end += 1
    loop.loop._handle_records_arrived(copy)
    monkeypatch.setattr(loop.loop._fetcher, "find_oldest_response_time_s", lambda: loop.now_s)
    loop.turn()
    assert loop.pulse.caught_up_at_s == heard_s, "that was the last moment"


def test_a_paused_partition_is_not_known_to_have_nothing_left(monkeypatch):
    loop = Loop()
    copy = loop.world.copy
    monkeypatch.setattr(loop.loop._fetcher, "find_oldest_response_time_s", lambda: loop.now_s)
    copy.source.end = partition_lag.compute_replicated_end_offset(copy)
    loop.loop.set_paused_topics(paused=True, topics=())
    loop.turn()
    assert loop.pulse.caught_up_at_s == replication_latency.NEVER_S
