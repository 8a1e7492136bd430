"""Topics change while a flow mirrors them and a producer writes to them all the time."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest

from mm2.sandbox import replication_proof
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka, mirror, operations
from tests.support.kafka import Properties
from tests.support.mirror import Mirror
from tests.support.steady import Steady

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

SEEN_S = 40.0
CHANGED = ("grown", "narrow", "stamped", "squeezed", "compacted")


def test_what_changes_in_order_is_followed_without_a_stop(
    tmp_path: Path, east: SandboxCluster, west: SandboxCluster, topic: Any
):
    """One run for all, since none of it may disturb the others."""
    source, target = east.client_properties(), west.client_properties()
    names = {label: topic(label) for label in (*CHANGED, "created")}
    for label in CHANGED:
        kafka.create_topic(source, names[label])
    given = flow(source, target, names["grown"].partition("-grown-")[0] + "-.*")
    with (
        Mirror(tmp_path, given) as run,
        Steady(source, {names[label]: 1 for label in CHANGED}, bytes_each=500) as traffic,
    ):
        for label in CHANGED:
            run.await_records(20, topic=names[label])
        change(source, target, names)
        traffic.follow(names["grown"], 3)
        traffic.follow(names["created"], 2)
        assert_followed(run, target, names)
        traffic.go_on()
        traffic.stop()
        assert run.stopped() == set()
        assert run.figure("mm2_task_restarts_total") == 0
        assert_lossless(run, names)
        assert_equal(source, target, names.values(), restamped=[names["stamped"]])
        assert run.stop() == 143


def flow(source: Properties, target: Properties, topics: str, **more: Any) -> Any:
    """It looks every second; what a test sets on mirrors is left alone."""
    return mirror.settings(
        source,
        target,
        topics=topics,
        tasks_max=2,
        spark={"engine": "inline"},
        **{
            "refresh_topics_interval_seconds": 1,
            "sync_topic_configs_interval_seconds": 1,
            "config_properties_exclude": [
                *("max.message.bytes", "message.timestamp.type", "compression.type")
            ],
        }
        | more,
    )


def change(source: Properties, target: Properties, names: dict[str, str]) -> None:
    operations.grow(source, names["grown"], 3)
    operations.configure(target, f"east.{names['narrow']}", {"max.message.bytes": "1200"})
    append_time = {"message.timestamp.type": "LogAppendTime"}
    operations.configure(source, names["stamped"], append_time)
    operations.configure(target, f"east.{names['squeezed']}", {"compression.type": "gzip"})
    operations.configure(source, names["compacted"], {"cleanup.policy": "compact"})
    kafka.create_topic(source, names["created"], partitions=2)


def assert_followed(run: Mirror, target: Properties, names: dict[str, str]) -> None:
    created, grown = names["created"], names["grown"]
    run.await_log(rf"topic {created}: now mirrored \(2 partitions\)", SEEN_S)
    run.await_log(rf"topic {grown}: 2 partitions added, replicated from the first", SEEN_S)
    run.await_records(20, topic=created)
    assert kafka.partition_count(target, f"east.{grown}") == 3
    mirrored = f"east.{names['compacted']}"
    eventually.eventually(
        functools.partial(has_setting, target, mirrored, "cleanup.policy", "compact"), SEEN_S
    )
    for label in ("narrow", "stamped", "squeezed"):
        eventually.eventually(functools.partial(is_opened, run, names[label]), SEEN_S)


def has_setting(target: Properties, topic: str, key: str, value: str) -> bool:
    return operations.settings(target, topic)[key] == value


def is_opened(run: Mirror, topic: str) -> bool:
    return run.figure("mm2_reencoded_partitions", topic=topic) == 1


def assert_lossless(run: Mirror, names: dict[str, str]) -> None:
    """Of the batch that a broker had rewritten before we saw its topic's new setting, an incident
    says that it is not the one recorded; there is nothing behind it that could stand there twice.
    """
    for label, name in names.items():
        if label != "squeezed":
            assert run.figure("mm2_incidents_total", topic=name) <= 0
    stated = re.findall(r"incident (\S+): \S+, mirror offsets \[(\d+), (\d+)\)", run.log)
    assert all(kind == "not-paired" and start == end for kind, start, end in stated), stated


def assert_equal(
    source: Properties, target: Properties, topics: Any, *, restamped: Any = ()
) -> None:
    """An ordinary reader of committed data finds both sides equal, once the copy is through."""
    pairs = {topic: f"east.{topic}" for topic in topics}

    def equal() -> bool:
        found = replication_proof.compare_topics(source, target, pairs, restamped=restamped)
        assert found.is_equal, str(found)
        return found.records > 0

    eventually.eventually(equal, SEEN_S, interval_s=0.5)
