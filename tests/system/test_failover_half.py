"""`mm2 failover` from a cluster of which a broker is dead: what it alone knew is told, no more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.traffic import simulated_applications
from tests.support import eventually, kafka, mirror
from tests.support.kafka import Outgoing
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

TOPIC, PARTITIONS, RECORDS = "orders", 3, 300
MIRROR = f"east.{TOPIC}"
GROUPS = tuple(f"billing-{number}" for number in range(6))
DEADLINE_S = 120.0
LOOK_S = 15.0
SINGLE = {
    "offsets.topic.replication.factor": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
}
CLOCK = SystemClock()


class Scene:
    """Three brokers that each alone have a part of a topic and some of the groups; all was
    mirrored, and every group has a checkpoint."""

    def __init__(self, folder: Path, own_cluster: Callable[..., SandboxCluster]) -> None:
        self.east = own_cluster("east", brokers=3, settings=SINGLE)
        self.source = self.east.client_properties()
        self.target = own_cluster("west").client_properties()
        self.folder = folder
        kafka.create_topic(self.source, TOPIC, partitions=PARTITIONS, replication_factor=1)
        for name in GROUPS:
            simulated_applications.create_group_at_offset_zero(
                self.source, name, TOPIC, partitions=PARTITIONS
            )
        kafka.produce(
            self.source,
            TOPIC,
            [
                Outgoing(value=str(number).encode(), partition=number % PARTITIONS)
                for number in range(RECORDS)
            ],
        )
        self.running = Mirror(
            folder,
            mirror.settings(
                self.source,
                self.target,
                topics=[TOPIC],
                spark={"engine": "inline"},
                emit_checkpoints_interval_seconds=1,
                refresh_groups_interval_seconds=1,
            ),
        )

    def mm2(self, *arguments: str) -> tuple[dict[str, Any], float]:
        """What it printed as JSON, and how long it took."""
        started = CLOCK.now_s()
        done = mirror.mm2(
            *(
                "failover",
                "--from",
                "east",
                "--to",
                "west",
                "--snapshot-timeout",
                f"{LOOK_S:g}",
                "--json",
            ),
            *("--config", str(self.running.settings_path), *arguments),
            timeout_s=200.0,
        )
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found, CLOCK.now_s() - started

    def plan(self, *arguments: str) -> dict[str, Any]:
        return self.mm2(*arguments)[0]

    def lose_one(self, *, frozen: bool) -> None:
        """The broker that leads partition 1: dead, or silent with its connections open."""
        broker = self.east.brokers[kafka.partitions(self.source, TOPIC)[1].leader]
        if frozen:
            broker.freeze()
        else:
            broker.kill()


def codes(found: dict[str, Any]) -> dict[str, list[str]]:
    """Texts of the findings, by code."""
    told: dict[str, list[str]] = {}
    for each in found["findings"]:
        told.setdefault(each["code"], []).append(each["text"])
    return told


@pytest.mark.full
@pytest.mark.parametrize("frozen", [False, True])
def test_what_a_dead_broker_alone_knew_is_told(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster], frozen: bool
):
    scene = Scene(tmp_path, own_cluster)
    with scene.running:
        scene.running.await_records(RECORDS, topic=TOPIC)
        eventually.eventually(
            lambda: len(scene.plan("--origin-lost")["groups"]) == len(GROUPS),
            DEADLINE_S,
            "checkpoints of all groups",
        )
        assert scene.plan()["verdict"] == "go"
        scene.lose_one(frozen=frozen)
        found, took_s = scene.mm2()
        assert took_s < 3 * LOOK_S
        said = json.dumps([each for each in found["findings"] if each["severity"] == "no-go"])
        assert (found["verdict"], found["origin_error"]) == ("go-at-a-cost", ""), said
        ends = {each["partition"]: each["source_end"] for each in found["partitions"]}
        assert ends == {0: RECORDS // 3, 1: None, 2: RECORDS // 3}
        groups = {each["group"]: each["origin"] for each in found["groups"]}
        assert sorted(groups) == sorted(GROUPS)
        lost = {name for name, origin in groups.items() if origin == "checkpoint"}
        assert lost
        assert lost != set(GROUPS)
        told = codes(found)
        assert [text.split(":")[0] for text in told["lag-unknown"]] == [f"{TOPIC}-1"]
        assert len(told["group-unreadable"]) == len(lost)
        assert "of the 5 partitions of __consumer_offsets" in told["groups-unlisted"][0]
        assert "--origin-lost" in told["origin-partly-unreachable"][0]
        report, _ = scene.mm2("--execute", "--journal", str(tmp_path / "journal.jsonl"))
        assert report["unmoved"] == []
    for name in GROUPS:
        stands = simulated_applications.read_group_offsets(
            scene.target, name, MIRROR, partitions=PARTITIONS
        )
        assert stands == dict.fromkeys(range(PARTITIONS), 1)  # behind the mark of a beginning
