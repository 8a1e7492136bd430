"""`mm2 failover` moves a consumer group that works: planned, and with the origin killed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mm2.sandbox import cluster
from mm2.sandbox.traffic import applications
from tests.support import eventually, kafka, mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

TOPIC, GROUP, PARTITIONS = "orders", "billing", 3
MIRROR = f"east.{TOPIC}"
DEADLINE_S = 90.0
MOVE = ("failover", "--from", "east", "--to", "west")


class Scene:
    """Two clusters, a flow between them, an application that writes and one that reads."""

    def __init__(self, folder: Path, own_cluster: Callable[..., cluster.Cluster]) -> None:
        self.folder = folder
        self.east, self.west = own_cluster("east"), own_cluster("west")
        self.source, self.target = (each.client_properties() for each in (self.east, self.west))
        kafka.create_topic(self.source, TOPIC, partitions=PARTITIONS)
        applications.begin(self.source, GROUP, TOPIC, partitions=PARTITIONS)
        self.running = mirror.Mirror(
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
        self.writing = applications.Writing(self.source, TOPIC, partitions=PARTITIONS)
        self.here = applications.Reading(self.source, GROUP, TOPIC)
        self.there = applications.Reading(self.target, GROUP, MIRROR)

    def mm2(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return mirror.mm2(*MOVE, "--config", self.running.settings_path, *arguments)

    def plan(self, *arguments: str) -> dict[str, Any]:
        done = self.mm2("--json", *arguments)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def await_work(self) -> None:
        """Records flow, and are processed on the origin."""
        eventually.eventually(
            lambda: len(self.here.processed) > 300,
            DEADLINE_S,
            lambda: f"{len(self.writing.sent)} written, {len(self.here.processed)} processed",
        )
        self.running.await_records(200, topic=TOPIC)

    def finish_there(self) -> set[int]:
        """The application goes on on the destination, up to the end; what stood before it."""
        stands = applications.positions(self.target, GROUP, MIRROR, partitions=PARTITIONS)
        before = {
            int(record.value or b"-1")
            for number, at in stands.items()
            for record in kafka.read_partition(self.target, MIRROR, number, start=at)
        }
        with self.there:
            eventually.eventually(
                lambda: before <= set(self.there.processed),
                DEADLINE_S,
                lambda: f"{len(before)} to read, {len(set(self.there.processed))} processed",
            )
        return before


@pytest.fixture
def scene(tmp_path: Path, own_cluster: Callable[..., cluster.Cluster]) -> Scene:
    return Scene(tmp_path, own_cluster)


@pytest.mark.full
def test_a_planned_move_loses_nothing_and_reads_nothing_again(scene: Scene, tmp_path: Path):
    with scene.running, scene.writing, scene.here:
        scene.await_work()
        journal = tmp_path / "journal.jsonl"
        command = [
            *(*mirror.COMMAND, *MOVE, "--planned", "--execute", "--settle", "2"),
            *("--journal", str(journal), "--config", str(scene.running.settings_path)),
        ]
        said = []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as moving:
            assert moving.stdout is not None
            for line in moving.stdout:
                said.append(line)
                if line.startswith("stop-producers: no hook"):
                    scene.writing.stop()
                if line.startswith("stop-consumers: no hook"):
                    scene.here.stop()
        assert moving.returncode == 0, "".join(said) + scene.running.tail
        scene.finish_there()
    processed = scene.here.processed + scene.there.processed
    assert len(scene.writing.sent) > 300
    assert len(processed) == len(set(processed))
    assert set(processed) == scene.writing.sent
    told = json.loads(journal.read_text().splitlines()[-1])["detail"]
    assert (told["lag_records"], told["read_again_max"]) == (0, 0)


@pytest.mark.full
def test_a_frozen_twin_is_refused_when_it_thaws(scene: Scene):
    """It holds connections, an epoch, and records that it read before."""
    with scene.running, scene.writing:
        scene.here.start()
        scene.await_work()
        scene.here.stop()
        scene.running.signal(signal.SIGSTOP)
        done = scene.mm2("--execute", "--journal", str(scene.folder / "journal.jsonl"))
        assert done.returncode == 0, done.stdout + done.stderr
        before = [kafka.offsets(scene.target, MIRROR, each)[1] for each in range(PARTITIONS)]
        scene.running.signal(signal.SIGCONT)
        scene.running.await_log("it was stopped", DEADLINE_S)
        after = [kafka.offsets(scene.target, MIRROR, each)[1] for each in range(PARTITIONS)]
    assert after == before


def test_the_origin_is_killed_and_the_group_goes_on(scene: Scene):
    with scene.running:
        with scene.writing, scene.here:
            scene.await_work()
            eventually.eventually(
                lambda: scene.plan()["groups"] != [], DEADLINE_S, "the group is seen"
            )
            eventually.eventually(
                lambda: f"{mirror.FLOW[:4]}.checkpoints.internal" in kafka.topics(scene.target),
                DEADLINE_S,
            )
            scene.running.await_log(r"checkpoint", DEADLINE_S)
            scene.here.cut_off = True
            scene.east.kill()
        planned = scene.plan()
        assert planned["verdict"] == "go-at-a-cost"
        assert "origin-unreachable" in {each["code"] for each in planned["findings"]}
        done = scene.mm2("--execute", "--journal", str(scene.folder / "journal.jsonl"))
        assert done.returncode == 0, done.stdout + done.stderr
        before = scene.finish_there()
    assert len(scene.there.processed) == len(set(scene.there.processed))
    assert set(scene.there.processed) == before
    mirrored = {
        int(record.value or b"-1")
        for number in range(PARTITIONS)
        for record in kafka.read_partition(scene.target, MIRROR, number)
    }
    assert mirrored <= set(scene.here.processed) | before
