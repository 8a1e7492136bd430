"""`mm2 failover` moves a consumer group that works: planned, and with the origin killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka, moved_groups
from tests.support.moved_groups import Scene

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


@pytest.fixture
def scene(tmp_path: Path, own_cluster: Callable[..., SandboxCluster]) -> Scene:
    return Scene(tmp_path, own_cluster)


@pytest.mark.full
def test_a_planned_move_loses_nothing_and_reads_nothing_again(scene: Scene, tmp_path: Path):
    with scene.running, scene.writing, scene.here:
        scene.await_work()
        journal = tmp_path / "journal.jsonl"
        said = []
        with scene.moving(
            *("--planned", "--execute", "--quiescence", "2", "--journal", str(journal))
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
    assert (told["lag_records"], told["reread_max"]) == (0, 0)


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
        before = [
            kafka.offsets(scene.target, moved_groups.MIRROR, each)[1]
            for each in range(moved_groups.PARTITIONS)
        ]
        scene.running.signal(signal.SIGCONT)
        scene.running.await_log("it was stopped", moved_groups.DEADLINE_S)
        after = [
            kafka.offsets(scene.target, moved_groups.MIRROR, each)[1]
            for each in range(moved_groups.PARTITIONS)
        ]
    assert after == before


def test_the_origin_is_killed_and_the_group_goes_on(scene: Scene):
    with scene.running:
        with scene.writing, scene.here:
            scene.await_work()
            eventually.eventually(
                lambda: scene.plan("--origin-lost")["groups"] != [],
                moved_groups.DEADLINE_S,
                "the group has a checkpoint",
            )
            scene.here.abandon_cluster = True
            scene.east.kill()
        planned = scene.plan()
        assert planned["verdict"] == "go-at-a-cost"
        assert "origin-unreachable" in {each["code"] for each in planned["findings"]}
        done = scene.mm2("--execute", "--journal", str(scene.folder / "journal.jsonl"))
        assert done.returncode == 0, done.stdout + done.stderr
        before = scene.finish_there()
    assert len(scene.there.processed) == len(set(scene.there.processed))
    assert set(scene.there.processed) == before
    logs = [
        kafka.read_partition(scene.target, moved_groups.MIRROR, number)
        for number in range(moved_groups.PARTITIONS)
    ]
    mirrored = {int(record.value or b"-1") for log in logs for record in log}
    assert mirrored <= set(scene.here.processed) | before
    report = json.loads((scene.folder / "journal.jsonl").read_text().splitlines()[-1])["detail"]
    assert report["newest_ms"] == max(log[-1].timestamp for log in logs)  # and of no marker
