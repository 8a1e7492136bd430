"""Brokers before 2.8 give topics no ids: what was made again there is told by its log alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import content, eventually, kafka, mirror, obeying, operations
from tests.support.kafka import Properties
from tests.support.mirror import Mirror
from tests.support.steady import Steady

pytestmark = [
    pytest.mark.system,
    pytest.mark.full,
    pytest.mark.timeout(300),
    pytest.mark.kafka_versions("2.8"),
]

NO_IDS = {"kafka_version": "2.8", "settings": {"inter.broker.protocol.version": "2.7"}}
SOON_S = 60.0
RETRIES_S = 40.0
"""What is tried again is tried within this."""


def settings(source: Properties, target: Properties, *topics: str) -> dict[str, Any]:
    inline = {"engine": "inline"}
    return mirror.settings(source, target, topics=[*topics], spark=inline)


def assert_stays_stopped(run: Mirror, topic: str, cause: str) -> None:
    end_s = mirror.CLOCK.now_s() + RETRIES_S

    def through() -> bool:
        assert (topic, cause) in run.stopped() or not run.metrics()
        return mirror.CLOCK.now_s() >= end_s

    eventually.eventually(through, RETRIES_S + 10.0, interval_s=1.0)


def test_a_source_topic_that_was_made_again_stops_for_good(
    tmp_path: Path, own_cluster: Any, west: SandboxCluster, topic: Any
):
    """Even once it is longer than what was copied of the other one."""
    source, target = own_cluster("old", **NO_IDS).client_properties(), west.client_properties()
    good, again = (kafka.create_topic(source, topic(label)) for label in ("good", "again"))
    with (
        Mirror(tmp_path, settings(source, target, good, again)) as run,
        Steady(source, {good: 1, again: 1}) as traffic,
    ):
        run.await_records(40, topic=again)
        traffic.leave(again)
        before = kafka.read_partition(source, again)
        eventually.eventually(
            lambda: len(kafka.read_partition(target, f"east.{again}")) == len(before), SOON_S
        )
        operations.recreate(source, again)
        run.await_stopped(again, "source-truncated", SOON_S)
        run.await_log(rf"{again}-0 is halted: .*it was truncated or recreated.*mm2 topic reset")
        kafka.produce(source, again, content.some(2 * len(before)))
        assert_stays_stopped(run, again, "source-truncated")
        assert len(kafka.read_partition(target, f"east.{again}")) == len(before)
        copied = run.records(topic=good)
        run.await_records(copied + 50, topic=good)
        there = len(before) + len(kafka.read_partition(source, again))
        said = obeying.obey(obeying.remedy_of(run, again, "source-truncated"), folder=tmp_path)
        assert f"{again}-0: replicating again from source offset 0" in said
        eventually.eventually(
            lambda: len(kafka.read_partition(target, f"east.{again}")) == there, SOON_S
        )
        assert run.stop() == 143


def test_a_mirror_topic_that_was_made_again_is_filled_again(
    tmp_path: Path, own_cluster: Any, east: SandboxCluster, topic: Any
):
    """Its log ends before what the map speaks of, as after an unclean election: what it lost is
    copied once more."""
    source, target = east.client_properties(), own_cluster("old", **NO_IDS).client_properties()
    good, again = (kafka.create_topic(source, topic(label)) for label in ("good", "again"))
    with (
        Mirror(tmp_path, settings(source, target, good, again)) as run,
        Steady(source, {good: 1, again: 1}) as traffic,
    ):
        run.await_records(40, topic=again)
        operations.recreate(target, f"east.{again}")
        run.await_records(run.records(topic=again) + 100, SOON_S, topic=again)
        traffic.stop()
        count = len(kafka.read_partition(source, again))
        eventually.eventually(
            lambda: len(kafka.read_partition(target, f"east.{again}")) == count, SOON_S
        )
        content.assert_mirrored(source, target, good, again)
        assert run.stopped() == set()
        assert run.stop() == 143
