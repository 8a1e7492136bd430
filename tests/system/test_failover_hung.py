"""`mm2 failover` to a cluster of which a broker hangs: the rest is moved without waiting for it any
longer than it takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin as library

from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.traffic import simulated_applications
from tests.support import eventually, kafka, mirror
from tests.support.kafka import Outgoing
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(500)]

TOPIC, GROUP, PARTITIONS, RECORDS = "orders", "billing", 3, 300
MIRROR = f"east.{TOPIC}"
LEADERS = (1, 3, 2)
"""Of the mirror's partitions; the one in the middle hangs, and leads nothing else."""
HANGS = 3
DEADLINE_S, LOOK_S, WAIT_S = 120.0, 15.0, 400.0
CLOCK = SystemClock()
TWO = {
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "min.insync.replicas": "1",
}


class Scene:
    """All was mirrored, and the group has a checkpoint."""

    def __init__(
        self, folder: Path, own_cluster: Callable[..., SandboxCluster], *, session_ms: int
    ) -> None:
        self.folder = folder
        self.west = own_cluster(
            "west", brokers=3, settings={**TWO, "broker.session.timeout.ms": f"{session_ms}"}
        )
        self.source = own_cluster("east").client_properties()
        self.target = self.west.client_properties()
        kafka.create_topic(self.source, TOPIC, partitions=PARTITIONS)
        simulated_applications.create_group_at_offset_zero(
            self.source, GROUP, TOPIC, partitions=PARTITIONS
        )
        self._create_mirror()
        self._make_no_more_there()
        given = mirror.settings(
            self.source,
            self.target,
            topics=[TOPIC],
            spark={"engine": "inline"},
            replication_factor=-1,
            emit_checkpoints_interval_seconds=1,
            refresh_groups_interval_seconds=1,
        )
        self.running = Mirror(folder, given)

    def _create_mirror(self) -> None:
        kafka.create_topic(self.target, MIRROR, replicas=[[leader] for leader in LEADERS])

    def _make_no_more_there(self) -> None:
        """What is made for ourselves is made on the other brokers."""
        entry = library.ConfigEntry(
            "cordoned.log.dirs", "*", incremental_operation=library.AlterConfigOpType.SET
        )
        broker = library.ConfigResource(
            library.ResourceType.BROKER, str(HANGS), incremental_configs=[entry]
        )
        client = kafka.admin_client(self.target)
        kafka.retried(lambda: client.incremental_alter_configs([broker])[broker].result(30))

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
            *("--wait", f"{WAIT_S:g}", "--config", str(self.running.settings_path), *arguments),
            timeout_s=300.0,
        )
        assert done.stdout, done.stderr
        (self.folder / "told").write_text(done.stderr)
        found: dict[str, Any] = json.loads(done.stdout)
        return found, CLOCK.now_s() - started

    def mirror_all(self) -> None:
        """And the plan says so."""
        records = [
            Outgoing(value=str(number).encode(), partition=number % PARTITIONS)
            for number in range(RECORDS)
        ]
        kafka.produce(self.source, TOPIC, records)
        self.running.await_records(RECORDS, topic=TOPIC)
        eventually.eventually(
            lambda: self.mm2()[0]["verdict"] == "go", DEADLINE_S, "nothing stands in the way"
        )


def codes(found: dict[str, Any]) -> set[str]:
    return {each["code"] for each in found["findings"]}


@pytest.mark.full
@pytest.mark.parametrize("session_ms", [9_000, 600_000], ids=["it is declared dead", "it leads on"])
def test_a_broker_that_hangs_is_waited_for_no_longer_than_it_takes(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster], session_ms: int
):
    scene = Scene(tmp_path, own_cluster, session_ms=session_ms)
    with scene.running:
        scene.mirror_all()
        scene.west.brokers[HANGS].freeze()
        found, took_s = scene.mm2()
        assert (found["verdict"], codes(found)) == ("no-go", {"mirror-unknown"}), found["findings"]
        assert took_s < 4 * LOOK_S
        report, took_s = scene.mm2(
            *("--execute", "--accept", "mirror-unknown"),
            *("--journal", str(tmp_path / "journal.jsonl")),
        )
        told = (tmp_path / "told").read_text()
        assert report["unmoved"] == [], told
        assert took_s < WAIT_S / 2, told
    stands = simulated_applications.read_group_offsets(
        scene.target, GROUP, MIRROR, partitions=PARTITIONS
    )
    assert stands == dict.fromkeys(range(PARTITIONS), 1)  # behind the mark of a beginning
    journal = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    (fenced,) = (each for each in journal if each.get("step") == "fence" and "detail" in each)
    left = {each["partition"]: each["unfenced"] for each in fenced["detail"]["partitions"]}
    assert left.pop(LEADERS.index(HANGS)).startswith("its mirror does not respond")
    assert set(left.values()) == {""}
